//! Machine of the provider: home directory, file modes, disk space, limit of open files and clock.

use super::chain::Probe;
use super::check::Check;
use super::disk::{FIX, judge_modes, judge_space};
use super::kubernetes::ClusterConnection;
use super::{DoctorContext, audit};
use akash_provider_cli::plain::count;
use akash_provider_service::args::RunArgs;
use akash_provider_service::files::free_bytes;
use akash_provider_service::state::State;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOME: &str = "home directory";
const MODES: &str = "file modes";
const CLOCK: &str = "clock";
/// Limit of open files that suffices for about 1000 tenant connections.
const FILES_ENOUGH: u64 = 4096;
/// Clock error in seconds above which the times in logs and tokens are wrong.
const SKEW_FEW: i64 = 5;
/// Clock error in seconds above which the provider rejects the nodes of the chain.
const SKEW_MAX: i64 = 60;
/// Mode bits that give access to system users other than the owner.
const OTHERS: u32 = 0o077;

/// Creates missing directories and restricts file modes. Returns one check for each change or failure.
pub(super) fn fix(args: &RunArgs, home: Option<&Path>) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut failed = |line: String| {
        let help = "run `doctor --fix` as the system user that owns the file";
        Check::failure("fix", format!("cannot change {line}"), help)
    };
    if let Some(home) = home {
        let was_missing = !home.exists();
        let (open, _) = State::accessible_files(home);
        let failures = State::restrict_access(home);
        if was_missing && failures.is_empty() {
            checks.push(Check::ok("fix", format!("created {}", home.display())));
        } else if !open.is_empty() && failures.is_empty() {
            checks.push(restricted(&open, home));
        }
        checks.extend(failures.into_iter().map(&mut failed));
    }
    for (path, mode) in secret_files(args, home) {
        match fs::set_permissions(&path, Permissions::from_mode(mode & 0o700)) {
            Ok(()) => checks.push(Check::ok(
                "fix",
                format!("restricted the mode of {}", path.display()),
            )),
            Err(error) => checks.push(failed(format!("{}: {error}", path.display()))),
        }
    }
    let audit = home.and_then(|home| Some(args.audit.settings(home)?.dir));
    if let Some(dir) = audit.as_deref().filter(|dir| dir.exists()) {
        let (open, _) = State::accessible_files(dir);
        let failures = State::restrict_access(dir);
        if !open.is_empty() && failures.is_empty() {
            checks.push(restricted(&open, dir));
        }
        checks.extend(failures.into_iter().map(&mut failed));
    }
    let dirs = [args.record.record.as_deref(), audit.as_deref()];
    for dir in dirs.into_iter().flatten().filter(|dir| !dir.exists()) {
        match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
            Ok(()) => checks.push(Check::ok("fix", format!("created {}", dir.display()))),
            Err(error) => checks.push(failed(format!("{}: {error}", dir.display()))),
        }
    }
    checks
}

fn restricted<T>(open: &[T], dir: &Path) -> Check {
    let paths = count(open.len(), "path");
    Check::ok(
        "fix",
        format!("restricted the modes of {paths} in {}", dir.display()),
    )
}

/// Returns the path and mode of each secret file that other system users can access. Omits files in the home
/// directory: another check examines that directory.
fn secret_files(args: &RunArgs, home: Option<&Path>) -> Vec<(PathBuf, u32)> {
    let signer = &args.signer;
    let files = [
        &signer.key_file,
        &signer.key_passphrase_file,
        &signer.keyring.keyring_passphrase_file,
        &args.bus.bus_password_file,
        &args.bus.bus_key,
        &args.gateway.gateway_tls_key,
    ];
    let outside = |path: &&PathBuf| home.is_none_or(|home| !path.starts_with(home));
    let mode = |path: &PathBuf| {
        let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let mode = about.permissions().mode() & 0o7777;
        (mode & OTHERS != 0).then(|| (path.clone(), mode))
    };
    files
        .into_iter()
        .flatten()
        .filter(outside)
        .filter_map(mode)
        .collect()
}

/// Checks the machine. The clock of the machine is not included; [`clock`] checks the clock.
pub(super) fn checks(context: &DoctorContext<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(home) = context.home {
        checks.extend(judge_home(home, home.is_dir()));
        if home.is_dir() {
            let (open, failures) = State::accessible_files(home);
            let modes = judge_modes(MODES, &open, &failures, false);
            let private = || Check::ok(MODES, "only the owner has access to the home directory");
            checks.push(modes.unwrap_or_else(private));
        }
        checks.push(judge_space("disk space", "--home", free_bytes(home)));
        checks.extend(audit::checks(context.args, home));
    }
    let secrets = secret_files(context.args, context.home);
    checks.extend(judge_modes(MODES, &secrets, &[], true));
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map(|(_, hard)| hard);
    checks.push(judge_files(limit.map_err(|error| error.to_string())));
    checks
}

fn judge_home(home: &Path, exists: bool) -> Option<Check> {
    let detail = format!(
        "{} does not exist; the provider creates it at its start",
        home.display()
    );
    (!exists).then(|| Check::warning(HOME, detail, FIX))
}

fn judge_files(limit: Result<u64, String>) -> Check {
    const SUBJECT: &str = "limit of open files";
    let help =
        format!("run with `ulimit -n {FILES_ENOUGH}`, or LimitNOFILE={FILES_ENOUGH} of a systemd unit");
    match limit {
        Ok(files) if files < FILES_ENOUGH => Check::warning(
            SUBJECT,
            format!("{files}, which limits connections of tenants"),
            help,
        ),
        Ok(files) => Check::ok(SUBJECT, files.to_string()),
        Err(why) => Check::warning(SUBJECT, why, help),
    }
}

#[derive(Debug)]
struct OtherClock {
    name: &'static str,
    /// Seconds by which the other clock is ahead of the local clock; negative if behind.
    ahead: i64,
}

pub(super) fn clock(probes: &[Probe], cluster: Option<&ClusterConnection>) -> Check {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let blocks = probes
        .iter()
        .filter_map(Probe::block_time)
        .map(|time| time.0 / 1000);
    // A block is older than the clock of its node, so only a block in the future proves an error.
    let blocks = blocks.max().map(|time| time.saturating_sub(seconds(now)).max(0));
    let ahead = probes.iter().filter_map(Probe::ahead).map(seconds).max();
    let date = |date: SystemTime| date.duration_since(UNIX_EPOCH).unwrap_or_default();
    let api = cluster.and_then(|cluster| cluster.date).map(date);
    let api = api.map(|date| seconds(date).saturating_sub(seconds(now)));
    let clocks = [("block time", ahead.or(blocks)), ("API server", api)];
    let clocks = clocks
        .into_iter()
        .filter_map(|(name, ahead)| Some(OtherClock { name, ahead: ahead? }));
    judge_clock(&clocks.collect::<Vec<_>>())
}

fn judge_clock(clocks: &[OtherClock]) -> Check {
    let Some(worst) = clocks.iter().max_by_key(|clock| clock.ahead.unsigned_abs()) else {
        return Check::skipped(CLOCK, "no node or API server to compare with");
    };
    let names: Vec<&str> = clocks.iter().map(|clock| clock.name).collect();
    let skew = i64::try_from(worst.ahead.unsigned_abs()).unwrap_or(i64::MAX);
    if skew <= SKEW_FEW {
        return Check::ok(CLOCK, format!("agrees with {}", names.join(" and ")));
    }
    let direction = if worst.ahead > 0 { "behind" } else { "ahead of" };
    Check::problem(
        skew <= SKEW_MAX,
        CLOCK,
        format!("{skew} s {direction} the {}", worst.name),
        "run `timedatectl set-ntp true`",
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn open_files_have_a_limit() {
        assert_eq!(judge_files(Ok(FILES_ENOUGH)).severity(), Severity::Ok);
        assert_eq!(judge_files(Ok(1024)).severity(), Severity::Warning);
    }

    #[test]
    fn clock_is_compared_in_both_directions() {
        let judged = |ahead: &[i64]| {
            let clock = |ahead: &i64| OtherClock {
                name: "API server",
                ahead: *ahead,
            };
            judge_clock(&ahead.iter().map(clock).collect::<Vec<_>>())
        };
        for (ahead, wanted) in [
            (&[][..], Severity::Skipped),
            (&[0, 5], Severity::Ok),
            (&[0, 6], Severity::Warning),
            (&[-6, 0], Severity::Warning),
            (&[61], Severity::Failure),
            (&[-61, 3], Severity::Failure),
        ] {
            assert_eq!(judged(ahead).severity(), wanted, "{ahead:?}");
        }
        assert!(judged(&[-61]).detail().contains("61 s ahead of"));
    }

    #[test]
    fn modes_are_restricted_by_the_fix() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        assert!(judge_home(&home, false).is_some());
        fs::create_dir(&home).unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o755)).unwrap();
        let (open, failures) = State::accessible_files(&home);
        assert_eq!(open, [(home.clone(), 0o755)]);
        let check = judge_modes(MODES, &open, &failures, false).unwrap();
        assert_eq!(check.severity(), Severity::Failure);
        assert!(check.detail().contains("(0755)"), "{check:?}");
        let mounted = judge_modes(MODES, &open, &failures, true).unwrap();
        assert_eq!(mounted.severity(), Severity::Warning);
        assert_eq!(State::restrict_access(&home), Vec::<String>::new());
        let (open, failures) = State::accessible_files(&home);
        assert_eq!(judge_modes(MODES, &open, &failures, false), None);
    }
}
