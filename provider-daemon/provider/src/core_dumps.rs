//! Protection of the process memory: a core dump would contain the private key.

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};

/// Disables core dumps for this process and its children. A failure is only logged.
pub fn disable() {
    if let Err(error) = disable_core_dumps() {
        tracing::warn!(%error, "cannot disable core dumps, which would contain the private key; run `ulimit -c 0` before the start");
    }
}

fn disable_core_dumps() -> Result<(), Errno> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // Needed too, because a core dump handler ignores the limit.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::getrlimit;

    #[test]
    fn disables_core_dumps() {
        disable();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
        #[cfg(target_os = "linux")]
        assert_eq!(nix::sys::prctl::get_dumpable(), Ok(false));
    }
}
