//! Decoder of internationalized labels, RFC 3492.

/// Number of different digits: `a` to `z`, then `0` to `9`.
const BASE: u32 = 36;
/// Minimum threshold of a digit (RFC 3492, section 5).
const T_MIN: u32 = 1;
/// Maximum threshold of a digit (RFC 3492, section 5).
const T_MAX: u32 = 26;
/// First encoded code point.
const INITIAL_N: u32 = 128;
const INITIAL_BIAS: u32 = 72;

/// Decodes a label without its `xn--`. Returns `None` if the label is not valid Punycode.
pub(super) fn decode(encoded: &str) -> Option<String> {
    let (plain, digits) = encoded.rsplit_once('-').unwrap_or(("", encoded));
    let mut output: Vec<char> = plain.chars().collect();
    let (mut n, mut i, mut bias) = (INITIAL_N, 0_u32, INITIAL_BIAS);
    let mut digits = digits.bytes();
    while digits.len() > 0 {
        let before = i;
        let (mut weight, mut k) = (1_u32, BASE);
        loop {
            let digit = digit(digits.next()?)?;
            i = i.checked_add(digit.checked_mul(weight)?)?;
            let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            k += BASE;
        }
        let length = u32::try_from(output.len()).ok()? + 1;
        bias = adapt(i - before, length, before == 0);
        n = n.checked_add(i / length)?;
        i %= length;
        output.insert(usize::try_from(i).ok()?, char::from_u32(n)?);
        i += 1;
    }
    // An encoded label contains at least one non-ASCII character.
    output
        .iter()
        .any(|c| !c.is_ascii())
        .then(|| output.into_iter().collect())
}

fn digit(byte: u8) -> Option<u32> {
    match byte {
        b'a'..=b'z' => Some(u32::from(byte - b'a')),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 26),
        _ => None,
    }
}

fn adapt(delta: u32, length: u32, is_first: bool) -> u32 {
    // Damping and skew of RFC 3492.
    let mut delta = if is_first { delta / 700 } else { delta / 2 };
    delta += delta / length;
    let mut k = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_rfc_decode_and_invalid_text_does_not() {
        for (encoded, text) in [
            ("bcher-kva", "bücher"),
            ("egbpdaj6bu4bxfgehfvwxn", "ليهمابتكلموشعربي؟"),
            ("ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"),
            ("-> $1.00 <--", ""),
            ("", ""),
            ("a-", ""),
            ("0", ""),
            ("99999999", ""),
            ("a\u{e9}", ""),
        ] {
            assert_eq!(decode(encoded).unwrap_or_default(), text, "{encoded}");
        }
    }
}
