//! Checks and sample of `dev --processes`.

use crate::args::DevArgs;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::sdl::{self, Sdl};
use akash_provider_service::trial;
use anyhow::{Context, bail};

/// Returns the sample SDL for processes.
///
/// # Errors
/// Returns an error only for an invalid sample.
pub(crate) fn sample() -> anyhow::Result<Sdl> {
    sdl::parse(trial::PROCESS_SAMPLE).context("invalid built-in SDL")
}

/// Checks that all SDLs can run as processes.
///
/// # Errors
/// Returns an error if a service has no command, or if other machines could start processes on this machine.
pub(crate) fn check(args: &DevArgs, sdls: &[(String, Sdl)]) -> anyhow::Result<()> {
    let addresses = [args.gateway_listen_address, args.gateway_grpc_listen_address];
    if let Some(open) = addresses.iter().flatten().find(|a| !a.ip().is_loopback()) {
        bail!(WithHelp::new(
            format!(
                "{open} is reachable from other machines, and the key of the tenant is public: with --processes third parties could run programs here"
            ),
            "set --gateway-listen-address and --gateway-grpc-listen-address to addresses at 127.0.0.1"
        ));
    }
    for (name, sdl) in sdls {
        for service in sdl.manifest.groups.iter().flat_map(|group| &group.services) {
            if service.command.as_ref().is_none_or(Vec::is_empty) {
                bail!(WithHelp::new(
                    format!(
                        "{name}: service `{}` has no command, which --processes requires",
                        service.name
                    ),
                    "add a command, such as `command: [python3, -m, http.server]`"
                ));
            }
        }
    }
    Ok(())
}
