//! Checks of container image references, by the grammar of the distribution project.

/// Maximum length of a repository name including its registry.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;
/// Minimum length of a digest, in hexadecimal digits.
const MIN_DIGEST: usize = 32;

/// Checks an image reference: `[REGISTRY[:PORT]/]PATH[:TAG][@ALGORITHM:DIGEST]`.
///
/// # Errors
/// Returns the invalid part of the reference.
pub(crate) fn check(reference: &str) -> Result<(), &'static str> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err("its digest is not `ALGORITHM:HEX`");
    }
    // A colon before the last slash separates a port.
    let path_at = rest.rfind('/').map_or(0, |at| at + 1);
    let (_, last) = rest.split_at(path_at);
    let (name, tag) = match last.split_once(':') {
        Some((last, tag)) => (&rest[..path_at + last.len()], Some(tag)),
        None => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(
            "its tag must have 1 to 128 characters of A-Z, a-z, 0-9, `_`, `.` and `-`, and must not start with `.` or `-`",
        );
    }
    if name.len() > MAX_NAME {
        return Err("its name has more than 255 characters");
    }
    let mut parts: Vec<&str> = name.split('/').collect();
    let is_registry = |part: &str| {
        part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|b| b.is_ascii_uppercase())
    };
    if parts.len() > 1 && is_registry(parts[0]) && !is_host(parts.remove(0)) {
        return Err("its registry is not `HOST` or `HOST:PORT`");
    }
    if !parts.into_iter().all(is_path) {
        return Err(
            "its path must have parts of lower-case letters and digits, joined by `.`, `_`, `__` or `-`, with `/` between the parts",
        );
    }
    Ok(())
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        let is_hex = hex.bytes().all(|b| b.is_ascii_hexdigit());
        algorithm.split(['+', '.', '-', '_']).all(is_word) && hex.len() >= MIN_DIGEST && is_hex
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts = tag.bytes().next().is_some_and(is_word);
    starts && tag.len() <= MAX_TAG && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let is_label = |label: &str| {
        let is_inside = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !label.is_empty() && is_inside && !label.starts_with('-') && !label.ends_with('-')
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_name = match address {
        Some(address) => address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => name.split('.').all(is_label),
    };
    is_port && is_name
}

/// Returns whether `part` is one component of a path: lower-case letters and digits, with `.`, `_`, `__` or
/// hyphens between them.
fn is_path(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut separators = part.split(|c: char| u8::try_from(c).is_ok_and(is_word));
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-');
    let ends = [part.bytes().next(), part.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(is_word)) && separators.all(is_separator)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn image_references_follow_the_grammar_of_registries() {
        let digest = "a".repeat(64);
        for good in [
            "nginx",
            "nginx:1.27",
            "library/nginx:Latest_1.0-rc",
            "localhost/web",
            "localhost:5000/a/b__c.d---e:1",
            "Registry/web",
            "[2001:db8::1]:5000/web",
            &format!("quay.io/v/seed@sha256:{digest}"),
            &format!("web:v1@sha512+b64:{digest}"),
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = "a".repeat(256);
        for (bad, why) in [
            ("NGINX:latest:oops", "tag"),
            ("nginx:latest:oops", "tag"),
            ("nginx:", "tag"),
            ("nginx:-a", "tag"),
            (&format!("nginx:{}", "a".repeat(129)), "tag"),
            ("NGINX", "path"),
            ("ghcr.io/Org/web", "path"),
            ("a//b", "path"),
            ("/web", "path"),
            ("web/", "path"),
            ("a..b", "path"),
            ("a___b", "path"),
            ("-a", "path"),
            ("web server", "path"),
            (" nginx", "path"),
            ("nginx\n", "path"),
            ("büro", "path"),
            ("https://ghcr.io/web", "registry"),
            ("ghcr.io:x/web", "registry"),
            ("-.io/web", "registry"),
            ("web@sha256", "digest"),
            ("web@sha256:abc", "digest"),
            ("web@", "digest"),
            (&long, "255"),
        ] {
            let problem = check(bad).expect_err(bad);
            assert!(problem.contains(why), "{bad}: {problem}");
        }
    }
}
