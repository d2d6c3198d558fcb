//! Regular files of limited size.

use akash_provider_chain::regular_file;
use nix::sys::statvfs::statvfs;
use std::path::Path;

/// Returns the content of a regular file of at most `most` bytes.
///
/// # Errors
/// Returns the reason, without the name of the file.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    regular_file::read(path, most).map_err(|error| error.to_string())
}

/// Returns the text of a regular file of at most `most` bytes.
///
/// # Errors
/// Returns the errors of [`bytes()`], and an error if the content is not UTF-8.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, String> {
    String::from_utf8(bytes(path, most)?).map_err(|_| "invalid UTF-8".to_owned())
}

/// Returns the free bytes of the file system of a path, or of its nearest existing parent.
///
/// # Errors
/// Returns the reason with the path.
pub fn free_bytes(path: &Path) -> Result<u64, String> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let about = statvfs(existing).map_err(|error| format!("{}: {error}", existing.display()))?;
    Ok(about.blocks_available().saturating_mul(about.fragment_size()))
}

/// Returns a YAML error as line and problem, without an excerpt of the file.
pub(crate) fn yaml_error(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let Some(at) = error.location() else {
        return text;
    };
    let (line, column) = (at.line(), at.column());
    let problem = text.strip_suffix(&format!(" at line {line}, column {column}"));
    format!("line {line}: {}", problem.unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf8_within_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some");
        std::fs::write(&path, b"four").unwrap();
        assert_eq!(text(&path, 4).unwrap(), "four");
        assert!(bytes(&path, 3).unwrap_err().contains("longer than 3 bytes"));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 4).unwrap_err(), "invalid UTF-8");
        assert!(bytes(Path::new("/dev/zero"), 4).unwrap_err().contains("a device"));
    }
}
