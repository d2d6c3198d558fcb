//! Archives with equal bytes for equal files.

use crate::process::Process;
use anyhow::{Context, Result};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Packs `name` in `folder` without the times and the user names of this machine.
pub(super) fn archive(folder: &Path, name: &str, to: &Path) -> Result<()> {
    Process::new("tar", folder)
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--format=gnu",
        ])
        .args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip --no-name -9"])
        .args(["--create", "--file"])
        .args([to])
        .args([name])
        .quiet()
        .run()
}

/// Packs files with the format of `ar`, which a Debian package has.
pub(super) fn ar(members: &[&Path], to: &Path) -> Result<()> {
    let mut bytes = b"!<arch>\n".to_vec();
    for member in members {
        let content = fs::read(member).with_context(|| member.display().to_string())?;
        let name = member.file_name().unwrap_or_default().to_string_lossy();
        let (time, user, group, mode) = (0, 0, 0, 100_644);
        let size = content.len();
        // Writing into a vector does not fail.
        let _ = writeln!(
            bytes,
            "{name:<16}{time:<12}{user:<6}{group:<6}{mode:<8}{size:<10}`"
        );
        bytes.extend(content);
        if size % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn archives_of_equal_files_have_equal_bytes() {
        let folder = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let mut archives = Vec::new();
        // Another order of creation, and other times.
        for names in [["a", "b"], ["b", "a"]] {
            let name = folder.join("name");
            fs::create_dir_all(&name).unwrap();
            for file in names {
                fs::write(name.join(file), file).unwrap();
            }
            let file = fs::File::options().write(true).open(name.join("a")).unwrap();
            let old = SystemTime::now() - Duration::from_secs(1000 * archives.len() as u64);
            file.set_modified(old).unwrap();
            let path = folder.join("archive.tar.gz");
            archive(&folder, "name", &path).unwrap();
            archives.push(fs::read(&path).unwrap());
            fs::remove_dir_all(&folder).unwrap();
        }
        assert!(archives[0].len() > 50 && archives[0] == archives[1]);
    }
}
