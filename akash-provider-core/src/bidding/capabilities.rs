//! Comparison of an order with the storage and GPU capabilities that a provider declares.

use super::attributes::key_and_value_match;
use super::{Decline, show_attributes};
use crate::types::{Attribute, ResourceUnit};
use std::collections::BTreeMap;

pub(super) const STORAGE: &str = "capabilities/storage/";
pub(super) const GPU: &str = "capabilities/gpu/";

/// Hardware capabilities, parsed from the attributes of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities<'a> {
    /// Attributes `capabilities/storage/<n>/<key>`: pairs of `<key>` and value, by `<n>`.
    storage: BTreeMap<&'a str, Vec<(&'a str, &'a str)>>,
    /// Attributes `capabilities/gpu/<rest>`: pairs of `<rest>` and value. `<rest>` has at least two segments.
    gpu: Vec<(&'a str, &'a str)>,
}

impl<'a> Capabilities<'a> {
    /// Parses the capabilities in `attributes`, and ignores other attributes.
    #[must_use]
    pub fn from_attributes(attributes: &'a [Attribute]) -> Self {
        let mut storage: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        let mut gpu = Vec::new();
        for Attribute { key, value } in attributes {
            if let Some(rest) = key.strip_prefix(STORAGE) {
                if let Some((set, key)) = rest.split_once('/').filter(|(_, key)| !key.contains('/')) {
                    storage.entry(set).or_default().push((key, value));
                }
            } else if let Some(rest) = key.strip_prefix(GPU).filter(|rest| rest.contains('/')) {
                gpu.push((rest, value.as_str()));
            }
        }
        Self { storage, gpu }
    }

    /// Checks every volume and every GPU request of `units`.
    ///
    /// A volume without attributes is always accepted. For any other volume, *one* declared storage
    /// capability must have all attributes of the volume. For a unit with GPU attributes, the provider must
    /// declare at least one of these attributes.
    ///
    /// # Errors
    /// Returns [`Decline::Storage`] or [`Decline::Gpu`] for the first volume or GPU that the provider does
    /// not offer.
    pub fn check(&self, units: &[ResourceUnit]) -> Result<(), Decline> {
        units.iter().try_for_each(|unit| self.check_unit(unit))
    }

    fn check_unit(&self, unit: &ResourceUnit) -> Result<(), Decline> {
        let resources = &unit.resources;
        for volume in &resources.storage {
            if !self.offers_storage(&volume.attributes) {
                return Err(Decline::Storage {
                    unit: resources.id,
                    volume: volume.name.clone(),
                    wanted: show_attributes(&volume.attributes),
                });
            }
        }
        // GPU models without a GPU request nothing.
        if resources.gpu.units > 0 && !self.offers_gpu(&resources.gpu.attributes) {
            return Err(Decline::Gpu {
                unit: resources.id,
                wanted: show_attributes(&resources.gpu.attributes),
            });
        }
        Ok(())
    }

    fn offers_storage(&self, wanted: &[Attribute]) -> bool {
        let in_set =
            |w: &Attribute, set: &[(&str, &str)]| set.iter().any(|(k, v)| key_and_value_match(w, k, v));
        wanted.is_empty()
            || self
                .storage
                .values()
                .any(|set| wanted.iter().all(|w| in_set(w, set)))
    }

    fn offers_gpu(&self, acceptable: &[Attribute]) -> bool {
        let declared = |w: &Attribute| self.gpu.iter().any(|(k, v)| key_and_value_match(w, k, v));
        acceptable.is_empty() || acceptable.iter().any(declared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bidding::fixtures::unit;
    use crate::types::Storage;

    fn attributes(pairs: &[(&str, &str)]) -> Vec<Attribute> {
        pairs.iter().map(|(k, v)| Attribute::new(*k, *v)).collect()
    }

    fn gpu_unit(models: &[&str]) -> ResourceUnit {
        let mut unit = unit(7);
        unit.resources.gpu.units = 1;
        unit.resources.gpu.attributes = models.iter().map(|m| Attribute::new(*m, "true")).collect();
        unit
    }

    fn volume_unit(wanted: &[(&str, &str)]) -> ResourceUnit {
        let mut unit = unit(7);
        unit.resources
            .storage
            .push(Storage::new("data", 1 << 30, attributes(wanted)));
        unit
    }

    fn check(declared: &[(&str, &str)], unit: ResourceUnit) -> Result<(), Decline> {
        Capabilities::from_attributes(&attributes(declared)).check(&[unit])
    }

    #[test]
    fn a_wildcard_model_does_not_cross_a_slash() {
        let any = || gpu_unit(&["vendor/nvidia/model/*"]);
        assert!(check(&[("capabilities/gpu/vendor/nvidia/model/a100", "true")], any()).is_ok());
        let only_with_ram = [("capabilities/gpu/vendor/nvidia/model/a100/ram/80Gi", "true")];
        let decline = check(&only_with_ram, any()).unwrap_err();
        assert_eq!(
            decline.to_string(),
            "unit 7: none of the GPU models vendor/nvidia/model/*=true is declared by this provider"
        );
    }

    #[test]
    fn one_of_the_models_is_enough() {
        let either = gpu_unit(&["vendor/nvidia/model/a100", "vendor/nvidia/model/h100"]);
        let h100 = [("capabilities/gpu/vendor/nvidia/model/h100", "true")];
        assert!(check(&h100, either.clone()).is_ok());
        assert!(
            check(
                &[("capabilities/gpu/vendor/nvidia/model/v100", "true")],
                either.clone()
            )
            .is_err()
        );
        assert!(check(&[("capabilities/gpu/vendor/nvidia/model/h100", "false")], either).is_err());
        // Without attributes the check is skipped. Without GPUs the attributes do not matter.
        assert!(check(&[], gpu_unit(&[])).is_ok());
        let mut none = gpu_unit(&["vendor/nvidia/model/a100"]);
        none.resources.gpu.units = 0;
        assert!(check(&[], none).is_ok());
    }

    #[test]
    fn gpu_capabilities_have_at_least_two_segments() {
        let one_segment = gpu_unit(&["nvidia"]);
        assert!(check(&[("capabilities/gpu/nvidia", "true")], one_segment).is_err());
        let two = gpu_unit(&["vendor/nvidia"]);
        assert!(check(&[("capabilities/gpu/vendor/nvidia", "true")], two).is_ok());
    }

    #[test]
    fn one_storage_set_must_have_all_attributes() {
        let wanted = || volume_unit(&[("class", "beta3"), ("persistent", "true")]);
        let two_sets = [
            ("capabilities/storage/1/persistent", "true"),
            ("capabilities/storage/1/class", "beta2"),
            ("capabilities/storage/2/persistent", "true"),
            ("capabilities/storage/2/class", "beta3"),
        ];
        assert!(check(&two_sets, wanted()).is_ok());
        let torn = [
            ("capabilities/storage/1/class", "beta3"),
            ("capabilities/storage/2/persistent", "true"),
        ];
        let decline = check(&torn, wanted()).unwrap_err();
        assert_eq!(
            decline.to_string(),
            "unit 7: volume `data` requires class=beta3, persistent=true, which no declared storage capability offers"
        );
        let odd_shapes = [
            ("capabilities/storage/1/x/class", "beta3"),
            ("capabilities/storage/class", "beta3"),
            ("capabilities/storage/1/persistent", "true"),
        ];
        assert!(check(&odd_shapes, volume_unit(&[("class", "beta3")])).is_err());
    }

    #[test]
    fn ram_volumes_need_a_declared_ram_set() {
        let ram = || volume_unit(&[("class", "ram"), ("persistent", "false")]);
        let beta3 = [
            ("capabilities/storage/1/class", "beta3"),
            ("capabilities/storage/1/persistent", "true"),
        ];
        assert!(check(&beta3, ram()).is_err());
        let declared = [
            ("capabilities/storage/3/class", "ram"),
            ("capabilities/storage/3/persistent", "false"),
        ];
        assert!(check(&declared, ram()).is_ok());
    }

    #[test]
    fn volumes_without_attributes_are_never_declined() {
        assert!(check(&[], volume_unit(&[])).is_ok());
    }
}
