//! What a reading has to say: what is odd, and everything that is wrong, as much of it as anybody reads.

use super::fault::{SdlError, SdlErrors, Warning};

/// Errors kept; a text can be wrong in as many places as it has values.
pub const MAX_ERRORS: usize = 50;

/// Warnings kept, those of the first lines.
const MAX_WARNINGS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Notes {
    warnings: Vec<Warning>,
    errors: Vec<SdlError>,
    /// Errors beyond those kept.
    more: usize,
}

impl Notes {
    pub(super) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Notes an error; the reading goes on elsewhere. One that comes by several ways is noted once.
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

    /// What was read, or nothing and its error noted.
    pub(super) fn keep<T>(&mut self, read: Result<T, SdlError>) -> Option<T> {
        read.map_err(|error| self.wrong(error)).ok()
    }

    /// What `read` makes, if nothing at all was wrong in it.
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

    /// An error that was noted, if there is one: nothing can be built of such a text.
    pub(super) fn so_far(&self) -> Result<(), SdlError> {
        self.errors.first().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The end of the reading: the warnings of a text that is right, or all that is wrong with it.
    pub(super) fn end(mut self) -> Result<Vec<Warning>, Box<SdlErrors>> {
        self.warnings.sort_by_key(|warning| warning.line);
        self.warnings.truncate(MAX_WARNINGS);
        match self.errors.pop() {
            None => Ok(self.warnings),
            Some(last) => Err(Box::new(self.end_with(last))),
        }
    }

    /// The end of a reading that something stopped.
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
