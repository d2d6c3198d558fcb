//! Validation of names and texts with the rules of Kubernetes.

use super::RenderError;
use akash_provider_core::manifest::Service;

/// Maximum length of a DNS label, in bytes.
pub(super) const MAX_LABEL: usize = 63;
/// Maximum length of a StatefulSet's name. The revision label of its pods adds 11 characters.
const MAX_STATEFUL_SET: usize = MAX_LABEL - 11;
/// Maximum length of one argument or variable in the Linux kernel, with the terminating null byte.
const MAX_ARGUMENT: usize = 128 * 1024;

/// Returns true for a DNS label: `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, at most 63 characters.
pub(super) fn is_label(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.bytes().all(allowed)
}

/// Returns true for a DNS subdomain: labels joined by dots, at most 253 characters.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Returns true for the name part of a label key: letters, digits, `-`, `_` and `.`, at most 63 characters.
pub(super) fn is_label_key(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= MAX_LABEL
        && ends(name.chars().next())
        && ends(name.chars().next_back())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

pub(super) fn service_name(service: &Service) -> Result<(), RenderError> {
    let name = service.name.as_str();
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        let problem =
            "a name must start with a letter and have at most 63 lower-case letters, digits and `-`";
        return Err(RenderError::new(name, "name", problem));
    }
    let persistent = service
        .resources
        .storage
        .iter()
        .any(|volume| volume.is_persistent());
    if persistent && name.len() > MAX_STATEFUL_SET {
        let problem = format!(
            "{} characters; the name of a service with persistent volumes must have at most {MAX_STATEFUL_SET}",
            name.len()
        );
        return Err(RenderError::new(name, "name", problem));
    }
    Ok(())
}

/// Checks a command, argument or variable against the limits of the kernel.
pub(super) fn argument(service: &str, field: impl FnOnce() -> String, text: &str) -> Result<(), RenderError> {
    if text.contains('\0') {
        return Err(RenderError::new(service, field(), "contains a null byte"));
    }
    if text.len() >= MAX_ARGUMENT {
        let problem = format!(
            "{} bytes; the limit is {MAX_ARGUMENT}, put large texts into a file of the image",
            text.len()
        );
        return Err(RenderError::new(service, field(), problem));
    }
    Ok(())
}

pub(super) fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    if text.chars().count() <= MAX_SHOWN {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_limits_of_kubernetes() {
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä"] {
            assert!(!is_label(bad), "{bad}");
        }
        assert!(is_subdomain("fast.storage") && !is_subdomain("fast..storage"));
        for (good, name) in [
            (true, "capabilities.gpu.vendor.nvidia.model.a100"),
            (true, "capabilities.gpu.vendor.nvidia.model.GTX_1080"),
            (false, "capabilities.gpu.vendor.nvidia.model.*"),
            (false, "capabilities.gpu.vendor.nvidia.model."),
        ] {
            assert_eq!(is_label_key(name), good, "{name}");
        }
        assert!(is_label_key(&"a".repeat(63)) && !is_label_key(&"a".repeat(64)));
    }

    #[test]
    fn arguments_have_the_limit_of_the_kernel() {
        let field = || "args[0]".to_owned();
        assert!(argument("web", field, &"a".repeat(MAX_ARGUMENT - 1)).is_ok());
        assert!(argument("web", field, &"a".repeat(MAX_ARGUMENT)).is_err());
        assert!(argument("web", field, "a\0b").is_err());
    }
}
