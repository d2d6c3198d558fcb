//! Secrets from environment variables or mounted files, for containers.

use super::error::KeyringError;
use crate::regular_file;
use secrecy::SecretString;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Maximum size of a secret in bytes. An exported key has about 400 bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Location of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// Name of an environment variable.
    Variable(String),
    /// Path of a file, such as a mounted Kubernetes secret.
    File(PathBuf),
}

impl SecretSource {
    /// Reads the secret. Removes one line break at the end.
    ///
    /// # Errors
    /// Returns an error if the secret is missing, empty, too large or not UTF-8. The error does not contain
    /// the secret.
    pub fn read(&self) -> Result<SecretString, KeyringError> {
        let (place, text) = match self {
            Self::Variable(name) => (format!("variable {name}"), variable(name)),
            Self::File(path) => (format!("file {}", path.display()), file(path)),
        };
        let text = text.and_then(|t| {
            let line = t.strip_suffix('\n').unwrap_or(&t);
            let line = line.strip_suffix('\r').unwrap_or(line);
            if line.is_empty() {
                Err("empty".to_owned())
            } else {
                Ok(SecretString::from(line))
            }
        });
        text.map_err(|why| KeyringError::Secret { place, why })
    }
}

fn variable(name: &str) -> Result<Zeroizing<String>, String> {
    let value = std::env::var_os(name).ok_or_else(|| "not set".to_owned())?;
    let text = value.into_string().map_err(|_| "not UTF-8".to_owned())?;
    Ok(Zeroizing::new(text))
}

fn file(path: &Path) -> Result<Zeroizing<String>, String> {
    let open = regular_file::open(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        _ => e.to_string(),
    })?;
    let mut text = Zeroizing::new(String::new());
    let read = open.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|e| e.to_string())?;
    if read as u64 > SECRET_BYTES_MAX {
        return Err(format!("larger than {SECRET_BYTES_MAX} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn removes_one_line_break_at_the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let read = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            SecretSource::File(path.clone()).read()
        };
        for (content, expected) in [
            ("a b", "a b"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            (" a ", " a "),
        ] {
            assert_eq!(read(content.as_bytes()).unwrap().expose_secret(), expected);
        }
        let limit = usize::try_from(SECRET_BYTES_MAX).unwrap();
        assert!(read(&vec![b'x'; limit]).is_ok());
        for bad in [vec![], b"\n".to_vec(), vec![0xff, 0xfe], vec![b'x'; limit + 1]] {
            let error = read(&bad).unwrap_err();
            assert!(error.to_string().contains("secret"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            SecretSource::File(path)
                .read()
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
    }

    #[test]
    fn error_names_an_unset_variable() {
        let source = SecretSource::Variable("AKASH_TEST_SURELY_UNSET".into());
        let error = source.read().unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot read secret from variable AKASH_TEST_SURELY_UNSET: not set"
        );
    }
}
