//! Open files of the process: as many as the system allows, and never all of them for strangers.
//!
//! Every connection is a file, and every stream of a tenant another one at the cluster. What the provider itself needs
//! (the chain, the cluster, its state) is kept apart: the gateway lets nobody in any more before that is touched.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;

/// Files kept for everything but the gateway: some connections to each node of the chain and to the cluster, the state,
/// price scripts with three pipes each, and as much again.
const RESERVE: u64 = 256;
/// A connection, and the stream to the cluster that it may become.
const FILES_OF_REST: u64 = 2;
/// Whatever the limit is, somebody is let in.
const LEAST: u64 = 8;

/// Connections there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) rest: usize,
    pub(super) grpc: usize,
}

/// Lets the process have as many open files as the system allows it; says how many.
///
/// # Errors
/// The system does not say, or refuses.
pub fn raise() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        // Service managers keep the soft limit at 1024 for programs that use `select`. Nothing here does.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard.max(soft))
}

/// Connections that are enough for the tenants of most providers: fewer are worth a warning.
const ENOUGH: usize = 1024;

/// Returns a warning with the remedy if the limit of open files leaves so few places that tenants may wait.
pub(super) fn warning(places: Places, wanted: usize) -> Option<String> {
    let fewest = places.rest.min(places.grpc);
    (fewest < wanted.min(ENOUGH)).then(|| {
        let files = files_for(wanted);
        format!(
            "the limit of open files allows {} connections for REST and {} for gRPC: set it to {files} with \
             `ulimit -n {files}`, or LimitNOFILE={files} of a systemd unit",
            places.rest, places.grpc
        )
    })
}

/// Returns the number of open files that allows this number of connections on each port.
fn files_for(wanted: usize) -> u64 {
    // The share of gRPC is the smaller one.
    RESERVE + 4 * wanted as u64
}

/// The connections that fit, and no more than are wanted on each port.
pub(super) fn places(wanted: usize) -> Places {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((files, _)) => of_files(files, wanted),
        Err(error) => {
            tracing::warn!("it is not known how many files may be open: {error}");
            // The soft limit of most systems; to guess low only turns connections away.
            of_files(1024, wanted)
        }
    }
}

/// Three quarters of what is left for tenants, a quarter for gRPC.
fn of_files(files: u64, wanted: usize) -> Places {
    // Under a very low limit the reserve takes half at most, or nobody would be let in at all.
    let left = files.saturating_sub(RESERVE.min(files / 2));
    let at_most = |share: u64| usize::try_from(share.max(LEAST)).map_or(wanted, |s| s.min(wanted));
    Places {
        rest: at_most(left / 4 * 3 / FILES_OF_REST),
        grpc: at_most(left / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_never_get_the_last_files() {
        for files in [16, 64, 256, 512, 1024, 4096, 65_536, u64::MAX] {
            let Places { rest, grpc } = of_files(files, 12_000);
            let taken = u64::try_from(rest).unwrap() * FILES_OF_REST + u64::try_from(grpc).unwrap();
            let is_least = rest == 8 || grpc == 8;
            assert!(is_least || taken <= files - RESERVE.min(files / 2), "{files}");
            assert!(rest >= 8 && grpc >= 8 && rest <= 12_000 && grpc <= 12_000);
        }
        let as_today = Places { rest: 288, grpc: 192 };
        assert_eq!(of_files(1024, 12_000), as_today);
        assert_eq!(of_files(1_048_576, 12_000).rest, 12_000);
        assert_eq!(of_files(1_048_576, 1), Places { rest: 1, grpc: 1 });
    }

    #[test]
    fn a_limit_that_matters_is_reported_with_the_command_that_raises_it() {
        let text = |files, wanted| warning(of_files(files, wanted), wanted);
        let message = text(1024, 12_000).unwrap();
        assert!(message.contains("`ulimit -n 48256`"), "{message}");
        let enough = Places {
            rest: 12_000,
            grpc: 12_000,
        };
        assert_eq!(of_files(48_256, 12_000), enough);
        assert_eq!(text(48_256, 12_000), None);
        assert_eq!(text(20_000, 12_000), None, "thousands are enough");
        assert_eq!(text(1024, 100), None, "no more are wanted");
        assert!(text(512, 1024).unwrap().contains("`ulimit -n 4352`"));
    }

    #[test]
    fn the_limit_is_raised_to_what_the_system_allows() {
        let most = raise().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((soft, most), (hard, hard));
    }
}
