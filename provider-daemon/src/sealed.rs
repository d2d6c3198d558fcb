//! The process keeps its memory to itself: a core dump of it would hold the private key.

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};

/// Turns core dumps off, for this process and for those it starts. Where that fails it goes on, and says so: a
/// provider that does not start serves nobody.
pub(crate) fn seal() {
    if let Err(error) = without_core_dumps() {
        tracing::warn!(%error, "core dumps cannot be turned off: one of this process would hold the private key");
    }
}

fn without_core_dumps() -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // A program that collects dumps is given them whatever the limit is.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::getrlimit;

    #[test]
    fn a_sealed_process_is_not_dumped() {
        seal();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
        #[cfg(target_os = "linux")]
        assert_eq!(nix::sys::prctl::get_dumpable(), Ok(false));
    }
}
