//! Errors with a remedy, and the text of errors on stderr.

use crate::plain::plain;
use akash_provider_core::error::chain_text;
use serde_json::json;
use std::error::Error;
use std::ffi::OsString;
use std::{fmt, io};

/// Error message with a remedy, printed as a separate line `help: …`.
#[derive(Debug)]
pub struct WithHelp {
    message: String,
    help: String,
}

impl WithHelp {
    /// Creates an error from its message and remedy.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
        }
    }
}

impl fmt::Display for WithHelp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for WithHelp {}

/// Returns the remedy of an error. Returns `None` for an error of a type that the function does not know.
pub type Remedy = for<'a> fn(&'a (dyn Error + 'static)) -> Option<&'a str>;

/// Returns the lines of an error for stderr: `error: …` with all causes, then `help: …` for a remedy.
#[must_use]
pub fn error_text(error: &anyhow::Error, remedies: &[Remedy]) -> String {
    plain(&format!("error: {}", message_text(error, remedies))).into_owned()
}

/// Returns an error for stderr: one JSON object if this process was started with `--output json`, else the lines of
/// [`error_text`].
#[must_use]
pub fn stderr_text(error: &anyhow::Error, remedies: &[Remedy]) -> String {
    if !is_json(std::env::args_os()) {
        return error_text(error, remedies);
    }
    let mut messages = error.chain().map(ToString::to_string);
    let message = messages.next().unwrap_or_default();
    json_text(&message, help(error, remedies), messages)
}

/// Returns an error as a JSON object on one line. `causes` starts with the direct cause.
#[must_use]
pub fn json_text(message: &str, help: Option<&str>, causes: impl Iterator<Item = String>) -> String {
    let causes: Vec<String> = causes.collect();
    let object = json!({ "error": message, "help": help, "causes": causes });
    plain(&object.to_string()).into_owned()
}

/// Returns true if a command line selects the output format JSON. Ignores environment variables, which scripts set
/// for other commands.
pub fn is_json(words: impl Iterator<Item = OsString>) -> bool {
    let mut format = None;
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let mut words = words.take_while(|word| word != "--");
    while let Some(word) = words.next() {
        if word == "-o" || word == "--output" {
            format = words.next();
        } else if let Some(value) = word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o")) {
            format = Some(value.trim_start_matches('=').to_owned());
        }
    }
    format.as_deref() == Some("json")
}

/// Returns the message of an error with all causes, then `help: …` on a separate line for a remedy.
#[must_use]
pub fn message_text(error: &anyhow::Error, remedies: &[Remedy]) -> String {
    let text = chain_text(error.as_ref());
    match help(error, remedies) {
        Some(help) => format!("{text}\nhelp: {help}"),
        None => text,
    }
}

/// Returns the first remedy for an error or for one of its causes. A remedy is the text of a [`WithHelp`], or
/// the result of a function in `remedies`. If there is no such remedy, returns the general remedy for an I/O
/// error among the causes.
#[must_use]
pub fn help<'a>(error: &'a anyhow::Error, remedies: &[Remedy]) -> Option<&'a str> {
    // A remedy that was added as a context is no cause in the chain below.
    let of_context = error.downcast_ref::<WithHelp>().map(|error| error.help.as_str());
    let of_cause = || {
        error.chain().find_map(|cause| {
            let with_help = cause.downcast_ref::<WithHelp>().map(|error| error.help.as_str());
            with_help.or_else(|| remedies.iter().find_map(|remedy| remedy(cause)))
        })
    };
    let of_io = || {
        let mut causes = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>());
        causes.find_map(|error| io_help(error.kind()))
    };
    of_context.or_else(of_cause).or_else(of_io)
}

const fn io_help(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => {
            "run the command as the owner of the file, or change the permissions of the file"
        }
        io::ErrorKind::AlreadyExists => "choose another path, or remove the file",
        io::ErrorKind::IsADirectory => "set the path of a file",
        io::ErrorKind::NotADirectory => "set the path of a directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on the disk",
        io::ErrorKind::ReadOnlyFilesystem => "choose a path on a writable file system",
        io::ErrorKind::AddrInUse => "stop the program that uses the address, or set another address",
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
            "check the address, and that the service is running"
        }
        io::ErrorKind::TimedOut => "try again later",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
