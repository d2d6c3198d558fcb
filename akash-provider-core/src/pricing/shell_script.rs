//! The price is what a program of the operator prints.
//!
//! The protocol is that of today's provider, so a program written for it runs unchanged: one process for one
//! price, no arguments, an environment with `AKASH_OWNER` (the tenant) and `AKASH_DENOM` (the denomination
//! wanted), one line of JSON on standard input (room `input`). It prints one decimal number and exits with 0.
//!
//! Of the provider's own environment it gets what is on a list (room `process`): keys and passphrases are there too.
//! Whatever begins with `PRICE_` is on it.
//!
//! What it may not do is hold the provider up. At most so many processes run at once; one that has not exited
//! and closed its output within the limit is killed with its process group, and under a [supervisor](supervise) with every
//! process that it started; output is read only up to a bound; a call that is given up kills them too. Nothing is stored from one order to the next.

mod input;
mod process;
mod supervisor;

pub use supervisor::supervise;

use super::{PriceError, PriceRequest, PricingStrategy, price_of};
use crate::error::{Error, ErrorKind};
use crate::types::price::{Dec, ParseDecError};
use crate::types::{DecCoin, Denom};
use process::{Outcome, RunError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::Semaphore;

const OPERATION: &str = "price by script";
/// Longest excerpt of what a script printed, in characters, in an error.
const EXCERPT: usize = 500;

/// Which script, and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShellScriptConfig {
    /// Path of the program that is run (`bid-price-script-path`).
    pub path: PathBuf,
    /// Processes at once; more orders wait (`bid-price-script-process-limit`).
    pub process_limit: usize,
    /// How long one process may take (`bid-price-script-process-timeout`).
    pub timeout: Duration,
    /// Program and arguments that [`supervise`] the script, whose path is added; empty for none.
    pub supervisor: Vec<OsString>,
}

impl ShellScriptConfig {
    /// A script with the default limits: 32 processes, 10 s.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            process_limit: 32,
            timeout: Duration::from_secs(10),
            supervisor: Vec::new(),
        }
    }
}

/// What is wrong with the settings of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScript {
    /// The path of the script is empty.
    #[error("the path of the price script must not be empty")]
    NoPath,
    /// The limit of processes is zero, so none could run.
    #[error("the process limit of the price script must be above zero")]
    NoProcesses,
    /// The time limit is zero, so none could answer.
    #[error("the time limit of the price script must be above zero")]
    NoTime,
}

/// Why a script gave no price. It is the source of the port's error.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    /// It could not be started.
    #[error("cannot be started; check that it is there and executable")]
    Start(#[source] std::io::Error),
    /// It had not ended in time.
    #[error("has not ended within {0:?}, or something it started keeps its output open; it was killed")]
    Timeout(Duration),
    /// It ended without success.
    #[error("failed with {status}; it said: {stderr}")]
    Exit {
        /// Exit code or signal that it ended with.
        status: ExitStatus,
        /// The end of its standard error.
        stderr: String,
    },
    /// It printed too much.
    #[error("printed more than {0} bytes; a price is one number")]
    TooMuchOutput(usize),
    /// It ended and had printed nothing.
    #[error("printed nothing (EOF): the bid quantity is invalid")]
    NoOutput,
    /// It printed something else than a number.
    #[error("must print one number and nothing else: the bid quantity is invalid")]
    NotANumber(#[source] ParseDecError),
    /// It printed a number that is no price.
    #[error("printed no price")]
    Price(#[source] PriceError),
    /// Talking to it failed.
    #[error("cannot be read from")]
    Io(#[source] std::io::Error),
}

/// Prices by a program.
#[derive(Debug)]
pub struct ShellScript {
    path: PathBuf,
    timeout: Duration,
    supervisor: Vec<OsString>,
    processes: Semaphore,
}

impl ShellScript {
    /// Pricing by a script. Whether it is there shows when it is run, so that it can be replaced.
    ///
    /// # Errors
    /// When the path is empty or a limit is zero.
    pub fn new(config: ShellScriptConfig) -> Result<Self, InvalidScript> {
        let ShellScriptConfig {
            path,
            process_limit,
            timeout,
            supervisor,
        } = config;
        if path.as_os_str().is_empty() {
            Err(InvalidScript::NoPath)
        } else if process_limit == 0 {
            Err(InvalidScript::NoProcesses)
        } else if timeout.is_zero() {
            Err(InvalidScript::NoTime)
        } else {
            // The semaphore panics with more.
            let processes = Semaphore::new(process_limit.min(Semaphore::MAX_PERMITS));
            Ok(Self {
                path,
                timeout,
                supervisor,
                processes,
            })
        }
    }

    async fn run(
        &self,
        request: &PriceRequest,
        denom: &Denom,
        input: Vec<u8>,
    ) -> Result<DecCoin, ScriptError> {
        let environment = [("AKASH_OWNER", request.owner.as_str()), ("AKASH_DENOM", denom)];
        let run = process::run(&self.path, &self.supervisor, environment, input);
        let outcome = match tokio::time::timeout(self.timeout, run).await {
            // The process group is killed by dropping what ran it.
            Err(_elapsed) => return Err(ScriptError::Timeout(self.timeout)),
            Ok(outcome) => outcome?,
        };
        tracing::debug!(status = %outcome.status, stderr = %excerpt(&outcome.stderr), "price script ended");
        read_price(&outcome, denom)
    }
}

#[async_trait::async_trait]
impl PricingStrategy for ShellScript {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        let maximum = request.maximum().map_err(|e| e.into_error(OPERATION))?;
        let internal =
            |e| Error::new(ErrorKind::Internal, OPERATION, "the request cannot be written").with_source(e);
        let line = input::line(request, &maximum).map_err(internal)?;
        let stopped = || Error::new(ErrorKind::Stopped, OPERATION, "no more processes are started");
        let _permit = self.processes.acquire().await.map_err(|_| stopped())?;
        self.run(request, &maximum.denom, line)
            .await
            .map_err(|e| e.into_error(&self.path))
    }
}

impl ScriptError {
    fn into_error(self, path: &Path) -> Error {
        let kind = match &self {
            Self::Timeout(_) => ErrorKind::Timeout,
            Self::Start(e) => match e.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => ErrorKind::Invalid,
                // No memory, no process slot, file being replaced: over by itself.
                _ => ErrorKind::Unavailable,
            },
            Self::Io(_) => ErrorKind::Unavailable,
            Self::Exit { .. }
            | Self::TooMuchOutput(_)
            | Self::NoOutput
            | Self::NotANumber(_)
            | Self::Price(_) => ErrorKind::Invalid,
        };
        Error::new(kind, OPERATION, path.display().to_string()).with_source(self)
    }
}

impl From<RunError> for ScriptError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start(e) => Self::Start(e),
            RunError::Io(e) => Self::Io(e),
            RunError::TooMuchOutput => Self::TooMuchOutput(process::STDOUT_LIMIT),
        }
    }
}

fn read_price(outcome: &Outcome, denom: &Denom) -> Result<DecCoin, ScriptError> {
    if !outcome.status.success() {
        return Err(ScriptError::Exit {
            status: outcome.status,
            stderr: excerpt(&outcome.stderr),
        });
    }
    let printed = String::from_utf8_lossy(&outcome.stdout);
    let printed = printed.trim();
    if printed.is_empty() {
        return Err(ScriptError::NoOutput);
    }
    let amount = parse(printed).map_err(ScriptError::NotANumber)?;
    price_of(denom, amount).map_err(ScriptError::Price)
}

/// Reads a number. `bc` leaves the zero before the point out, and today's provider takes that.
fn parse(printed: &str) -> Result<Dec, ParseDecError> {
    let (sign, digits) = printed
        .strip_prefix('-')
        .map_or(("", printed), |digits| ("-", digits));
    if digits.starts_with('.') {
        format!("{sign}0{digits}").parse()
    } else {
        printed.parse()
    }
}

/// The end of what was printed, because that is where scripts say what went wrong.
fn excerpt(printed: &[u8]) -> String {
    let text = String::from_utf8_lossy(printed);
    let text = text.trim();
    let surplus = text.chars().count().saturating_sub(EXCERPT);
    text.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests;
