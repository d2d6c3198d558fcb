//! Copy of all certificate files of an account, by file name.

use super::{CertError, KeyFile, KeyFiles, PEM_BYTES_MAX, read_file, replace, target};
use std::collections::BTreeMap;

/// Contents of certificate files by file name. The private keys are encrypted with the account key.
pub type FileContents = BTreeMap<String, Vec<u8>>;

const ALL: [KeyFile; 3] = [KeyFile::Current, KeyFile::Next, KeyFile::Old];

impl KeyFiles<'_> {
    /// Returns the contents of all existing certificate files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn contents(&self) -> Result<FileContents, CertError> {
        let mut contents = FileContents::new();
        for which in ALL {
            match read_file(&self.path(which)) {
                Ok(bytes) => drop(contents.insert(self.name(which), bytes)),
                Err(CertError::Absent { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(contents)
    }

    /// Replaces the certificate files by a copy, and removes the next and the old file if the copy lacks them. Other
    /// entries of the copy are ignored. A copy without certificate files changes nothing.
    ///
    /// # Errors
    /// Returns an error, and changes no file, if the copy contains an invalid file or a file of another account.
    pub fn adopt(&self, copy: &FileContents) -> Result<(), CertError> {
        let current = self.contents()?;
        let entries = ALL.map(|which| (which, copy.get(&self.name(which))));
        if entries.iter().all(|(_, bytes)| bytes.is_none()) {
            return Ok(());
        }
        let changed = entries
            .into_iter()
            .filter(|(which, bytes)| current.get(&self.name(*which)) != *bytes);
        let changed: Vec<_> = changed.collect();
        for (which, bytes) in &changed {
            if let Some(bytes) = bytes {
                let path = self.path(*which);
                if bytes.len() > PEM_BYTES_MAX {
                    return Err(CertError::damaged(
                        &path,
                        format!("larger than {PEM_BYTES_MAX} bytes"),
                    ));
                }
                self.decode(bytes, &path)?;
            }
        }
        for (which, bytes) in changed {
            match (which, bytes) {
                (_, Some(bytes)) => replace(&target(self.path(which)), bytes)?,
                // Every state of a rotation after the first certificate has a current file.
                (KeyFile::Current, None) => {}
                (KeyFile::Next | KeyFile::Old, None) => self.remove(which)?,
            }
        }
        Ok(())
    }

    fn name(&self, which: KeyFile) -> String {
        let path = self.path(which);
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}
