//! Opens files that a user names: regular files only, because a named pipe blocks its reader and a device has no end.

use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a regular file for reading; follows symbolic links.
///
/// # Errors
/// The file cannot be opened, or is not a regular file ([`ErrorKind::InvalidInput`]).
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before the file is opened: to open a named pipe waits for a writer.
    check(fs::metadata(path)?.file_type())?;
    let file = File::open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], or the file has more bytes ([`ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    limited(open(path)?, most)
}

/// Reads at most `most` bytes, whatever length the source reports.
///
/// # Errors
/// The source cannot be read, or has more bytes ([`ErrorKind::FileTooLarge`]).
pub fn limited(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more byte distinguishes a longer source from one of exactly the limit.
    source.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("is longer than {most} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

fn check(kind: FileType) -> io::Result<()> {
    let kind = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let why = format!("is {kind}, not a regular file; write its content to a file and name that");
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    #[test]
    fn regular_files_are_read_to_a_limit_and_nothing_else_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("some"), b"four").unwrap();
        std::os::unix::fs::symlink(at("some"), at("link")).unwrap();
        assert_eq!(read(&at("link"), 4).unwrap(), b"four");
        assert_eq!(read(&at("some"), 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(&at("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, kind) in [
            (at("pipe"), "a named pipe"),
            (at("socket"), "a socket"),
            (folder.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = read(&path, 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with(&format!("is {kind}")), "{error}");
        }
    }
}
