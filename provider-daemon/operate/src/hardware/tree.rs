//! Reader of small kernel files below a root directory, with size limits.

use akash_provider_chain::regular_file;
use std::fs::metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Maximum size of a file with one value, in bytes.
const VALUE_MAX: u64 = 4 << 10;
/// Maximum number of names in a directory.
const NAMES_MAX: usize = 65_536;

/// Reader of kernel files below `/` or a test directory.
#[derive(Debug, Clone)]
pub(super) struct KernelFiles {
    root: PathBuf,
}

impl KernelFiles {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the text of a file of at most `most` bytes. Replaces invalid UTF-8.
    pub(super) fn text(&self, path: &str, most: u64) -> io::Result<String> {
        let place = self.at(path);
        // Opening a named pipe would block.
        if !metadata(&place)?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
        }
        let bytes = regular_file::read(&place, most)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the value of a file; `None` if the file cannot be read.
    pub(super) fn value(&self, path: &str) -> Option<String> {
        let text = self.text(path, VALUE_MAX).ok()?;
        Some(text.trim().to_owned())
    }

    pub(super) fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.value(path)?.parse().ok()
    }

    /// Returns the sorted names in a directory; empty if the directory is missing.
    ///
    /// # Errors
    /// Returns an error if the directory exists but cannot be read.
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
                return Err(format!("{path} has more than {NAMES_MAX} entries"));
            }
            names.extend(name.into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the target of a symbolic link, even if the target is missing. `None` if the path is not a
    /// link.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let to = std::fs::read_link(self.at(path)).ok()?;
        to.into_os_string().into_string().ok()
    }

    /// Returns the last segment of the target of a link.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let to = self.link(path)?;
        to.rsplit('/').next().map(str::to_owned)
    }
}
