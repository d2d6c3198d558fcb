//! Descriptions of problems, with a limited length, because they can contain text from a tenant.

/// Maximum length of a problem description, in characters.
pub const PROBLEM_MAX: usize = 300;

/// Truncates a text to [`PROBLEM_MAX`] characters.
#[must_use]
pub fn cut(text: String) -> String {
    match text.char_indices().nth(PROBLEM_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
