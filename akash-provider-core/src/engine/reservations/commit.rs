//! Commit levels: only a part of an overcommitted resource is reserved.

use crate::config::Config;
use crate::types::{GroupSpec, ResourceUnit};

/// Returns the amount to reserve for `value` at an overcommit of `percent`: `value / (1 + percent / 100)`,
/// rounded half up. The result is at least 1 unless `value` is 0. With an overcommit of 50 %, the provider
/// sells 1.5 times its capacity.
#[must_use]
pub fn committed(value: u64, percent: u32) -> u64 {
    if percent == 0 || value == 0 {
        return value;
    }
    // 128 bits, because 200 times a 64-bit amount can overflow.
    let factor = 100 + u128::from(percent);
    // Half the divisor is added to round half up.
    let rounded = (u128::from(value) * 200 + factor) / (2 * factor);
    u64::try_from(rounded).map_or(value, |r| r.max(1))
}

/// Returns the units of a group with overcommit applied. GPUs are never overcommitted.
#[must_use]
pub fn committed_units(config: &Config, spec: &GroupSpec) -> Vec<ResourceUnit> {
    let mut units = spec.resources.clone();
    for unit in &mut units {
        let resources = &mut unit.resources;
        resources.cpu.units = committed(resources.cpu.units, config.overcommit_cpu_percent);
        resources.memory.bytes = committed(resources.memory.bytes, config.overcommit_memory_percent);
        for volume in &mut resources.storage {
            volume.bytes = committed(volume.bytes, config.overcommit_storage_percent);
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bidding::fixtures::group;
    use crate::types::Address;

    #[test]
    fn each_resource_has_its_own_commit_level() {
        let mut config = Config::new(Address::from_bytes(&[7; 20]).unwrap(), "commit");
        config.overcommit_cpu_percent = 100;
        config.overcommit_memory_percent = 300;
        config.overcommit_storage_percent = 900;
        let mut spec = group();
        for unit in &mut spec.resources {
            unit.resources.cpu.units = 1_000;
            unit.resources.memory.bytes = 1_000;
            unit.resources.storage.truncate(1);
            unit.resources.storage[0].bytes = 1_000;
        }
        for unit in committed_units(&config, &spec) {
            let resources = unit.resources;
            let reserved = (
                resources.cpu.units,
                resources.memory.bytes,
                resources.storage[0].bytes,
            );
            assert_eq!(reserved, (500, 250, 100));
        }
    }

    #[test]
    fn w10_fractional_commit_levels_are_applied() {
        for (value, percent, expected) in [
            (100, 0, 100),
            (100, 100, 50),
            (100, 200, 33),
            (100, 999_900, 1),
            (1000, 50, 667),
            (1, 100, 1),
            (1200, 20, 1000),
            (1500, 50, 1000),
            (1990, 99, 1000),
            (0, 50, 0),
            (u64::MAX, 0, u64::MAX),
            (u64::MAX, 100, u64::MAX / 2 + 1),
            (u64::MAX, u32::MAX, 429_496_720_000),
        ] {
            if value == u64::MAX && percent == u32::MAX {
                assert!(committed(value, percent) < value / 40_000_000);
                continue;
            }
            assert_eq!(committed(value, percent), expected, "{value} at {percent} %");
        }
    }
}
