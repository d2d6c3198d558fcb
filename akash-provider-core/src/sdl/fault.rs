//! Errors and warnings with their location.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text or a part of the text is too large, is nested too deeply or has too many nodes.
    TooLarge,
    /// The text is not valid YAML.
    Syntax,
    /// A key occurs twice.
    DuplicateKey,
    /// A field is unknown.
    UnknownField,
    /// A required field is missing.
    MissingField,
    /// A value has the wrong type, such as a list instead of a text.
    WrongType,
    /// A value is not allowed.
    Invalid,
    /// A part refers to a missing part, or two parts contradict each other.
    Reference,
    /// A value is outside the limits of the Akash network.
    Limit,
    /// The version is not supported.
    Version,
}

/// An error in an SDL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("line {line}: {path}: {problem}; {help}")]
pub struct SdlError {
    /// Category of the error.
    pub kind: ErrorKind,
    /// Line of the text, from 1.
    pub line: u32,
    /// Location, for example `services.web.expose[0].port`; `document` for the whole document.
    pub path: String,
    /// Description of the problem.
    pub problem: String,
    /// Remedy.
    #[serde(rename = "mend")]
    pub help: String,
}

/// Errors that were detected together in one SDL, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first}{}", and_others(.others.len() + .more))]
pub struct SdlErrors {
    /// First error.
    pub first: SdlError,
    /// Listed errors after `first`. `first` and `others` have at most [`MAX_ERRORS`](super::MAX_ERRORS)
    /// errors in total.
    pub others: Vec<SdlError>,
    /// Number of further errors that are not listed.
    pub more: usize,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

impl SdlErrors {
    /// Returns all listed errors in the order of lines.
    pub fn iter(&self) -> impl Iterator<Item = &SdlError> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

fn and_others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " (and 1 more error)".to_owned(),
        many => format!(" (and {many} more errors)"),
    }
}

/// Probable mistake in an SDL. The parser accepts the SDL nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// Line of the text, from 1.
    pub line: u32,
    /// Location, for example `profiles.placement.akash.pricing.web.denom`.
    pub path: String,
    /// Description of the problem.
    pub problem: String,
    /// Remedy.
    #[serde(rename = "mend")]
    pub help: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            path,
            problem,
            help,
        } = self;
        write!(f, "line {line}: {path}: {problem}; {help}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) line: u32,
    pub(super) path: String,
}

impl Location {
    pub(super) fn new(line: u32, path: impl Into<String>) -> Self {
        Self {
            line,
            path: path.into(),
        }
    }

    pub(super) fn error(
        &self,
        kind: ErrorKind,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> SdlError {
        SdlError {
            kind,
            line: self.line,
            path: self.path.clone(),
            problem: problem.into(),
            help: help.into(),
        }
    }

    pub(super) fn warning(&self, problem: impl Into<String>, help: impl Into<String>) -> Warning {
        Warning {
            line: self.line,
            path: self.path.clone(),
            problem: problem.into(),
            help: help.into(),
        }
    }
}

pub(super) fn truncated(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
