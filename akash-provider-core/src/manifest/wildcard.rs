//! Hostnames with a wildcard: `*.example.com`, one `*` as the whole first label.
//!
//! Such a name *covers* what has one label in its place (`a.example.com`), and neither `a.b.example.com` nor
//! `example.com`. Proxies of the Gateway API, and nginx, let it *reach* names of more labels too, where nobody has one
//! that is nearer; what must never be served by somebody else is compared with that.

use super::{MAX_HOSTNAME, check_hostname, is_hostname};

/// The label that stands for `*` where none can be written, such as the names of a backend's objects. No hostname
/// begins with it: names with `--` at that place are kept from registration unless they begin with `xn--`.
pub const WILDCARD_LABEL: &str = "wc--any";

/// True for `*.` before a hostname of at least two labels. With [`WILDCARD_LABEL`] in place of the `*` it has at most
/// [`MAX_HOSTNAME`] characters.
#[must_use]
pub fn is_wildcard(host: &str) -> bool {
    let Some(rest) = host.strip_prefix("*.") else {
        return false;
    };
    rest.contains('.') && rest.len() + WILDCARD_LABEL.len() < MAX_HOSTNAME && is_hostname(rest)
}

/// True for a hostname, with or without a wildcard, that passes [`check_hostname`].
#[must_use]
pub fn is_hostname_or_wildcard(host: &str) -> bool {
    check_hostname(host).is_ok()
}

/// The wildcard that covers a hostname; `None` for a name of one label, and for a wildcard.
#[must_use]
pub fn covering(host: &str) -> Option<String> {
    let (first, rest) = host.split_once('.')?;
    (first != "*").then(|| format!("*.{rest}"))
}

/// True when a name is a wildcard that a proxy may follow for a request to `host`, or to a name below it: `*.a.com`
/// reaches `b.a.com` and `c.b.a.com`.
#[must_use]
pub fn reaches(name: &str, host: &str) -> bool {
    let Some(dotted) = name.strip_prefix('*') else {
        return false;
    };
    host.strip_suffix(dotted).is_some_and(|stem| !stem.is_empty())
}

/// The name with [`WILDCARD_LABEL`] in place of a wildcard: of a form that names of objects have. Two names never have
/// the same.
#[must_use]
pub fn without_star(host: &str) -> String {
    match host.strip_prefix('*') {
        Some(rest) => format!("{WILDCARD_LABEL}{rest}"),
        None => host.to_owned(),
    }
}

/// The name of which [`without_star`] made this one.
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
            assert!(super::super::validate::is_dns_name(&without_star(good)), "{good}");
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
