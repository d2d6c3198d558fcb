//! File that stores the state which survives restarts.

use akash_provider_core::provider::StateStore;
use akash_provider_core::{Error, RestartState, error};
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Reads the stored state. Without a file, as at the first start, returns the default. If the contents are
/// invalid, the returned state has a tripped circuit breaker. An operator must then release the breaker.
///
/// # Errors
/// The file exists but cannot be read.
pub fn read(file: &Path) -> io::Result<RestartState> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(RestartState::from_json(&text).unwrap_or_else(|error| {
            eprintln!("{}: {error}", file.display());
            RestartState::unknown()
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(RestartState::default()),
        Err(error) => Err(error),
    }
}

/// Path of the file with the state that survives restarts. The provider writes this file.
#[derive(Debug)]
pub struct StateFile(pub PathBuf);

#[async_trait]
impl StateStore for StateFile {
    async fn save(&self, state: &RestartState) -> Result<(), Error> {
        let (file, state) = (self.0.clone(), state.clone());
        let failed = |why: String| Error::new(error::ErrorKind::Unavailable, "keep", why);
        match tokio::task::spawn_blocking(move || write(&file, &state)).await {
            Ok(written) => written.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Writes the state atomically, through a temporary file.
fn write(file: &Path, state: &RestartState) -> io::Result<()> {
    let draft = file.with_extension("draft");
    let mut written = File::create(&draft)?;
    written.write_all(state.to_json().as_bytes())?;
    written.sync_all()?;
    fs::rename(&draft, file)
}
