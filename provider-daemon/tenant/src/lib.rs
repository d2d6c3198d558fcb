//! Tenant commands: requests of a tenant to any provider of the network.
//!
//! ```text
//!  command ── lease ── finds the leases and the addresses of their providers on the chain
//!     │
//!     └───── client ── opens one connection per request
//!              ├ trust    verifies the server before anything is sent
//!              ├ auth     creates a token for one provider and purpose, or reads the certificate
//!              └ stream   logs, events and shells over websockets
//! ```
//!
//! Commands, flags and output match the Go provider; `docs/tenants.md` is the guide.

pub mod args;
mod attestation;
mod auth;
mod client;
mod error;
mod events;
mod follow;
mod get_manifest;
mod json;
mod lease;
mod lease_query;
mod lease_status;
mod logs;
mod migrate;
mod namespace;
mod output;
mod overview;
mod resume;
mod screening;
mod sdl_location;
mod sdl_to_manifest;
mod send_manifest;
mod service_status;
mod shell;
mod status;
mod stream;
mod trust;
mod wait;

pub use screening::{Screener, ScreeningRefusal, ScreeningResult};

use crate::args::TenantCommand;
use akash_provider_chain::keyring::KeyringError;
use akash_provider_cli::error::Remedy;
use akash_provider_cli::node;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a tenant command.
///
/// # Errors
/// Returns the failed operation with its cause and remedy. If only some of several providers fail, prints the
/// failures and returns exit code 1.
pub fn run(command: &TenantCommand, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    match command {
        TenantCommand::SendManifest(args) => block_on(send_manifest::run(args, &home?)),
        TenantCommand::GetManifest(args) => block_on(get_manifest::run(args, &home?)),
        TenantCommand::LeaseStatus(args) => block_on(lease_status::run(args, &home?)),
        TenantCommand::ServiceStatus(args) => block_on(service_status::run(args, &home?)),
        TenantCommand::LeaseLogs(args) => block_on(logs::run(args, &home?)),
        TenantCommand::LeaseEvents(args) => block_on(events::run(args, &home?)),
        TenantCommand::LeaseShell(args) => block_on(shell::run(args, &home?)),
        TenantCommand::LeaseAttestation(args) => block_on(attestation::run(args, &home?)),
        TenantCommand::Status(args) => block_on(status::run(args)),
        TenantCommand::MigrateHostnames(args) => block_on(migrate::run(args, &home?, &migrate::HOSTNAMES)),
        TenantCommand::MigrateEndpoints(args) => block_on(migrate::run(args, &home?, &migrate::ENDPOINTS)),
        TenantCommand::SdlToManifest(args) => sdl_to_manifest::run(args),
        TenantCommand::ShowClusterNs(args) => Ok(namespace::run(args)),
    }
}

/// Functions that return the remedy for an error of a tenant command.
const REMEDIES: [Remedy; 3] = [
    |cause| cause.downcast_ref::<KeyringError>().and_then(KeyringError::help),
    |cause| node::help(cause),
    |cause| help(cause),
];

/// Returns the remedy of a failed request to a provider. Returns `None` for other errors.
#[must_use]
pub fn help<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
    error
        .downcast_ref::<error::ProviderError>()
        .map(error::ProviderError::help)
}

/// Runs a command to its end. Does not wait for threads blocked on the terminal.
fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(work);
    runtime.shutdown_background();
    code
}
