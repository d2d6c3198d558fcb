//! Times in annotations and in the status.

use k8s_openapi::jiff::Timestamp;

/// Returns the current time in the format of [`rfc3339`].
pub(crate) fn timestamp() -> String {
    rfc3339(Timestamp::now())
}

/// Formats a time as RFC 3339 in UTC, with second precision.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
