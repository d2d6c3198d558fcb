//! Formatting of resource quantities in the notation of SDL files: `0.5` cores, `512Mi`.

/// Unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Number of devices.
    Count,
    /// Millicores.
    Millicores,
    /// Bytes.
    Bytes,
}

impl Measure {
    /// Formats a quantity as in SDL files. `number` is the quantity in this unit.
    #[must_use]
    pub fn format(self, number: u128) -> String {
        match self {
            Self::Count => number.to_string(),
            Self::Millicores => cores(number),
            Self::Bytes => bytes(number),
        }
    }
}

/// Binary units, each with its power of 1024, largest first.
pub(crate) const BINARY: [(&str, u32); 6] =
    [("Ei", 6), ("Pi", 5), ("Ti", 4), ("Gi", 3), ("Mi", 2), ("Ki", 1)];

/// Formats millicores as cores: `384`, `0.01`.
#[must_use]
pub fn cores(millicores: u128) -> String {
    let (whole, rest) = (millicores / 1000, millicores % 1000);
    format!("{whole}.{rest:03}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Formats bytes in the largest binary unit that gives a whole number: `2Ti`, `1536Mi`, `7`.
#[must_use]
pub fn bytes(bytes: u128) -> String {
    let mut units = BINARY.iter();
    let unit = units.find(|(_, power)| bytes > 0 && bytes.is_multiple_of(1 << (10 * power)));
    unit.map_or_else(
        || bytes.to_string(),
        |(name, power)| format!("{}{name}", bytes >> (10 * power)),
    )
}

/// Formats bytes in the largest binary unit, rounded down to two decimals: `126.97Gi`. For measured amounts,
/// such as free memory.
#[must_use]
pub fn rounded_bytes(bytes: u128) -> String {
    let unit = BINARY.iter().find(|(_, power)| bytes >> (10 * power) > 0);
    let Some((name, power)) = unit else {
        return bytes.to_string();
    };
    // In thousandths with a truncated last digit, to reuse the notation of cores.
    let hundredths = (bytes * 100) >> (10 * power);
    format!("{}{name}", cores(hundredths * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_notation_of_sdl_files() {
        for (measure, number, text) in [
            (Measure::Millicores, 500, "0.5"),
            (Measure::Millicores, 384_000, "384"),
            (Measure::Millicores, 10, "0.01"),
            (Measure::Bytes, 512 << 20, "512Mi"),
            (Measure::Bytes, 3 << 29, "1536Mi"),
            (Measure::Bytes, 0, "0"),
            (Measure::Bytes, (2 << 40) + 1, "2199023255553"),
            (Measure::Count, 25, "25"),
        ] {
            assert_eq!(measure.format(number), text);
        }
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (3 << 29, "1.5Gi"),
            (136_339_441_844, "126.97Gi"),
            ((2 << 40) + 1, "2Ti"),
        ] {
            assert_eq!(rounded_bytes(bytes), text);
        }
    }
}
