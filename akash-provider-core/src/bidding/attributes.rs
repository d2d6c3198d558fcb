//! Matching of attributes by the rule of the chain. The key of a requirement is a shell pattern. The value is
//! compared byte by byte.

use crate::types::Attribute;
use std::collections::BTreeSet;

/// Maximum length of an attribute key, in characters.
const MAX_KEY_LENGTH: usize = 128;

/// Returns true if the attribute `offered` satisfies the requirement `required`.
#[must_use]
pub fn matches(required: &Attribute, offered: &Attribute) -> bool {
    key_and_value_match(required, &offered.key, &offered.value)
}

/// Returns true if the offered attributes satisfy every requirement, or if there is no requirement.
#[must_use]
pub fn is_subset(required: &[Attribute], offered: &[Attribute]) -> bool {
    first_unmet(required, offered).is_none()
}

/// Returns the first requirement that no offered attribute satisfies.
#[must_use]
pub fn first_unmet<'a>(required: &'a [Attribute], offered: &[Attribute]) -> Option<&'a Attribute> {
    required.iter().find(|r| !offered.iter().any(|o| matches(r, o)))
}

/// Returns true if at least one requirement is satisfied.
#[must_use]
pub fn any_of(required: &[Attribute], offered: &[Attribute]) -> bool {
    required.iter().any(|r| offered.iter().any(|o| matches(r, o)))
}

/// Returns whether the chain accepts `key` as the key of a requirement. A valid key has 2 to 128 characters:
/// a letter, then letters, digits and `_ / . -`, then an optional `*`. The 128th character must be a letter,
/// digit, `_` or `*`.
#[must_use]
pub fn is_valid_key(key: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let inner = |b: u8| word(b) || b"/.-".contains(&b);
    let [first, middle @ .., last] = key.as_bytes() else {
        return false;
    };
    if !first.is_ascii_alphabetic() || key.len() > MAX_KEY_LENGTH || !middle.iter().copied().all(inner) {
        return false;
    }
    match *last {
        // The wildcard follows at least one character after the leading letter.
        b'*' => !middle.is_empty(),
        last if word(last) => true,
        last => inner(last) && key.len() < MAX_KEY_LENGTH,
    }
}

/// Checks that all attribute keys are valid and that no key occurs twice.
///
/// # Errors
/// Returns the first invalid key and the rule that it violates.
pub fn check_keys(attributes: &[Attribute]) -> Result<(), InvalidKey> {
    let mut seen = BTreeSet::new();
    for attribute in attributes {
        // Two characters beyond the limit show that the key is too long.
        let short_key = || attribute.key.chars().take(MAX_KEY_LENGTH + 2).collect::<String>();
        if !is_valid_key(&attribute.key) {
            return Err(InvalidKey::Malformed(short_key()));
        }
        if !seen.insert(attribute.key.as_str()) {
            return Err(InvalidKey::Duplicate(short_key()));
        }
    }
    Ok(())
}

/// Rule that an attribute key violates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The key does not have the accepted form.
    #[error(
        "attribute key `{0}` must be a letter followed by 1 to 127 letters, digits or `_/.-`, with `*` only at the end"
    )]
    Malformed(String),
    /// The key occurs twice.
    #[error("attribute key `{0}` occurs twice")]
    Duplicate(String),
}

pub(super) fn key_and_value_match(required: &Attribute, key: &str, value: &str) -> bool {
    required.value == value && glob(&required.key, key)
}

/// Matches a whole name with a shell pattern. `*` matches any number of characters except `/`. `?` matches
/// one character except `/`. `[a-z]` and `[^a-z]` match one character of a class. A character after `\` is
/// compared literally. A malformed pattern matches no name.
///
/// As in the tools of the Akash network, a part after a `*` matches at its first possible position only, and
/// a class can match `/`.
#[must_use]
pub fn glob(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    while !pattern.is_empty() {
        let (star, part, rest) = next_part(pattern);
        if star && part.is_empty() {
            return !name.contains('/');
        }
        let Some(left) = place(star, part, name, rest.is_empty()) else {
            return false;
        };
        (pattern, name) = (rest, left);
    }
    name.is_empty()
}

/// Splits a pattern into three values: whether the pattern starts with a star, the text up to the next star,
/// and the rest.
fn next_part(pattern: &str) -> (bool, &str, &str) {
    let part = pattern.trim_start_matches('*');
    let star = part.len() < pattern.len();
    let mut in_class = false;
    let mut chars = part.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '*' if !in_class => {
                let (part, rest) = part.split_at(at);
                return (star, part, rest);
            }
            _ => {}
        }
    }
    (star, part, "")
}

/// Matches `part` at the start of `name` and returns the rest of `name`.
///
/// If `star` is true, any characters except `/` may precede the match. If `last` is true, the match must end
/// at the end of `name`.
fn place<'a>(star: bool, part: &str, name: &'a str, last: bool) -> Option<&'a str> {
    let mut from = name;
    loop {
        match fit(part, from) {
            Ok(Some(left)) if !last || left.is_empty() => return Some(left),
            Ok(_) => {}
            Err(Malformed) => return None,
        }
        let mut chars = from.chars();
        if !star || chars.next().is_none_or(|c| c == '/') {
            return None;
        }
        from = chars.as_str();
    }
}

struct Malformed;

/// Matches the start of `name` with `part`, a pattern without `*`. Returns the rest of `name` after a match.
fn fit<'a>(part: &str, name: &'a str) -> Result<Option<&'a str>, Malformed> {
    let (mut pattern, mut name) = (part.chars(), name.chars());
    let mut fits = true;
    // The whole pattern is read even without a match, so that a malformed pattern is always detected.
    while let Some(p) = pattern.next() {
        let c = if fits { name.next() } else { None };
        let one = match p {
            '[' => class(&mut pattern, c)?,
            '?' => c.is_some_and(|c| c != '/'),
            '\\' => c == Some(pattern.next().ok_or(Malformed)?),
            p => c == Some(p),
        };
        fits = fits && one && c.is_some();
    }
    Ok(fits.then_some(name.as_str()))
}

/// Reads the rest of a character class such as `[a-z]` after the `[`. Returns true if the class contains `c`.
fn class(pattern: &mut std::str::Chars<'_>, c: Option<char>) -> Result<bool, Malformed> {
    let negated = pattern.as_str().starts_with('^');
    if negated {
        pattern.next();
    }
    let mut found = false;
    let mut first = true;
    loop {
        // A `]` in the first position is an error, because a class without members is malformed.
        if !first && pattern.as_str().starts_with(']') {
            pattern.next();
            return Ok(c.is_some() && found != negated);
        }
        let low = class_char(pattern)?;
        let mut high = low;
        if pattern.as_str().starts_with('-') {
            pattern.next();
            high = class_char(pattern)?;
        }
        found |= c.is_some_and(|c| low <= c && c <= high);
        first = false;
    }
}

/// Reads the first or the last character of a range such as `a-z`. The pattern must continue after this
/// character, at least with the closing `]`.
fn class_char(pattern: &mut std::str::Chars<'_>) -> Result<char, Malformed> {
    let c = match pattern.next() {
        None | Some('-' | ']') => return Err(Malformed),
        Some('\\') => pattern.next().ok_or(Malformed)?,
        Some(c) => c,
    };
    if pattern.as_str().is_empty() {
        return Err(Malformed);
    }
    Ok(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(pairs: &[(&str, &str)]) -> Vec<Attribute> {
        pairs.iter().map(|(k, v)| Attribute::new(*k, *v)).collect()
    }

    #[test]
    fn subset_and_any_of() {
        let (k1, k2, k3, k4) = (("key1", "v1"), ("key2", "v2"), ("key3", "v3"), ("key4", "v4"));
        assert!(is_subset(&set(&[k1]), &set(&[k1, k2])));
        assert!(is_subset(&set(&[k1, k2]), &set(&[k1, k2, k3, k4])));
        assert!(!is_subset(&set(&[k1]), &set(&[k3, k4])));
        assert!(is_subset(&[], &[]));
        assert!(any_of(&set(&[k1, k2]), &set(&[k1])));
        assert!(!any_of(&set(&[k1]), &set(&[k3, k4])));
        assert!(!any_of(&[], &set(&[k1])));
        let (all, one) = (set(&[k1, k3]), set(&[k1]));
        assert_eq!(first_unmet(&all, &one).unwrap().key, "key3");
    }

    #[test]
    fn values_are_compared_byte_by_byte() {
        assert!(!is_subset(&set(&[("key1", "val1")]), &set(&[("key1", "val2")])));
        assert!(!is_subset(&set(&[("key1", "val*")]), &set(&[("key1", "val1")])));
        assert!(!is_subset(&set(&[("key1", "VAL")]), &set(&[("key1", "val")])));
    }

    #[test]
    fn invalid_attribute_keys_are_refused() {
        let long = |n: usize| "a".repeat(n);
        for good in [
            "key1",
            "key1*",
            "key1/*",
            "ab",
            "a-",
            "a/b.c_d-e",
            &long(127),
            &long(128),
            &format!("{}*", long(127)),
        ] {
            assert!(is_valid_key(good), "{good}");
        }
        let dash_at_the_end = format!("{}-", long(127));
        for bad in [
            "*key1",
            "key1**",
            "key1*/",
            "key1/*/",
            "$",
            "",
            "a",
            "a*",
            "1key",
            "ké",
            &long(129),
            &long(130),
            &dash_at_the_end,
        ] {
            assert!(!is_valid_key(bad), "{bad}");
        }
        assert!(matches!(
            check_keys(&set(&[("key1", "a"), ("key1", "b")])),
            Err(InvalidKey::Duplicate(_))
        ));
        assert!(check_keys(&set(&[("key1", "a"), ("key2", "a")])).is_ok());
    }

    #[test]
    fn patterns_match_as_on_the_chain() {
        for (pattern, name) in [
            ("", ""),
            ("abc", "abc"),
            ("*", ""),
            ("*", "abc"),
            ("*c", "abc"),
            ("a*", "abc"),
            ("a*/b", "abc/b"),
            ("a*b*c*d*e*/f", "axbxcxdxe/f"),
            ("a*b?c*x", "abxbbxdbxebxczzx"),
            ("ab[c]", "abc"),
            ("ab[b-d]", "abc"),
            ("ab[^e-g]", "abc"),
            ("a\\*b", "a*b"),
            ("[a-ζ]*", "α"),
            ("[\\]a]", "]"),
            ("[\\-x]", "-"),
            ("[x\\-]", "x"),
            ("a?c", "aéc"),
            ("a[^x]c", "a/c"),
            ("*x", "xxx"),
            ("a**b", "axb"),
            ("vendor/nvidia/model/*", "vendor/nvidia/model/a100"),
        ] {
            assert!(glob(pattern, name), "`{pattern}` must match `{name}`");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("abc", "abcd"),
            ("bc", "abc"),
            ("a*", "ab/c"),
            ("a*/b", "a/c/b"),
            ("*", "a/b"),
            ("a?b", "a/b"),
            ("ab[e-g]", "abc"),
            ("ab[^c]", "abc"),
            ("a\\*b", "ab"),
            ("a???b", "aéb"),
            ("*x", "xyz"),
            ("?", ""),
            ("[^a]", ""),
            ("[]a]", "]"),
            ("[-]", "-"),
            ("[x-]", "x"),
            ("[-x]", "x"),
            ("[a-b-c]", "a"),
            ("[", "a"),
            ("[^", "a"),
            ("[^bc", "a"),
            ("a[", "a"),
            ("a[", "ab"),
            ("a\\", "a"),
            ("*[", "ab"),
            ("vendor/nvidia/model/*", "vendor/nvidia/model/a100/ram/80Gi"),
        ] {
            assert!(!glob(pattern, name), "`{pattern}` must not match `{name}`");
        }
    }

    proptest! {
        #[test]
        fn matching_never_panics(pattern in "\\PC{0,24}", name in "\\PC{0,24}") {
            let _ = glob(&pattern, &name);
        }

        #[test]
        fn matching_of_pattern_characters_never_panics(pattern in r"[*?\[\]\\^/ab-]{0,16}", name in "[/abé-]{0,16}") {
            let _ = glob(&pattern, &name);
            prop_assert!(glob(&name, &name), "a name without pattern characters matches itself");
        }

        #[test]
        fn a_trailing_star_is_a_prefix_within_a_segment(prefix in "[a-z/]{1,8}", tail in "[a-z/]{0,8}") {
            let pattern = format!("{prefix}*");
            prop_assert_eq!(glob(&pattern, &format!("{prefix}{tail}")), !tail.contains('/'));
        }
    }
}
