//! The file of what is kept over restarts.

use akash_provider_core::Kept;
use akash_provider_core::bus::{Delivery, EventStream};
use akash_provider_core::provider::ProviderHandle;
use futures::StreamExt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What was kept; at the first start nothing. What cannot be read is doubtful, and the circuit breaker waits for a
/// release then.
///
/// # Errors
/// When the file is there and cannot be read at all.
pub fn read(file: &Path) -> io::Result<Kept> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Kept::from_json(&text).unwrap_or_else(|error| {
            eprintln!("{}: {error}", file.display());
            Kept::doubtful()
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Kept::default()),
        Err(error) => Err(error),
    }
}

/// Writes each change, until the bus goes.
///
/// # Errors
/// When the file cannot be written.
pub async fn keep(
    mut facts: EventStream,
    handle: ProviderHandle,
    mut kept: Kept,
    file: PathBuf,
) -> io::Result<()> {
    while let Some(delivery) = facts.next().await {
        let is_news = match delivery {
            Delivery::Event { event, .. } => kept.note(&event),
            // What the bus has lost the provider knows.
            Delivery::Lagged(_) => match handle.known_status().await {
                Some(status) => {
                    let now = Kept::of(&status);
                    std::mem::replace(&mut kept, now.clone()) != now
                }
                None => false,
            },
        };
        if is_news {
            write(&file, &kept)?;
        }
    }
    Ok(())
}

/// Whole or not at all: written beside, synced, renamed.
fn write(file: &Path, kept: &Kept) -> io::Result<()> {
    let draft = file.with_extension("draft");
    let mut written = File::create(&draft)?;
    written.write_all(kept.to_json().as_bytes())?;
    written.sync_all()?;
    fs::rename(&draft, file)
}
