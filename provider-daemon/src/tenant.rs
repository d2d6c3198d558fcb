//! The tenant's side: what whoever rents asks of providers, ours or anybody else's.
//!
//! ```text
//!  command ── lease ── which leases are meant, and where their providers are: the chain says
//!     │
//!     └───── client ── a connection of its own for every request
//!              ├ trust    the provider is who it should be, before it is told anything
//!              ├ auth     a token for this provider and this one purpose, or the certificate
//!              └ stream   logs, events, shells: websockets
//! ```
//!
//! Words, flags and what is printed are those of the network's tool; `docs/tenants.md` is the guide.

mod auth;
mod client;
mod events;
mod follow;
mod get_manifest;
mod json;
mod lease;
mod lease_status;
mod logs;
mod migrate;
mod namespace;
mod output;
mod overview;
mod places;
mod resume;
mod screening;
mod sdl_to_manifest;
mod send_manifest;
mod service_status;
mod shell;
mod status;
mod stream;
mod trouble;
mod trust;
mod wait;

pub(crate) use screening::{Screened, Screener};

use crate::args::TenantCommand;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

/// Does one thing for a tenant.
///
/// # Errors
/// What could not be done, where, and the mend. What failed at some of several providers is told as it happens, and
/// the exit code is 1.
pub fn run(command: &TenantCommand, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    match command {
        TenantCommand::SendManifest(args) => block_on(send_manifest::run(args, &home?)),
        TenantCommand::GetManifest(args) => block_on(get_manifest::run(args, &home?)),
        TenantCommand::LeaseStatus(args) => block_on(lease_status::run(args, &home?)),
        TenantCommand::ServiceStatus(args) => block_on(service_status::run(args, &home?)),
        TenantCommand::LeaseLogs(args) => block_on(logs::run(args, &home?)),
        TenantCommand::LeaseEvents(args) => block_on(events::run(args, &home?)),
        TenantCommand::LeaseShell(args) => block_on(shell::run(args, &home?)),
        TenantCommand::Status(args) => block_on(status::run(args)),
        TenantCommand::MigrateHostnames(args) => block_on(migrate::run(args, &home?, &migrate::HOSTNAMES)),
        TenantCommand::MigrateEndpoints(args) => block_on(migrate::run(args, &home?, &migrate::ENDPOINTS)),
        TenantCommand::SdlToManifest(args) => sdl_to_manifest::run(args),
        TenantCommand::ShowClusterNs(args) => Ok(namespace::run(args)),
    }
}

/// Runs a command. Threads that still wait for the terminal, which nothing can end, are left behind.
fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(work);
    runtime.shutdown_background();
    code
}
