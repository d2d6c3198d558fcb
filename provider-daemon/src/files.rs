//! Files that somebody names: read to a limit, whatever they say of their length.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// What a reader gives, which is so many bytes at most.
///
/// # Errors
/// It cannot be read, or has more ([`ErrorKind::FileTooLarge`]).
pub(crate) fn limited(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more tells what has more from what has as many.
    reader.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("is longer than {most} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The bytes of a file that has so many at most.
///
/// # Errors
/// Why not, without the name of the file: it cannot be read, or has more.
pub(crate) fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let read = File::open(path).and_then(|file| limited(file, most));
    read.map_err(|error| error.to_string())
}

/// The text of a file that has so many bytes at most.
///
/// # Errors
/// As [`bytes()`] does it; or it is no text.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, String> {
    String::from_utf8(bytes(path, most)?).map_err(|_| "is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_limit_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some");
        std::fs::write(&path, b"four").unwrap();
        assert_eq!(text(&path, 4).unwrap(), "four");
        assert!(bytes(&path, 3).unwrap_err().contains("longer than 3 bytes"));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 4).unwrap_err(), "is no text");
        assert!(bytes(&folder.path().join("none"), 4).is_err());
        // It has no length, and no end.
        let endless = Path::new("/dev/zero");
        assert!(
            bytes(endless, 1 << 10)
                .unwrap_err()
                .contains("longer than 1024 bytes")
        );
    }
}
