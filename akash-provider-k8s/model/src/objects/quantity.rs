//! Quantities in the normalized form of the API server.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Suffixes of a quantity. Each suffix means 1,000 times the unit of the previous suffix.
const SUFFIXES: [&str; 8] = ["m", "", "k", "M", "G", "T", "P", "E"];

/// Converts a number of whole units to a quantity, such as `16777216`, `512M` or `1`.
pub(super) fn whole(amount: u64) -> Quantity {
    shortest(amount, 1)
}

/// Converts a number of thousandths to a quantity, such as `10m`, `1` or `1500m`.
pub(super) fn milli(amount: u64) -> Quantity {
    shortest(amount, 0)
}

fn shortest(mut amount: u64, mut power: usize) -> Quantity {
    if amount == 0 {
        return Quantity("0".to_owned());
    }
    while amount.is_multiple_of(1_000) && power + 1 < SUFFIXES.len() {
        amount /= 1_000;
        power += 1;
    }
    let suffix = SUFFIXES.get(power).copied().unwrap_or_default();
    Quantity(format!("{amount}{suffix}"))
}

/// Returns the resource request for a limit: `limit` divided by `level`, rounded half up. If the limit is
/// above 0, the request is at least 1.
///
/// If the level is 1 or less, the request equals the limit.
pub(super) fn committed(limit: u64, level: f64) -> u64 {
    if limit == 0 || level.is_nan() || level <= 1.0 {
        return limit;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the level is above 1, and float casts saturate"
    )]
    let factor = u128::from((level * 1_000.0).round() as u64);
    let requested = (u128::from(limit) * 2_000 + factor) / (2 * factor);
    u64::try_from(requested).map_or(limit, |r| r.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_normalized_like_in_the_api_server() {
        for (amount, expected) in [
            (0, "0"),
            (1, "1"),
            (999, "999"),
            (1_000, "1k"),
            (16_777_216, "16777216"),
            (512_000_000, "512M"),
            (1_500_000, "1500k"),
            (1_000_000_000_000_000_000, "1E"),
            (9_223_372_036_854_775_807, "9223372036854775807"),
        ] {
            assert_eq!(whole(amount).0, expected);
        }
        for (amount, expected) in [
            (0, "0"),
            (10, "10m"),
            (1_000, "1"),
            (1_500, "1500m"),
            (64_000, "64"),
            (1_000_000, "1k"),
        ] {
            assert_eq!(milli(amount).0, expected);
        }
    }

    #[test]
    fn fractional_commit_levels_are_applied() {
        for (limit, level, expected) in [
            (100, 1.0, 100),
            (100, 0.5, 100),
            (100, 2.0, 50),
            (100, 3.0, 33),
            (100, 10_000.0, 1),
            (1_000, 1.5, 667),
            (1, 2.0, 1),
            (0, 2.0, 0),
            (1_200, 1.2, 1_000),
            (1_990, 1.99, 1_000),
            (100, f64::NAN, 100),
            (100, f64::INFINITY, 1),
            (u64::MAX, 2.0, u64::MAX / 2 + 1),
        ] {
            assert_eq!(committed(limit, level), expected, "{limit} at {level}");
        }
    }
}
