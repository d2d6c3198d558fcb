//! Flight recorder: files with every input of the engine, from which a replay makes the same decisions again.
//!
//! ```text
//! engine ─▶ recorder ─▶ queue (bounded) ─▶ writer: redact, encode, compress ─▶ 000001.flight, 000002.flight, …
//!                                                                                         │
//!                             effects as recorded, or the first difference ◀─ replay ◀─ reader
//! ```
//! The engine never waits for the recorder. Steps that do not fit into the queue are not recorded. The
//! recording then contains their number and the next state of the engine, from which a replay continues.

mod bundle;
mod describe;
mod folder;
mod format;
mod health;
mod reader;
mod recorder;
mod redact;
mod replay;
mod writer;

pub use bundle::{BundleArgs, bundle};
pub use health::{FlightHealth, RecordingStatus};
pub use recorder::{Finish, FlightRecorder, start};
pub use replay::{ReplayArgs, replay};

use akash_provider_cli::setting::HaRule;
use akash_provider_core::engine::{Engine, Input};
use akash_provider_core::types::{Address, Now};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Flags of the recorder.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordArgs {
    /// Directory for a recording of all inputs, without manifest secrets, for `provider-daemon replay`
    /// [default: none]
    #[arg(long, value_name = "DIR")]
    #[arg(add = HaRule::OUTPUT)]
    pub record: Option<PathBuf>,
    /// Maximum size of the recording, in bytes, at least 1Mi; the oldest files are removed first
    #[arg(long, value_name = "BYTES", default_value = "256Mi", value_parser = limit)]
    #[arg(add = HaRule::OUTPUT)]
    pub record_bytes: u64,
}

/// Minimum value of `--record-bytes`. A smaller recording cannot contain even a small engine state.
const LIMIT_MIN: u64 = 1 << 20;

fn limit(text: &str) -> Result<u64, String> {
    let bytes = akash_provider_cli::values::bytes(text)?;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes >= LIMIT_MIN => Ok(bytes),
        _ => Err("must be at least 1Mi".to_owned()),
    }
}

/// Header of a file: the provider, and the program that wrote the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Version of the program that wrote the file. Another version may make other decisions.
    pub(crate) version: String,
    pub(crate) chain_id: String,
    pub(crate) provider: Address,
    /// Start of the process, in milliseconds since the Unix epoch.
    pub(crate) started: u64,
}

/// Entry of a recording.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and boxing would be one more allocation for each"
)]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FlightRecord {
    /// Engine state and wall clock at this point of the recording. A replay can start here.
    State {
        now: Now,
        wall: u64,
        engine: Box<Engine>,
    },
    /// Step of the engine: its input (`None` for a timeout), and the number and checksum of its effects.
    Turn {
        now: Now,
        input: Option<Input>,
        effects: u32,
        digest: u64,
    },
    /// The recording lacks `turns` steps: the engine was faster than the writer.
    Gap { turns: u64 },
    /// Regular end of the process.
    End,
}

/// Returns the current time in milliseconds since the Unix epoch.
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a time, or prints the number if the format cannot represent the time.
pub fn format_time(wall: u64) -> String {
    // End of the year 9999, the maximum of the format.
    const LAST: u64 = 253_402_300_799_999;
    if wall > LAST {
        return wall.to_string();
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(wall)).to_string()
}

#[cfg(test)]
mod tests;
