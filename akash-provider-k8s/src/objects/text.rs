//! Names and texts as Kubernetes takes them.

use super::Refusal;
use akash_provider_core::manifest::Service;

/// Longest DNS label, in bytes.
pub(super) const MAX_LABEL: usize = 63;
/// Longest name of a StatefulSet: its pods carry it in a label together with a hash of ten characters.
const MAX_STATEFUL_SET: usize = MAX_LABEL - 11;
/// Longest single argument or variable the kernel hands to a process, with its end.
const MAX_ARGUMENT: usize = 128 * 1024;

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, at most 63 characters.
pub(super) fn is_label(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.bytes().all(allowed)
}

/// Labels joined by dots, at most 253 characters.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The part of a label's key after the prefix: letters, digits, `-`, `_` and `.`, at most 63 characters.
pub(super) fn is_label_key(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= MAX_LABEL
        && ends(name.chars().next())
        && ends(name.chars().next_back())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// A service's name as the name of its objects.
pub(super) fn service_name(service: &Service) -> Result<(), Refusal> {
    let name = service.name.as_str();
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        let problem =
            "a name starts with a letter, has lower-case letters, digits and `-`, and at most 63 of them";
        return Err(Refusal::new(name, "name", problem));
    }
    let persistent = service
        .resources
        .storage
        .iter()
        .any(|volume| volume.is_persistent());
    if persistent && name.len() > MAX_STATEFUL_SET {
        let problem = format!(
            "{} characters; a service with persistent volumes has a name of at most {MAX_STATEFUL_SET}",
            name.len()
        );
        return Err(Refusal::new(name, "name", problem));
    }
    Ok(())
}

/// A command, argument or variable that a process can be started with.
pub(super) fn argument(service: &str, field: impl FnOnce() -> String, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') {
        return Err(Refusal::new(
            service,
            field(),
            "it contains a zero byte; no process can be given one",
        ));
    }
    if text.len() >= MAX_ARGUMENT {
        let problem = format!(
            "{} bytes; a process takes less than {MAX_ARGUMENT} in one text, put it into a file of the image",
            text.len()
        );
        return Err(Refusal::new(service, field(), problem));
    }
    Ok(())
}

/// Text of a tenant's, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_kubernetes_ends_them() {
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
    fn an_argument_ends_where_the_kernel_ends_it() {
        let field = || "args[0]".to_owned();
        assert!(argument("web", field, &"a".repeat(MAX_ARGUMENT - 1)).is_ok());
        assert!(argument("web", field, &"a".repeat(MAX_ARGUMENT)).is_err());
        assert!(argument("web", field, "a\0b").is_err());
    }
}
