//! Prices from the output of a program of the operator.
//!
//! The protocol is the same as in the Go provider, so existing programs work unchanged. Each price
//! calculation starts one process, without arguments. The environment contains `AKASH_OWNER` (the tenant) and
//! `AKASH_DENOM` (the required denomination). The standard input is one line of JSON (module `input`). The
//! program prints one decimal number and exits with 0.
//!
//! Of the provider's environment variables, the program receives only those on an allow list (module
//! `process`), because other variables contain keys and passphrases. Variables that start with `PRICE_` are
//! on the list. [`ShellScriptConfig::variables`] adds more.
//!
//! A program cannot block the provider. The number of concurrent processes is limited. If a process does not
//! exit and close its output in time, it is killed with its process group, and under a
//! [supervisor](supervise) with all its descendants. The size of the output is limited. When a call is
//! dropped, its processes are killed too. No state is stored between orders.

mod input;
mod process;
mod supervisor;

pub use supervisor::supervise;

use super::{PriceError, PriceRequest, PricingStrategy, price_of};
use crate::error::{Error, ErrorKind};
use crate::types::price::{Dec, ParseDecError};
use crate::types::{DecCoin, Denom};
use process::{ProcessOutput, RunError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::Semaphore;

const OPERATION: &str = "price by script";
/// Maximum number of characters that an error quotes from the script output.
const EXCERPT: usize = 500;

/// Path and limits of a price script.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ShellScriptConfig {
    /// Path of the program (`bid-price-script-path`).
    pub path: PathBuf,
    /// Maximum number of concurrent processes; further orders wait (`bid-price-script-process-limit`).
    pub process_limit: usize,
    /// Timeout of one process (`bid-price-script-process-timeout`).
    pub timeout: Duration,
    /// Command line of the supervisor ([`supervise`]) that runs the script: program and arguments, without
    /// the path of the script. Empty for no supervisor.
    pub supervisor: Vec<OsString>,
    /// Names and values of additional environment variables (`bid-price-script-variable`). They take
    /// precedence over the environment of the provider.
    pub variables: Vec<(String, String)>,
}

impl ShellScriptConfig {
    /// Creates a configuration with the default limits: 32 processes, 10 s.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            process_limit: 32,
            timeout: Duration::from_secs(10),
            supervisor: Vec::new(),
            variables: Vec::new(),
        }
    }
}

/// Invalid settings of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScript {
    /// The path of the script is empty.
    #[error("the path of the price script must not be empty")]
    NoPath,
    /// The limit of processes is zero.
    #[error("the process limit of the price script must be above zero")]
    NoProcesses,
    /// The timeout is zero.
    #[error("the time limit of the price script must be above zero")]
    NoTime,
}

/// Failure of a price script. `calculate_price` returns this failure as the `source` of the error.
#[derive(Debug, thiserror::Error)]
enum ScriptError {
    /// The script could not be started.
    #[error("cannot be started: {0}; check that the script exists and is executable")]
    Start(#[source] std::io::Error),
    /// The script did not exit in time.
    #[error("was killed after {0:?}: no exit, or a child process kept the output open")]
    Timeout(Duration),
    /// The script failed.
    #[error("failed with {status}; stderr: {stderr}")]
    Exit {
        /// Exit code or signal of the script.
        status: ExitStatus,
        /// Last part of the script's standard error.
        stderr: String,
    },
    /// The script printed too much.
    #[error("printed more than {0} bytes; a price is one number")]
    TooMuchOutput(usize),
    /// The script printed nothing.
    #[error("printed nothing, so the order has no price; a price is one number")]
    NoOutput,
    /// The script did not print a number.
    #[error("did not print exactly one number")]
    NotANumber(#[source] ParseDecError),
    /// The script printed a number that is not a valid price.
    #[error("printed a number that is not a valid price")]
    Price(#[source] PriceError),
    /// The communication with the script failed.
    #[error("cannot communicate with the process of the script")]
    Io(#[source] std::io::Error),
}

/// Pricing strategy that runs a program of the operator for each order.
#[derive(Debug)]
pub struct ShellScript {
    path: PathBuf,
    timeout: Duration,
    supervisor: Vec<OsString>,
    variables: Vec<(String, String)>,
    processes: Semaphore,
}

impl ShellScript {
    /// Creates the strategy. Does not read the script file.
    ///
    /// # Errors
    /// Returns an error when the path is empty or a limit is zero.
    pub fn new(config: ShellScriptConfig) -> Result<Self, InvalidScript> {
        let ShellScriptConfig {
            path,
            process_limit,
            timeout,
            supervisor,
            variables,
        } = config;
        if path.as_os_str().is_empty() {
            Err(InvalidScript::NoPath)
        } else if process_limit == 0 {
            Err(InvalidScript::NoProcesses)
        } else if timeout.is_zero() {
            Err(InvalidScript::NoTime)
        } else {
            // The semaphore panics above this value.
            let processes = Semaphore::new(process_limit.min(Semaphore::MAX_PERMITS));
            Ok(Self {
                path,
                timeout,
                supervisor,
                variables,
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
        let order = [("AKASH_OWNER", request.owner.as_str()), ("AKASH_DENOM", denom)];
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| (name.as_str(), value.as_str()));
        let environment = variables.chain(order);
        let run = process::run(&self.path, &self.supervisor, environment, input);
        let outcome = match tokio::time::timeout(self.timeout, run).await {
            // Dropping the process kills its group.
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
        let stopped = || Error::new(ErrorKind::Stopped, OPERATION, "the price script was stopped");
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
                // Out of memory, out of process slots or a file being replaced are transient.
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

fn read_price(outcome: &ProcessOutput, denom: &Denom) -> Result<DecCoin, ScriptError> {
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

/// Parses a number. The zero before the decimal point may be missing, as in the output of `bc`.
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

/// Returns the end of the output, where scripts usually print errors.
fn excerpt(printed: &[u8]) -> String {
    let text = String::from_utf8_lossy(printed);
    let text = text.trim();
    let surplus = text.chars().count().saturating_sub(EXCERPT);
    text.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests;
