//! Limits of open files.
//!
//! Every connection uses one open file, and every stream of a tenant uses another file for its connection to the
//! cluster. The gateway accepts only as many connections as leave a reserve of files for the chain, the cluster and the
//! state of the provider.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;

/// Number of file descriptors that are reserved for the rest of the provider: chain nodes, the cluster, state
/// files and price scripts.
const RESERVE: u64 = 256;
/// File descriptors of a REST connection: one for the client, and one for a stream to the cluster.
const FILES_OF_REST: u64 = 2;
/// Minimum number of connections on a port, even if the limit of open files allows fewer.
const CONNECTIONS_MIN: u64 = 8;

/// Maximum number of connections on each port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) rest: usize,
    pub(super) grpc: usize,
}

/// Raises the limit of open files of this process to the maximum that the system allows. Returns the new limit.
///
/// # Errors
/// Returns an error if the limit cannot be read or set.
pub fn raise() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        // Service managers set the soft limit to 1024 for programs that use `select`. This one does not.
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard.max(soft))
}

/// Number of connections per port below which the provider logs a warning.
const ENOUGH: usize = 1024;

/// Returns the limit of open files for `wanted` connections on each port. Returns `None` if the present limit
/// permits `min(wanted, ENOUGH)` connections.
pub(super) fn files_to_raise_to(places: Places, wanted: usize) -> Option<u64> {
    let fewest = places.rest.min(places.grpc);
    // The share of gRPC is the smaller one.
    (fewest < wanted.min(ENOUGH)).then(|| RESERVE + 4 * wanted as u64)
}

/// Returns the maximum number of connections on each port, at most `wanted`. The number depends on the limit
/// of open files.
pub(super) fn places(wanted: usize) -> Places {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((files, _)) => split(files, wanted),
        Err(error) => {
            tracing::warn!(%error, "cannot read the limit of open files of this process, assuming 1024");
            // The soft limit of most systems. A low guess only refuses connections.
            split(1024, wanted)
        }
    }
}

/// Divides the limit of open files, minus the reserve, between the ports: three quarters for REST, one
/// quarter for gRPC.
fn split(files: u64, wanted: usize) -> Places {
    // With a very low limit the reserve takes half at most, so that some connections remain.
    let left = files.saturating_sub(RESERVE.min(files / 2));
    let at_most = |share: u64| usize::try_from(share.max(CONNECTIONS_MIN)).map_or(wanted, |s| s.min(wanted));
    Places {
        rest: at_most(left / 4 * 3 / FILES_OF_REST),
        grpc: at_most(left / 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_use_the_reserved_files() {
        for files in [16, 64, 256, 512, 1024, 4096, 65_536, u64::MAX] {
            let Places { rest, grpc } = split(files, 12_000);
            let taken = u64::try_from(rest).unwrap() * FILES_OF_REST + u64::try_from(grpc).unwrap();
            let is_least = rest == 8 || grpc == 8;
            assert!(is_least || taken <= files - RESERVE.min(files / 2), "{files}");
            assert!(rest >= 8 && grpc >= 8 && rest <= 12_000 && grpc <= 12_000);
        }
        let as_today = Places { rest: 288, grpc: 192 };
        assert_eq!(split(1024, 12_000), as_today);
        assert_eq!(split(1_048_576, 12_000).rest, 12_000);
        assert_eq!(split(1_048_576, 1), Places { rest: 1, grpc: 1 });
    }

    #[test]
    fn limit_for_too_few_connections_is_to_be_raised() {
        let files = |files, wanted| files_to_raise_to(split(files, wanted), wanted);
        assert_eq!(files(1024, 12_000), Some(48_256));
        let enough = Places {
            rest: 12_000,
            grpc: 12_000,
        };
        assert_eq!(split(48_256, 12_000), enough);
        assert_eq!(files(48_256, 12_000), None);
        assert_eq!(files(20_000, 12_000), None, "thousands are enough");
        assert_eq!(files(1024, 100), None, "no more are wanted");
        assert_eq!(files(512, 1024), Some(4352));
    }

    #[test]
    fn raises_the_limit_to_the_maximum_of_the_system() {
        let most = raise().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((soft, most), (hard, hard));
    }
}
