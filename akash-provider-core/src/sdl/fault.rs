//! Errors and warnings with their place.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Larger, deeper or with more nodes than is read.
    TooLarge,
    /// It cannot be read as YAML.
    Syntax,
    /// A key is there twice.
    DuplicateKey,
    /// A field nobody knows.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// A list where a text belongs, and the like.
    WrongType,
    /// A value outside of what is allowed.
    Invalid,
    /// A name that leads nowhere, or something nobody leads to.
    Reference,
    /// More or less than the network takes.
    Limit,
    /// A version that is not read.
    Version,
}

/// Why an SDL is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("line {line}: {path}: {problem}; {mend}")]
pub struct SdlError {
    /// What kind of thing is wrong.
    pub kind: ErrorKind,
    /// Line of the text, from 1.
    pub line: u32,
    /// Where, for example `services.web.expose[0].port`; `document` for the whole.
    pub path: String,
    /// What is wrong there, for people.
    pub problem: String,
    /// What to do about it.
    pub mend: String,
}

/// Everything that is wrong with an SDL, as far as it can be told at once, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{first}{}", and_others(.others.len() + .more))]
pub struct SdlErrors {
    /// The one on the first line.
    pub first: SdlError,
    /// Those that follow it; with the first at most [`MAX_ERRORS`](super::MAX_ERRORS).
    pub others: Vec<SdlError>,
    /// How many there are beyond those.
    pub more: usize,
    /// What is odd besides.
    pub warnings: Vec<Warning>,
}

impl SdlErrors {
    /// Every error that was kept, in the order of the lines.
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

/// Something that is accepted and probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// Line of the text, from 1.
    pub line: u32,
    /// Where, for example `profiles.placement.akash.pricing.web.denom`.
    pub path: String,
    /// What is odd there, for people.
    pub problem: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            path,
            problem,
            mend,
        } = self;
        write!(f, "line {line}: {path}: {problem}; {mend}")
    }
}

/// A place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) line: u32,
    pub(super) path: String,
}

impl Spot {
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
        mend: impl Into<String>,
    ) -> SdlError {
        SdlError {
            kind,
            line: self.line,
            path: self.path.clone(),
            problem: problem.into(),
            mend: mend.into(),
        }
    }

    pub(super) fn warning(&self, problem: impl Into<String>, mend: impl Into<String>) -> Warning {
        Warning {
            line: self.line,
            path: self.path.clone(),
            problem: problem.into(),
            mend: mend.into(),
        }
    }
}

/// A tenant's text, short enough for an error.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
