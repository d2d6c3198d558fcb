//! Times in annotations and in the status.

use k8s_openapi::jiff::Timestamp;

/// Returns the current time in the format of [`rfc3339`].
#[must_use]
pub fn timestamp() -> String {
    rfc3339(Timestamp::now())
}

/// Formats a time as RFC 3339 in UTC, with second precision.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
