//! Limits of the Akash network for a group. If an order violates a limit, its bids cannot win a lease and
//! only cost fees.

use super::attributes::{InvalidKey, check_keys};
use crate::types::price::Dec;
use crate::types::quantity::Measure;
use crate::types::{Attribute, GroupSpec, ResourceUnit};
use std::collections::BTreeSet;

const MI: u64 = 1 << 20;
const TI: u64 = 1 << 40;
/// Ratio of the maximum per group to the maximum per unit, for each resource.
const GROUP_FACTOR: u128 = 50;

/// Minimum CPU of a unit, in thousandths of a core.
pub const MIN_UNIT_CPU: u64 = 10;
/// Maximum CPU of a unit, in thousandths of a core.
pub const MAX_UNIT_CPU: u64 = 384_000;
/// Maximum number of GPUs of a unit.
pub const MAX_UNIT_GPUS: u64 = 24;
/// Minimum memory of a unit, in bytes.
pub const MIN_UNIT_MEMORY: u64 = MI;
/// Maximum memory of a unit, in bytes.
pub const MAX_UNIT_MEMORY: u64 = 2 * TI;
/// Minimum size of a volume, in bytes.
pub const MIN_VOLUME: u64 = 5 * MI;
/// Maximum size of a volume, in bytes.
pub const MAX_VOLUME: u64 = 32 * TI;
/// Maximum price of one replica per block, in the smallest unit of the denomination.
pub const MAX_UNIT_PRICE: i64 = 10_000_000;

/// Reason why a group violates the limits of the Akash network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidGroup {
    /// The name of the group is empty.
    #[error("the group has no name")]
    NoName,
    /// The group has no resource units.
    #[error("the group requests no resources")]
    NoUnits,
    /// A resource id is 0.
    #[error("a unit has resource id 0; ids start at 1")]
    ZeroId,
    /// Two units have the same id.
    #[error("resource id {0} occurs twice")]
    DuplicateId(u32),
    /// A requested amount is out of its range.
    #[error(
        "unit {unit}: {what} is {}, must be from {} to {}",
        format(.measure, .value), format(.measure, .min), format(.measure, .max)
    )]
    OutOfRange {
        /// Resource id of the unit.
        unit: u32,
        /// Name of the resource.
        what: &'static str,
        /// Unit of `value`, `min` and `max`.
        measure: Measure,
        /// Requested amount.
        value: u64,
        /// Minimum that the Akash network allows.
        min: u64,
        /// Maximum that the Akash network allows.
        max: u64,
    },
    /// A unit has GPU attributes without a GPU.
    #[error("unit {unit} names GPU models and requests no GPU")]
    GpuAttributesWithoutGpu {
        /// Resource id of the unit.
        unit: u32,
    },
    /// An attribute key is invalid.
    #[error("{place}: {problem}")]
    Key {
        /// Location of the key within the group, as text.
        place: String,
        /// Violated rule.
        problem: InvalidKey,
    },
    /// A price is negative or too high.
    #[error("unit {unit}: the price {price} must be from 0 to {MAX_UNIT_PRICE}")]
    Price {
        /// Resource id of the unit.
        unit: u32,
        /// Price that the tenant offers for one replica.
        price: Dec,
    },
    /// The prices of the units have several denominations.
    #[error("the group mixes the denominations {first} and {other}; one is allowed")]
    MixedDenoms {
        /// Denomination of the first unit's price.
        first: String,
        /// First denomination that differs.
        other: String,
    },
    /// The sum of a resource over all replicas of all units is outside of the allowed range.
    #[error(
        "the group requests {} {what} in total; the total must be {}at most {}",
        format(.measure, .value), if .above < &0 { "" } else { "above 0 and " }, format(.measure, .max)
    )]
    Total {
        /// Name of the resource.
        what: &'static str,
        /// Unit of `value` and `max`.
        measure: Measure,
        /// Total amount for all replicas of all units.
        value: u128,
        /// Lower bound of the total amount, exclusive: -1 allows zero.
        above: i8,
        /// Maximum that the Akash network allows.
        max: u128,
    },
    /// The sum of the prices overflows the price type.
    #[error("the group's price is too large")]
    PriceOverflow,
}

fn format<N: Copy + Into<u128>>(measure: &Measure, number: &N) -> String {
    measure.format((*number).into())
}

/// Checks a group against the limits of the Akash network.
///
/// # Errors
/// Returns the first violated limit.
pub fn check_group(group: &GroupSpec) -> Result<(), InvalidGroup> {
    if group.name.is_empty() {
        return Err(InvalidGroup::NoName);
    }
    check_attributes(|| "placement".to_owned(), &group.requirements.attributes)?;
    let Some(first) = group.resources.first() else {
        return Err(InvalidGroup::NoUnits);
    };
    let mut ids = BTreeSet::new();
    for unit in &group.resources {
        let id = unit.resources.id;
        if id == 0 {
            return Err(InvalidGroup::ZeroId);
        }
        if !ids.insert(id) {
            return Err(InvalidGroup::DuplicateId(id));
        }
        if unit.price.denom != first.price.denom {
            return Err(InvalidGroup::MixedDenoms {
                first: first.price.denom.to_string(),
                other: unit.price.denom.to_string(),
            });
        }
        check_unit(unit)?;
    }
    check_totals(&group.resources)?;
    group.max_price().map(drop).ok_or(InvalidGroup::PriceOverflow)
}

fn check_unit(unit: &ResourceUnit) -> Result<(), InvalidGroup> {
    let resources = &unit.resources;
    let id = resources.id;
    let range = |(what, measure), value: u64, min: u64, max: u64| {
        let broken = InvalidGroup::OutOfRange {
            unit: id,
            what,
            measure,
            value,
            min,
            max,
        };
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(broken)
        }
    };
    range(
        ("CPU", Measure::Millicores),
        resources.cpu.units,
        MIN_UNIT_CPU,
        MAX_UNIT_CPU,
    )?;
    check_attributes(|| format!("unit {id}, CPU"), &resources.cpu.attributes)?;
    range(("GPU", Measure::Count), resources.gpu.units, 0, MAX_UNIT_GPUS)?;
    if resources.gpu.units == 0 && !resources.gpu.attributes.is_empty() {
        return Err(InvalidGroup::GpuAttributesWithoutGpu { unit: id });
    }
    check_attributes(|| format!("unit {id}, GPU"), &resources.gpu.attributes)?;
    range(
        ("memory", Measure::Bytes),
        resources.memory.bytes,
        MIN_UNIT_MEMORY,
        MAX_UNIT_MEMORY,
    )?;
    check_attributes(|| format!("unit {id}, memory"), &resources.memory.attributes)?;
    for volume in &resources.storage {
        range(("a volume", Measure::Bytes), volume.bytes, MIN_VOLUME, MAX_VOLUME)?;
        check_attributes(
            || format!("unit {id}, volume `{}`", volume.name),
            &volume.attributes,
        )?;
    }
    let price = unit.price.amount;
    if price.is_negative() || price > Dec::from_int(MAX_UNIT_PRICE) {
        return Err(InvalidGroup::Price { unit: id, price });
    }
    Ok(())
}

fn check_totals(units: &[ResourceUnit]) -> Result<(), InvalidGroup> {
    let sum = |of: fn(&ResourceUnit) -> u64| -> u128 {
        units
            .iter()
            .map(|u| u128::from(of(u)) * u128::from(u.count))
            .fold(0, u128::saturating_add)
    };
    let check = |(what, measure), value: u128, above: i8, max: u64| {
        let max = u128::from(max) * GROUP_FACTOR;
        let low = above >= 0 && value == 0;
        let broken = InvalidGroup::Total {
            what,
            measure,
            value,
            above,
            max,
        };
        if low || value > max { Err(broken) } else { Ok(()) }
    };
    check(
        ("CPU", Measure::Millicores),
        sum(|u| u.resources.cpu.units),
        0,
        MAX_UNIT_CPU,
    )?;
    check(
        ("GPUs", Measure::Count),
        sum(|u| u.resources.gpu.units),
        -1,
        MAX_UNIT_GPUS,
    )?;
    check(
        ("of memory", Measure::Bytes),
        sum(|u| u.resources.memory.bytes),
        0,
        MAX_UNIT_MEMORY,
    )?;
    for unit in units {
        for volume in &unit.resources.storage {
            check(
                ("in one volume", Measure::Bytes),
                u128::from(volume.bytes) * u128::from(unit.count),
                -1,
                MAX_VOLUME,
            )?;
        }
    }
    Ok(())
}

fn check_attributes(place: impl Fn() -> String, attributes: &[Attribute]) -> Result<(), InvalidGroup> {
    check_keys(attributes).map_err(|problem| InvalidGroup::Key {
        place: place(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bidding::fixtures::group;
    use crate::types::{DecCoin, Storage};

    fn broken_by(change: impl Fn(&mut GroupSpec)) -> InvalidGroup {
        let mut group = group();
        check_group(&group).unwrap();
        change(&mut group);
        check_group(&group).unwrap_err()
    }

    fn holds_with(change: impl Fn(&mut GroupSpec)) {
        let mut group = group();
        change(&mut group);
        check_group(&group).unwrap();
    }

    fn volume(bytes: u64) -> Storage {
        Storage::new("data", bytes, Vec::new())
    }

    #[test]
    fn quantities_of_a_unit_have_a_range() {
        type Field = fn(&mut GroupSpec) -> &mut u64;
        let cpu: Field = |g| &mut g.resources[0].resources.cpu.units;
        let gpu: Field = |g| &mut g.resources[0].resources.gpu.units;
        let memory: Field = |g| &mut g.resources[0].resources.memory.bytes;
        let storage: Field = |g| &mut g.resources[0].resources.storage[0].bytes;
        for (field, min, max) in [
            (cpu, 10, 384_000),
            (gpu, 0, 24),
            (memory, 1 << 20, 2 << 40),
            (storage, 5 << 20, 32 << 40),
        ] {
            holds_with(|g| *field(g) = min);
            holds_with(|g| *field(g) = max);
            let is_range = |e: &InvalidGroup| matches!(e, InvalidGroup::OutOfRange { unit: 1, .. });
            assert!(is_range(&broken_by(|g| *field(g) = max + 1)));
            if min > 0 {
                assert!(is_range(&broken_by(|g| *field(g) = min - 1)));
            }
        }
    }

    #[test]
    fn quantities_are_in_the_units_of_sdl_files() {
        type Change = fn(&mut GroupSpec);
        let cpu: Change = |g| g.resources[0].resources.cpu.units = 384_500;
        let memory: Change = |g| g.resources[0].resources.memory.bytes = 512 << 10;
        let volume: Change = |g| g.resources[0].resources.storage[0].bytes = 33 << 40;
        let gpus: Change = |g| (g.resources[0].resources.gpu.units, g.resources[0].count) = (24, 51);
        let all: Change = |g| (g.resources[0].resources.memory.bytes, g.resources[0].count) = (2 << 40, 51);
        for (change, text) in [
            (cpu, "unit 1: CPU is 384.5, must be from 0.01 to 384"),
            (memory, "unit 1: memory is 512Ki, must be from 1Mi to 2Ti"),
            (volume, "unit 1: a volume is 33Ti, must be from 5Mi to 32Ti"),
            (
                gpus,
                "the group requests 1224 GPUs in total; the total must be at most 1200",
            ),
            (
                all,
                "the group requests 102Ti of memory in total; the total must be above 0 and at most 100Ti",
            ),
        ] {
            assert_eq!(broken_by(change).to_string(), text);
        }
    }

    #[test]
    fn totals_of_a_group_have_a_limit() {
        let total = |e: &InvalidGroup| matches!(e, InvalidGroup::Total { .. });
        holds_with(|g| (g.resources[0].resources.cpu.units, g.resources[0].count) = (384_000, 50));
        assert!(total(&broken_by(|g| (
            g.resources[0].resources.cpu.units,
            g.resources[0].count
        ) = (384_000, 51))));
        assert!(total(&broken_by(|g| (
            g.resources[0].resources.gpu.units,
            g.resources[0].count
        ) = (24, 51))));
        assert!(total(&broken_by(|g| (
            g.resources[0].resources.memory.bytes,
            g.resources[0].count
        ) = (2 << 40, 51))));
        let volumes = |g: &mut GroupSpec, count| {
            g.resources[0].resources.storage = vec![volume(32 << 40), volume(32 << 40)];
            g.resources[0].count = count;
        };
        // Each volume has its own limit.
        holds_with(|g| volumes(g, 50));
        assert!(total(&broken_by(|g| volumes(g, 51))));
        let none = broken_by(|g| g.resources[0].count = 0);
        assert_eq!(
            none.to_string(),
            "the group requests 0 CPU in total; the total must be above 0 and at most 19200"
        );
        assert!(total(&broken_by(|g| g.resources[0].count = u32::MAX)));
    }

    #[test]
    fn missing_names_duplicate_ids_and_mixed_denominations_are_refused() {
        assert_eq!(broken_by(|g| g.name.clear()), InvalidGroup::NoName);
        assert_eq!(broken_by(|g| g.resources.clear()), InvalidGroup::NoUnits);
        assert_eq!(
            broken_by(|g| g.resources[0].resources.id = 0),
            InvalidGroup::ZeroId
        );
        let twice = |g: &mut GroupSpec| g.resources.push(g.resources[0].clone());
        assert_eq!(broken_by(twice), InvalidGroup::DuplicateId(1));
        let mixed = broken_by(|g| {
            twice(g);
            g.resources[1].resources.id = 2;
            g.resources[1].price.denom = "uakt".into();
        });
        assert_eq!(
            mixed.to_string(),
            "the group mixes the denominations uact and uakt; one is allowed"
        );
    }

    #[test]
    fn prices_have_a_limit() {
        let set = |text: &'static str| {
            move |g: &mut GroupSpec| {
                g.resources[0].price = DecCoin::new(&"uact".into(), text.parse().unwrap())
            }
        };
        holds_with(set("10000000"));
        holds_with(set("0.000000000000000001"));
        for bad in ["10000000.000000000000000001", "-1"] {
            assert!(
                matches!(broken_by(set(bad)), InvalidGroup::Price { unit: 1, .. }),
                "{bad}"
            );
        }
    }

    #[test]
    fn attribute_keys_are_checked_everywhere() {
        let bad = || vec![Attribute::new("*bad", "x")];
        let place = |e: InvalidGroup| match e {
            InvalidGroup::Key { place, .. } => place,
            other => other.to_string(),
        };
        assert_eq!(
            place(broken_by(|g| g.requirements.attributes = bad())),
            "placement"
        );
        assert_eq!(
            place(broken_by(|g| g.resources[0].resources.cpu.attributes = bad())),
            "unit 1, CPU"
        );
        assert_eq!(
            place(broken_by(|g| g.resources[0].resources.memory.attributes = bad())),
            "unit 1, memory"
        );
        let volume = broken_by(|g| g.resources[0].resources.storage[0].attributes = bad());
        assert_eq!(place(volume), "unit 1, volume `default`");
        let gpu = |units| {
            broken_by(move |g| {
                g.resources[0].resources.gpu.units = units;
                g.resources[0].resources.gpu.attributes = bad();
            })
        };
        assert_eq!(place(gpu(1)), "unit 1, GPU");
        assert_eq!(gpu(0), InvalidGroup::GpuAttributesWithoutGpu { unit: 1 });
    }
}
