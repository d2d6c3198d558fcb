//! Versions of packages and of the compiler.

/// Parses a version. `1.89` and `1.89.0` are equal.
pub(crate) fn version(text: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = text.split('.').filter_map(|part| part.parse().ok()).collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version("1.100") > version("1.99.3"));
        assert_eq!(version("1.89"), version("1.89.0"));
    }
}
