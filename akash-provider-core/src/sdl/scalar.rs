//! Parsing of scalars: numbers and booleans like YAML 1.2 parsers in Go, quantities, and durations.
//!
//! Manifest hashes depend on this arithmetic, so the crate `kube_quantity` cannot replace it.

use crate::types::quantity::BINARY;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuantityError {
    /// The text is not a number, or has an unknown unit.
    NotANumber,
    /// The number is negative.
    Negative,
    /// The number is too large.
    TooLarge,
}

/// Parses a boolean. `true` and `false` must be unquoted. The old forms, such as `yes` and `on`, may be
/// quoted.
pub(super) fn flag(text: &str, plain: bool) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" if plain => Some(true),
        "false" | "False" | "FALSE" if plain => Some(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Parses an unquoted integer: decimal, hexadecimal, octal or binary, or a number such as `80.0`.
pub(super) fn whole(text: &str) -> Result<u64, QuantityError> {
    let digits = text.replace('_', "");
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, digits.strip_prefix('+').unwrap_or(&digits).to_owned()),
    };
    // At most one sign, because the integer parsers accept another.
    if digits.starts_with(['+', '-']) {
        return Err(QuantityError::NotANumber);
    }
    // As a float only if the text is not an integer, because a float loses digits above 2^53.
    let value = match integer(&digits) {
        Some(value) => value,
        None => integral(&digits)?,
    };
    if negative && value > 0 {
        return Err(QuantityError::Negative);
    }
    Ok(value)
}

fn integer(digits: &str) -> Option<u64> {
    let (radix, rest) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, digits.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, digits.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // The integer parser of Rust accepts a sign after the prefix, YAML does not.
    if rest.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(rest, radix).ok()
}

fn integral(digits: &str) -> Result<u64, QuantityError> {
    let value = float(digits)?;
    if value.fract() != 0.0 {
        return Err(QuantityError::NotANumber);
    }
    to_u64(value)
}

/// Parses a decimal number, optionally with a fraction and an exponent. `inf` and `nan` are errors.
fn float(text: &str) -> Result<f64, QuantityError> {
    let allowed = |b: u8| b.is_ascii_digit() || b"+-.eE".contains(&b);
    if text.is_empty() || !text.bytes().all(allowed) {
        return Err(QuantityError::NotANumber);
    }
    text.parse().map_err(|_| QuantityError::NotANumber)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value was checked to be in range; fractions are truncated, as in the network's tools"
)]
fn to_u64(value: f64) -> Result<u64, QuantityError> {
    // 2^64; every smaller float fits.
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if value < 0.0 {
        return Err(QuantityError::Negative);
    }
    if value >= LIMIT {
        return Err(QuantityError::TooLarge);
    }
    Ok(value as u64)
}

/// Parses CPU in millicores: `500m`, `0.5`, `2`.
pub(super) fn milli_cpu(text: &str) -> Result<u64, QuantityError> {
    let value = match text.strip_suffix('m') {
        Some(milli) if milli.starts_with('-') => return Err(QuantityError::Negative),
        Some(milli) => decimal(milli)?,
        // Computed in 64-bit floats and truncated, as in the network's tools, because the hash depends on the
        // value.
        None => to_u64(float(text)? * 1000.0)?,
    };
    if value > u64::from(u32::MAX) {
        return Err(QuantityError::TooLarge);
    }
    Ok(value)
}

pub(super) fn devices(text: &str) -> Result<u64, QuantityError> {
    if text.starts_with('-') {
        return Err(QuantityError::Negative);
    }
    decimal(text)
}

fn decimal(text: &str) -> Result<u64, QuantityError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::NotANumber);
    }
    text.parse().map_err(|_| QuantityError::TooLarge)
}

const DECIMAL: [(&str, u32); 6] = [("k", 1), ("M", 2), ("G", 3), ("T", 4), ("P", 5), ("E", 6)];

/// Parses bytes: `512Mi`, `1G`, `1.5Gi`, `1024`.
pub(super) fn bytes(text: &str) -> Result<u64, QuantityError> {
    for (suffix, power) in BINARY {
        if let Some(number) = text.strip_suffix(suffix) {
            return scaled(number, 1024, power);
        }
    }
    for (suffix, power) in DECIMAL {
        if let Some(number) = text.strip_suffix(suffix) {
            return scaled(number, 1000, power);
        }
    }
    to_u64(float(text)?)
}

/// Parses the memory of a GPU like [`bytes`], but accepts binary units only.
pub(super) fn gpu_ram(text: &str) -> Result<u64, QuantityError> {
    for (suffix, power) in BINARY {
        if let Some(number) = text.strip_suffix(suffix) {
            return scaled(number, 1024, power);
        }
    }
    to_u64(float(text)?)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the network's tools compute in 64-bit floats, and the hash depends on the value"
)]
fn scaled(number: &str, base: u64, power: u32) -> Result<u64, QuantityError> {
    to_u64(float(number)? * base.saturating_pow(power) as f64)
}

/// Parses a duration in the syntax of Go, such as `1h30m`. Returns `None` if the text is invalid or the
/// duration exceeds 292 years.
pub(super) fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    // The only duration without a unit in Go.
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    // Longer texts are refused, because parsing takes time.
    if rest.is_empty() || rest.len() > 100 {
        return None;
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        nanos = nanos.checked_add(part(number, unit)?)?;
        rest = after;
    }
    // Go stores nanoseconds in a signed 64-bit integer, so no tool of the network accepts more.
    let nanos = u64::try_from(nanos).ok().filter(|n| i64::try_from(*n).is_ok())?;
    Some(Duration::from_nanos(nanos))
}

fn part(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Eighteen digits are more precise than a nanosecond of any unit, so further digits have no effect.
    let fraction: String = fraction
        .chars()
        .chain("000000000000000000".chars())
        .take(18)
        .collect();
    let fraction: u128 = fraction.parse().ok()?;
    whole
        .checked_mul(unit)?
        .checked_add(fraction * unit / 1_000_000_000_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_the_network() {
        for (text, milli) in [
            ("100m", 100),
            ("0.5", 500),
            ("1", 1000),
            ("1e1", 10_000),
            ("0.0005", 0),
        ] {
            assert_eq!(milli_cpu(text), Ok(milli), "{text}");
        }
        for (text, count) in [
            ("512Mi", 512 << 20),
            ("1Gi", 1 << 30),
            ("1G", 1_000_000_000),
            ("1k", 1000),
            ("1.5Gi", 3 << 29),
            ("1e3", 1000),
            ("7", 7),
            ("1Ei", 1 << 60),
        ] {
            assert_eq!(bytes(text), Ok(count), "{text}");
        }
        assert_eq!(gpu_ram("81920Mi"), Ok(80 << 30));
        assert_eq!(gpu_ram("80G"), Err(QuantityError::NotANumber));
        for bad in ["", "m", "1 m", "0x10", "inf", "nan", "1..2", "1mm", "one", "１"] {
            assert_eq!(milli_cpu(bad), Err(QuantityError::NotANumber), "{bad}");
            assert_eq!(bytes(bad), Err(QuantityError::NotANumber), "{bad}");
        }
        assert_eq!(milli_cpu("-100m"), Err(QuantityError::Negative));
        assert_eq!(milli_cpu("-1"), Err(QuantityError::Negative));
        assert_eq!(milli_cpu("5000000"), Err(QuantityError::TooLarge));
        assert_eq!(bytes("16Ei"), Err(QuantityError::TooLarge));
        assert_eq!(bytes("-1Gi"), Err(QuantityError::Negative));
        assert_eq!(devices("99999999999999999999999"), Err(QuantityError::TooLarge));
        assert_eq!(devices("1.0"), Err(QuantityError::NotANumber));
    }

    #[test]
    fn integers_are_parsed_as_in_yaml() {
        for (text, value) in [
            ("80", 80),
            ("+80", 80),
            ("0x50", 80),
            ("0o120", 80),
            ("0120", 80),
            ("0b101", 5),
            ("1_000", 1000),
            ("80.0", 80),
            ("-0", 0),
        ] {
            assert_eq!(whole(text), Ok(value), "{text}");
        }
        for bad in ["", "80.5", "eighty", "0x", "--1", "0x-1", "1e"] {
            assert_eq!(whole(bad), Err(QuantityError::NotANumber), "{bad}");
        }
        assert_eq!(whole("-80"), Err(QuantityError::Negative));
        assert_eq!(whole("99999999999999999999999999"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn durations_have_the_form_of_go() {
        for (text, millis) in [
            ("20s", 20_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("0", 0),
            ("+1m0.25s", 60_250),
            ("24h", 86_400_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in [
            "",
            "20",
            "-5s",
            "1d",
            "1h 30m",
            "h",
            ".s",
            "9999999h9999999h",
            "s1",
        ] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn booleans_are_parsed_as_in_yaml() {
        assert_eq!(flag("true", true), Some(true));
        assert_eq!(flag("true", false), None);
        for plain in [true, false] {
            for yes in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"] {
                assert_eq!(flag(yes, plain), Some(true), "{yes}");
            }
            for no in ["n", "N", "no", "No", "NO", "off", "Off", "OFF"] {
                assert_eq!(flag(no, plain), Some(false), "{no}");
            }
            for neither in ["yES", "oN", "nO", "oFF", "", "1"] {
                assert_eq!(flag(neither, plain), None, "{neither}");
            }
        }
        assert_eq!(flag("off", true), Some(false));
        assert_eq!(flag("maybe", true), None);
    }
}
