//! Errors and warnings collected while parsing, up to a limit.

use super::fault::{SdlError, SdlErrors, Warning};

/// Maximum number of listed errors. Further errors are only counted.
pub const MAX_ERRORS: usize = 50;

/// Maximum number of listed warnings. Warnings of later lines are dropped.
const MAX_WARNINGS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    warnings: Vec<Warning>,
    errors: Vec<SdlError>,
    /// Number of further errors that are not listed.
    more: usize,
}

impl Diagnostics {
    pub(super) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Adds an error and continues. The same error is added only once.
    pub(super) fn wrong(&mut self, error: SdlError) {
        if self.errors.contains(&error) {
            return;
        }
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn keep<T>(&mut self, read: Result<T, SdlError>) -> Option<T> {
        read.map_err(|error| self.wrong(error)).ok()
    }

    /// Runs `read`. Returns `None` if `read` added an error.
    pub(super) fn whole<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, SdlError>) -> Option<T> {
        let before = self.count();
        let read = read(self);
        self.keep(read).filter(|_| self.count() == before)
    }

    pub(super) fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    fn count(&self) -> usize {
        self.errors.len() + self.more
    }

    /// Returns the first error, or `Ok` if the text has no error.
    pub(super) fn so_far(&self) -> Result<(), SdlError> {
        self.errors.first().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Returns the warnings if the text has no error, otherwise all errors.
    pub(super) fn end(mut self) -> Result<Vec<Warning>, Box<SdlErrors>> {
        self.warnings.sort_by_key(|warning| warning.line);
        self.warnings.truncate(MAX_WARNINGS);
        match self.errors.pop() {
            None => Ok(self.warnings),
            Some(last) => Err(Box::new(self.end_with(last))),
        }
    }

    /// Adds the error that stopped the parser, and returns all errors.
    pub(super) fn end_with(mut self, error: SdlError) -> SdlErrors {
        if !self.errors.contains(&error) {
            self.errors.push(error.clone());
        }
        self.errors.sort_by_key(|error| error.line);
        let mut errors = self.errors.into_iter();
        SdlErrors {
            first: errors.next().unwrap_or(error),
            others: errors.collect(),
            more: self.more,
            warnings: self.warnings,
        }
    }
}
