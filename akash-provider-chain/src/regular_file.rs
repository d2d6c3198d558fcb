//! Reading of files with a path that a user enters.
//!
//! Regular files and pipes are supported, such as `<(command)` of a shell. A pipe is read for a limited time.
//! Device files are refused, because they may have no end.

use nix::fcntl::OFlag;
use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time to read a pipe to its end.
const PIPE_TIME: Duration = Duration::from_secs(5);
/// Delay between two attempts to read from a pipe without data.
const PIPE_PAUSE: Duration = Duration::from_millis(5);

/// Regular file or pipe that is open for reading.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    pipe: Option<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    until: Instant,
    /// True after a process has opened the pipe for writing.
    has_writer: bool,
}

/// Opens a regular file or a pipe for reading. Follows symbolic links.
///
/// # Errors
/// Returns an error if the file cannot be opened, or if its type is not supported ([`ErrorKind::InvalidInput`]).
pub fn open(path: &Path) -> io::Result<InputFile> {
    // Checked before the file is opened: opening a device may have an effect.
    check(fs::metadata(path)?.file_type())?;
    // Without this flag, opening a pipe blocks until a process opens the pipe for writing. The flag has no effect on
    // a regular file.
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    check(kind)?;
    let pipe = kind.is_fifo().then(|| Pipe {
        until: Instant::now() + PIPE_TIME,
        has_writer: false,
    });
    Ok(InputFile { file, pipe })
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else {
            return self.file.read(buffer);
        };
        loop {
            match self.file.read(buffer) {
                // End of file also means that no process has opened the pipe for writing yet.
                Ok(0) if !pipe.has_writer && !buffer.is_empty() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => pipe.has_writer = true,
                read => {
                    pipe.has_writer = true;
                    return read;
                }
            }
            if Instant::now() >= pipe.until {
                let action = if pipe.has_writer { "closed" } else { "wrote to" };
                let why = format!("is a pipe that no process {action} within {PIPE_TIME:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            sleep(PIPE_PAUSE);
        }
    }
}

/// Reads a regular file or a pipe of at most `most` bytes.
///
/// # Errors
/// Returns the errors of [`open`], [`ErrorKind::FileTooLarge`] for more than `most` bytes, and
/// [`ErrorKind::TimedOut`] for a slow writer of a pipe.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    limited(open(path)?, most)
}

/// Reads at most `most` bytes. The length that the source reports is not trusted.
///
/// # Errors
/// Returns an error if the source cannot be read, or has more than `most` bytes
/// ([`ErrorKind::FileTooLarge`]).
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
        kind if kind.is_file() || kind.is_fifo() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let why = format!("is {kind}, not a regular file or a pipe; copy the content to a regular file");
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::Command;
    use std::thread;

    #[test]
    fn reads_regular_files_up_to_a_limit_and_refuses_other_types() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("some"), b"four").unwrap();
        std::os::unix::fs::symlink(at("some"), at("link")).unwrap();
        assert_eq!(read(&at("link"), 4).unwrap(), b"four");
        assert_eq!(read(&at("some"), 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(&at("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, kind) in [
            (at("socket"), "a socket"),
            (folder.path().to_owned(), "a directory"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = read(&path, 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with(&format!("is {kind}")), "{error}");
        }
    }

    fn fifo(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn reads_a_pipe_to_its_end_or_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path());
        for (most, wanted) in [(8, Ok(b"in parts".to_vec())), (3, Err(ErrorKind::FileTooLarge))] {
            let to = path.clone();
            let writer = thread::spawn(move || {
                let mut pipe = File::options().write(true).open(to).unwrap();
                for part in ["in ", "parts"] {
                    // The reader waits longer than this for data, and closes the pipe at its limit.
                    let _ = pipe.write_all(part.as_bytes());
                    sleep(PIPE_PAUSE * 10);
                }
            });
            assert_eq!(read(&path, most).map_err(|error| error.kind()), wanted);
            writer.join().unwrap();
        }
    }

    #[test]
    fn pipe_without_a_writer_and_open_pipe_time_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(folder.path());
        let soon = |path: &Path| {
            let mut source = open(path).unwrap();
            source.pipe.as_mut().unwrap().until = Instant::now() + PIPE_PAUSE * 10;
            limited(source, 8).unwrap_err()
        };
        let error = soon(&path);
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "is a pipe that no process wrote to within 5s");
        let mut both = File::options().read(true).write(true).open(&path).unwrap();
        both.write_all(b"half").unwrap();
        assert_eq!(
            soon(&path).to_string(),
            "is a pipe that no process closed within 5s"
        );
    }
}
