//! Validation of image references, with the rules of registries and container runtimes.

/// Maximum length of a repository name with its registry.
const MAX_NAME: usize = 255;
/// Maximum length of a tag, in characters.
const MAX_TAG: usize = 128;

/// Returns why the image reference `[registry[:port]/]path[:tag][@algorithm:digest]` is invalid, or `None`
/// for a valid reference.
pub(super) fn fault(reference: &str) -> Option<&'static str> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Some(
            "the digest after `@` must have the form `algorithm:hexadecimal`, for example `sha256:` and 64 digits",
        );
    }
    let (name, tag) = match rest.rsplit_once(':') {
        // In `host:5000/app` the colon belongs to the registry.
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Some(
            "the tag after `:` must have at most 128 letters, digits, `_`, `.` and `-`, and must not start with `.` or `-`",
        );
    }
    if name.len() > MAX_NAME {
        return Some("the name before the tag must have at most 255 characters");
    }
    let path = match name.split_once('/') {
        Some((registry, path)) if is_registry_like(registry) => {
            if !is_registry(registry) {
                return Some("the registry before the first `/` must be a host name, or host and port");
            }
            path
        }
        _ => name,
    };
    let fine = path.split('/').all(is_component);
    (!fine).then_some(
        "the path must have lower-case letters and digits, joined by `.`, `_`, `__` or `-`, and separated by `/`",
    )
}

/// Returns true if the first part of a reference is a registry, by the rules of Docker.
fn is_registry_like(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|b| b.is_ascii_uppercase())
}

fn is_registry(part: &str) -> bool {
    let (host, port) = match part.rsplit_once(':') {
        // IPv6 addresses in brackets contain colons.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (part, None),
    };
    let numeric = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let label = |l: &str| {
        !l.is_empty()
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host_is_fine = inner.map_or_else(
        || host.split('.').all(label),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    host_is_fine && port.is_none_or(numeric)
}

/// Returns true for a path component: lower-case letters and digits, with separators between them.
fn is_component(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut rest = part.as_bytes();
    loop {
        let run = rest.iter().take_while(|b| alphanumeric(**b)).count();
        if run == 0 {
            return false;
        }
        rest = rest.get(run..).unwrap_or_default();
        // Grammar of Docker: one dot, one or two underscores, any number of hyphens.
        let separator = match rest {
            [] => return true,
            [b'.', ..] => 1,
            [b'_', b'_', ..] => 2,
            [b'_', ..] => 1,
            [b'-', ..] => rest.iter().take_while(|b| **b == b'-').count(),
            _ => return false,
        };
        rest = rest.get(separator..).unwrap_or_default();
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let first = tag.bytes().next();
    first.is_some_and(word) && tag.len() <= MAX_TAG && tag.bytes().all(|b| word(b) || b"-.".contains(&b))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    let letters = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['+', '.', '-', '_']).all(letters)
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && (algorithm != "sha256" || hex.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_references_that_runtimes_accept() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let both = format!("ghcr.io/a/b:1.0@sha256:{}", "0".repeat(64));
        for good in [
            "nginx",
            "nginx:1.27-alpine",
            "localhost/busybox:1",
            "localhost:5000/busybox",
            "library/nginx",
            "ghcr.io/org/sub/image_name:v1",
            "a/b/c/d__e--f.g:X_y.Z-1",
            "registry.example.com:443/team/app",
            "[::1]:5000/app",
            "Registry.Example.com/app",
            &digest,
            &both,
        ] {
            assert_eq!(fault(good), None, "{good}");
        }
    }

    #[test]
    fn rejects_references_that_runtimes_reject() {
        let long = "a".repeat(256);
        let tag = format!("nginx:{}", "t".repeat(129));
        for bad in [
            "",
            " nginx",
            "nginx ",
            "Nginx",
            "nginx:",
            "nginx:-1",
            "nginx:a b",
            "https://ghcr.io/a/b",
            "ghcr.io//b",
            "ghcr.io/A/b",
            "/nginx",
            "nginx/",
            "a..b",
            "a___b",
            "-a",
            "a-",
            "host:port/a",
            "-host.io/a",
            "[::zz]:5000/a",
            "nginx@",
            "nginx@sha256",
            "nginx@sha256:abc",
            "nginx@sha256:gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
            "ngïnx",
            &long,
            &tag,
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
