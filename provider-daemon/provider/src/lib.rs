//! Service of a provider: the provider on a real chain, with its state, supervision, metrics and operators.
//!
//! `provider-daemon` is the program with the command line.

mod acme;
pub mod args;
pub mod audit;
pub mod backend;
pub mod bids;
pub mod cluster_client;
pub mod core_dumps;
pub mod download;
pub mod error;
pub mod files;
pub mod flight;
pub mod history;
pub mod logging;
pub mod metrics;
mod numbered_files;
pub mod operator;
pub mod operators;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod prices;
pub mod printer;
pub mod provider_file;
pub mod run;
pub mod script_supervisor;
pub mod signals;
pub mod state;
pub mod supervise;
pub mod trial;
pub mod writers;

use akash_provider_gateway::ProgramVersion;

/// Name of the program in logs, traces and responses.
pub(crate) const PROGRAM: &str = "provider-daemon";

/// Commit of the build in hexadecimal, or `unknown`. From Git in a checkout, otherwise from
/// `AP_BUILD_COMMIT`.
pub const COMMIT: &str = env!("AP_BUILD_COMMIT");

/// Returns the name and the version of this program.
#[must_use]
pub fn program() -> ProgramVersion {
    ProgramVersion {
        name: PROGRAM,
        version: env!("CARGO_PKG_VERSION"),
        commit: if COMMIT == "unknown" { "" } else { COMMIT },
    }
}
