//! Refusal of a deployment that Kubernetes cannot store or run.

/// Maximum size of an object in the API server, in bytes.
pub const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// Reason why a deployment cannot be rendered as Kubernetes objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("service {service:?}, {field}: {problem}")]
pub struct RenderError {
    /// Name of the service; empty for the group.
    pub service: String,
    /// Field of the manifest, for example `expose[1].port`.
    pub field: String,
    /// Problem and remedy.
    pub problem: String,
}

impl RenderError {
    /// Creates an error; `service` is empty for the group.
    #[must_use]
    pub fn new(service: &str, field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            service: service.to_owned(),
            field: field.into(),
            problem: problem.into(),
        }
    }
}
