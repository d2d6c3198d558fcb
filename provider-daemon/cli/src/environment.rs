//! Environment variables of flags. The variable `AP_SOME_FLAG`, or else `AKASH_SOME_FLAG`, sets the flag
//! `--some-flag`.

/// Prefixes of environment variables, the preferred prefix first.
pub const PREFIXES: [&str; 2] = ["AP_", "AKASH_"];
/// Returns the environment variables of a flag, the preferred name first.
#[must_use]
pub fn names(flag: &str) -> [String; 2] {
    let suffix = flag.to_ascii_uppercase().replace(['-', '.'], "_");
    PREFIXES.map(|prefix| format!("{prefix}{suffix}"))
}

/// Returns the name of the environment variable that sets a flag. Empty variables are ignored, because charts
/// set empty variables for unset values.
#[must_use]
pub fn variable(flag: &str, look: impl Fn(&str) -> Option<String>) -> Option<String> {
    names(flag)
        .into_iter()
        .find(|name| look(name).is_some_and(|value| !value.is_empty()))
}
