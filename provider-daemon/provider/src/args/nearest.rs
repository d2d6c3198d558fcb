//! Suggestions for misspelled names.

/// Minimum Jaro-Winkler similarity of a suggestion.
const SIMILARITY_MIN: f64 = 0.8;

/// Returns a name in lower case without separators.
pub(super) fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the name that is most similar to `name`, or `None` if no name reaches [`SIMILARITY_MIN`].
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name);
    let scored = names.map(|candidate| (strsim::jaro_winkler(&name, &plain(candidate)), candidate));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}
