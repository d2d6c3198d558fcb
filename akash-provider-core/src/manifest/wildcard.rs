//! Hostnames with a wildcard: `*.example.com`, where one `*` is the whole first label.
//!
//! A wildcard *covers* the names that have exactly one label in place of the `*` (`a.example.com`), but not
//! `a.b.example.com` or `example.com`. With proxies of the Gateway API and with nginx, a wildcard also
//! *reaches* names with more labels, if no more specific name exists. Checks that protect the names of other
//! tenants use "reaches".

use super::{MAX_HOSTNAME, check_hostname, is_hostname};

/// Label that replaces `*` in texts that cannot contain `*`, such as object names. No real hostname starts
/// with this label.
pub const WILDCARD_LABEL: &str = "wc--any";

/// Returns whether `host` is `*.` before a hostname of at least two labels. After [`WILDCARD_LABEL`] replaces
/// the `*`, the name must have at most [`MAX_HOSTNAME`] characters.
#[must_use]
pub fn is_wildcard(host: &str) -> bool {
    let Some(rest) = host.strip_prefix("*.") else {
        return false;
    };
    rest.contains('.') && rest.len() + WILDCARD_LABEL.len() < MAX_HOSTNAME && is_hostname(rest)
}

/// Returns whether [`check_hostname`] accepts `host`, which can be a hostname or a wildcard.
#[must_use]
pub fn is_hostname_or_wildcard(host: &str) -> bool {
    check_hostname(host).is_ok()
}

/// Returns the wildcard that covers a hostname. Returns `None` if the name has only one label or is a
/// wildcard.
#[must_use]
pub fn covering(host: &str) -> Option<String> {
    let (first, rest) = host.split_once('.')?;
    (first != "*").then(|| format!("*.{rest}"))
}

/// Returns whether `name` is a wildcard that a proxy can apply to `host`: `*.a.com` reaches `b.a.com` and
/// `c.b.a.com`.
#[must_use]
pub fn reaches(name: &str, host: &str) -> bool {
    let Some(dotted) = name.strip_prefix('*') else {
        return false;
    };
    host.strip_suffix(dotted).is_some_and(|stem| !stem.is_empty())
}

/// Returns a valid object name for a hostname: [`WILDCARD_LABEL`] replaces the `*` of a wildcard. Different
/// names have different results.
#[must_use]
pub fn without_star(host: &str) -> String {
    match host.strip_prefix('*') {
        Some(rest) => format!("{WILDCARD_LABEL}{rest}"),
        None => host.to_owned(),
    }
}

/// Reverses [`without_star`]: replaces [`WILDCARD_LABEL`] with `*`.
#[must_use]
pub fn with_star(name: &str) -> String {
    match name.strip_prefix(WILDCARD_LABEL) {
        Some(rest) if rest.starts_with('.') => format!("*{rest}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_one_star_before_a_name_of_two_labels() {
        for good in ["*.example.com", "*.a.b", "*.xn--bcher-kva.example"] {
            assert!(
                is_wildcard(good) && is_hostname_or_wildcard(good) && !is_hostname(good),
                "{good}"
            );
            assert_eq!(with_star(&without_star(good)), good);
            assert!(super::super::hostname::is_dns_name(&without_star(good)), "{good}");
        }
        for bad in [
            "*",
            "*.",
            "*.com",
            "*a.example.com",
            "a*.example.com",
            "a.*.com",
            "*.*.com",
            "**.example.com",
            "*example.com",
            "*.Example.com",
            "*.example.com.",
            "*..example.com",
            "*.-a.com",
            "*.wc--any.com",
            "",
            "example.com",
            "wc--any.example.com",
        ] {
            assert!(!is_wildcard(bad), "{bad}");
        }
        assert!(
            !is_hostname_or_wildcard("wc--any.example.com"),
            "an object of `*.example.com` has that name"
        );
        assert!(is_hostname("wc--anyone.example.com"));
        let rest = |length: usize| {
            format!("{}.com", vec!["a".repeat(49); 5].join("."))[..length - 4].to_owned() + ".com"
        };
        let longest = format!("*.{}", rest(MAX_HOSTNAME - WILDCARD_LABEL.len() - 1));
        assert!(is_wildcard(&longest) && without_star(&longest).len() == MAX_HOSTNAME);
        assert!(!is_wildcard(&format!("*.a{}", &longest[2..])));
    }

    #[test]
    fn a_wildcard_covers_one_label_and_may_reach_more() {
        assert_eq!(covering("a.example.com").as_deref(), Some("*.example.com"));
        assert_eq!(covering("a.b.example.com").as_deref(), Some("*.b.example.com"));
        assert_eq!(covering("*.example.com"), None);
        assert_eq!(covering("localhost"), None);
        for (host, reached) in [
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("example.com", false),
            ("notexample.com", false),
            ("*.b.example.com", true),
        ] {
            assert_eq!(reaches("*.example.com", host), reached, "{host}");
        }
        assert!(!reaches("example.com", "a.example.com"));
    }
}
