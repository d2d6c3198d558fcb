//! Log of the process on stderr, and its export. `log-level` changes the filter of a running provider.

use crate::args::RunArgs;
use crate::args::global::{DEFAULT_LEVEL, GlobalArgs, LogFormat};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::plain::LogWriter;
use akash_provider_cli::values::{check_log_levels, log_levels};
use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Filter of the global log; unset if the process uses another log.
static FILTER: OnceLock<Filter> = OnceLock::new();

struct Filter {
    handle: Handle<EnvFilter, Registry>,
    /// Level in the form of `--log-level`.
    level: Mutex<String>,
}

/// Starts the log of a command. `is_short` omits warnings that the command also reports as an error. `run` are
/// the flags of the provider; only the provider exports its log.
///
/// # Errors
/// Returns an error if `--log-level` is invalid.
pub fn start(global: &GlobalArgs, is_short: bool, run: Option<&RunArgs>) -> anyhow::Result<()> {
    let wrong = |why: String| {
        anyhow::anyhow!(WithHelp::new(
            format!("invalid value \"{}\" for --log-level: {why}", global.log_level),
            "use a level such as info, or a filter such as info,akash_provider_chain=debug"
        ))
    };
    let filter = filter(&global.log_level, is_short).map_err(wrong)?;
    let is_json = global.log_format == LogFormat::Json;
    let has_colors = !is_json
        && global
            .log_color
            .unwrap_or_else(|| std::io::stderr().is_terminal());
    let lines = fmt::layer()
        .with_writer(move || LogWriter::new(std::io::stderr(), has_colors))
        .with_ansi(has_colors);
    let lines = if is_json {
        lines.json().boxed()
    } else {
        lines.boxed()
    };
    let (filter, handle) = reload::Layer::new(filter);
    let log = tracing_subscriber::registry().with(filter).with(lines);
    #[cfg(feature = "otlp")]
    let log = log.with(run.and_then(|run| crate::otlp::bridge(&run.otlp)));
    #[cfg(not(feature = "otlp"))]
    let _ = run;
    log.init();
    let level = Mutex::new(global.log_level.clone());
    // The log starts once per process.
    FILTER.get_or_init(|| Filter { handle, level });
    Ok(())
}

/// Returns the current level of the log.
///
/// # Errors
/// Returns an error if [`start`] did not start the log of this process.
pub(crate) fn level() -> Result<String, String> {
    let filter = FILTER.get().ok_or_else(foreign)?;
    Ok(filter
        .level
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone())
}

/// Changes the level of the log, and returns the previous level.
///
/// # Errors
/// Returns an error if the level is invalid, or if [`start`] did not start the log of this process.
pub(crate) fn set_level(level: &str) -> Result<String, String> {
    let filters = FILTER.get().ok_or_else(foreign)?;
    // Held until the change, so that the stored level is that of the filter.
    let mut current = filters.level.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = filters.handle.reload(filter(level, false)?);
    changed.map_err(|error| error.to_string())?;
    Ok(std::mem::replace(&mut *current, level.to_owned()))
}

fn foreign() -> String {
    "the log of this process belongs to the program that embeds the provider".to_owned()
}

/// Returns the log filter. The log of the Kubernetes client library is disabled, because this program logs
/// the same failures. If `chosen` names the library, the log stays enabled.
fn filter(chosen: &str, is_short: bool) -> Result<EnvFilter, String> {
    const KUBE_CLIENT: &str = "kube_client";
    /// Modules with warnings about unusable chain nodes and clusters. With the default level, `query`, `tx`,
    /// `doctor` and tenant commands omit these warnings. These commands report the failure as an error.
    const REPORTED: [&str; 5] = [
        "akash_provider_chain::endpoints",
        "akash_provider_k8s",
        "akash_provider_kube_kernel",
        "akash_provider_kube_model",
        "akash_provider_operators",
    ];
    check_log_levels(chosen)?;
    let mut levels = log_levels(chosen);
    if !chosen.contains(KUBE_CLIENT) {
        levels.push_str(&format!(",{KUBE_CLIENT}=off"));
    }
    if is_short && chosen == DEFAULT_LEVEL {
        for module in REPORTED {
            levels.push_str(&format!(",{module}=error"));
        }
    }
    EnvFilter::try_new(levels).map_err(|error| error.to_string())
}
