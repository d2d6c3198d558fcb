//! Kubernetes quantities: `100m`, `1.5Gi`, `2e3`.
//!
//! The crate `kube_quantity` 0.9 uses floats, and rejects the valid quantities `1E` and `8Ei`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Maximum of a parsed amount. The sum of thousands of amounts fits in 128 bits.
pub(crate) const LIMIT: i64 = 1 << 60;
/// Maximum number of digits that are read; the API server stores fewer.
const DIGITS: usize = 24;

/// Quantities by resource name, such as the requests of a container.
pub(crate) type ResourceQuantities = BTreeMap<String, Quantity>;

/// Parses a quantity such as `1500m`. Returns whole units, rounded up, or `None` for an invalid quantity.
#[must_use]
pub fn whole(text: &str) -> Option<i64> {
    parse(text, 0)
}

/// Parses a quantity such as `1.5`. Returns thousandths, rounded up, or `None` for an invalid quantity.
#[must_use]
pub fn milli(text: &str) -> Option<i64> {
    parse(text, 3)
}

/// Returns the quantity of a resource in whole units; 0 if the quantity is missing or invalid.
pub(crate) fn whole_of(list: &ResourceQuantities, name: &str) -> i64 {
    list.get(name).and_then(|q| whole(&q.0)).unwrap_or(0)
}

/// Returns the quantity of a resource in thousandths; 0 if the quantity is missing or invalid.
pub(crate) fn milli_of(list: &ResourceQuantities, name: &str) -> i64 {
    list.get(name).and_then(|q| milli(&q.0)).unwrap_or(0)
}

/// Parses a quantity, and returns the quantity multiplied by 10^`scale`. The result is rounded up, and
/// limited to the range from zero to [`LIMIT`].
fn parse(text: &str, scale: i32) -> Option<i64> {
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (before, after) = number.split_once('.').unwrap_or((number, ""));
    if before.len() + after.len() == 0 || after.contains('.') {
        return None;
    }
    let (exponent, shift) = suffix_of(suffix)?;
    // The format is checked first, because an invalid quantity is not zero.
    if negative {
        return Some(0);
    }
    let before = before.trim_start_matches('0');
    if before.len() > DIGITS {
        return Some(LIMIT);
    }
    let decimals = &after[..after.len().min(DIGITS - before.len())];
    // Truncated digits count for rounding up.
    let rest = after[decimals.len()..].bytes().any(|b| b != b'0');
    let digits = format!("0{before}{decimals}").parse::<i128>().ok()?;
    let exponent = exponent + scale - i32::try_from(decimals.len()).ok()?;
    let value = scaled(digits, exponent, shift).saturating_add(i128::from(rest && digits == 0));
    Some(i64::try_from(value).map_or(LIMIT, |v| v.min(LIMIT)))
}

/// Returns `digits × 10^exponent × 2^shift`, rounded up and saturated.
fn scaled(digits: i128, exponent: i32, shift: u32) -> i128 {
    if digits == 0 {
        return 0;
    }
    let Some(value) = digits.checked_mul(1 << shift) else {
        return i128::MAX;
    };
    match 10i128.checked_pow(exponent.unsigned_abs()) {
        Some(power) if exponent >= 0 => value.saturating_mul(power),
        Some(power) => (value - 1) / power + 1,
        None if exponent >= 0 => i128::MAX,
        None => 1,
    }
}

/// Returns the exponents of 10 and of 2 for a suffix: `(3, 0)` for `k`, `(0, 10)` for `Ki`.
fn suffix_of(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.parse().ok()?;
            // With a larger exponent every number is the limit or almost zero.
            (exponent.clamp(-100, 100), 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_parsed_as_by_the_api_server() {
        for (text, whole_units, thousandths) in [
            ("0", 0, 0),
            ("1", 1, 1_000),
            ("100m", 1, 100),
            ("1500m", 2, 1_500),
            ("0.5", 1, 500),
            (".5", 1, 500),
            ("5.", 5, 5_000),
            ("+2", 2, 2_000),
            ("-2", 0, 0),
            ("1n", 1, 1),
            ("1u", 1, 1),
            ("1k", 1_000, 1_000_000),
            ("1Ki", 1_024, 1_024_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("0.1Mi", 104_858, 104_857_600),
            ("2e3", 2_000, 2_000_000),
            ("2E3", 2_000, 2_000_000),
            ("2e-1", 1, 200),
            ("3M", 3_000_000, 3_000_000_000),
            ("129e6", 129_000_000, 129_000_000_000),
            ("128974848000m", 128_974_848, 128_974_848_000),
            ("00000000000000000000000000000001", 1, 1_000),
            ("0.0000000000000000000000000000001", 1, 1),
        ] {
            assert_eq!(whole(text), Some(whole_units), "{text}");
            assert_eq!(milli(text), Some(thousandths), "{text}");
        }
    }

    #[test]
    fn huge_quantities_saturate_at_the_limit() {
        for text in [
            "2Ei",
            "99E",
            "1e99",
            "1e2147483647",
            "9999999999999999999999999999",
            "8Ei",
        ] {
            assert_eq!(whole(text), Some(LIMIT), "{text}");
        }
        assert_eq!(whole("1e-2147483648"), Some(1));
        assert_eq!(whole("0e99"), Some(0));
    }

    #[test]
    fn invalid_quantities_are_rejected() {
        for text in [
            "", ".", "-", "m", "Gi", "1.2.3", "1 Gi", "1gi", "1K", "1e", "1e1.5", "0x1", "١",
        ] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,40}", digits in "[0-9.eE+-]{0,60}[A-Za-z]{0,2}") {
            for text in [text, digits] {
                if let Some(value) = whole(&text) {
                    prop_assert!((0..=LIMIT).contains(&value), "{}", text);
                }
            }
        }
    }
}
