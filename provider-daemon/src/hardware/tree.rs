//! Reads small files of the kernel below a folder, each with its limit.

use akash_provider_chain::regular_file;
use std::fs::metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest file of one value.
const VALUE_MAX: u64 = 4 << 10;
/// Names in one folder; a machine with terabytes of memory has ten thousand blocks of it.
const NAMES_MAX: usize = 65_536;

/// What is below a folder: `/`, or a copy of some of it.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file of at most `most` bytes; what is no text in it is replaced.
    pub(super) fn text(&self, path: &str, most: u64) -> io::Result<String> {
        let place = self.at(path);
        // A pipe that somebody put there would hold us up for ever.
        if !metadata(&place)?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
        }
        let bytes = regular_file::read(&place, most)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one value. One that cannot be read has none.
    pub(super) fn value(&self, path: &str) -> Option<String> {
        let text = self.text(path, VALUE_MAX).ok()?;
        Some(text.trim().to_owned())
    }

    /// A file of one number.
    pub(super) fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.value(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none where there is no such folder.
    ///
    /// # Errors
    /// It is there and cannot be read: that is not the same as an empty one.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let failed = |error: io::Error| format!("{path}: {error}");
        let found = match std::fs::read_dir(self.at(path)) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in found {
            let name = entry.map_err(failed)?.file_name();
            if names.len() >= NAMES_MAX {
                return Err(format!("{path}: it has more than {NAMES_MAX} names"));
            }
            names.extend(name.into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What a link says, whether or not it leads anywhere.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let to = std::fs::read_link(self.at(path)).ok()?;
        to.into_os_string().into_string().ok()
    }

    /// The last part of what a link says.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let to = self.link(path)?;
        to.rsplit('/').next().map(str::to_owned)
    }
}
