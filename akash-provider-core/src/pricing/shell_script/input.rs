//! The line of JSON on the standard input of a price script.

use crate::pricing::PriceRequest;
use crate::pricing::gpu::GpuModel;
use crate::types::group::distinct_leased_ips;
use crate::types::{Attribute, DecCoin, GroupSpec, ResourceUnit, Storage};
use serde::Serialize;
use std::collections::BTreeMap;

/// Required attribute with which a tenant requests confidential computing.
const CONFIDENTIAL: &str = "confidential-compute";

/// Formats the request as one line of JSON: the reserved units, sorted as in the group, and the tenant's
/// maximum price.
pub(super) fn line(request: &PriceRequest, maximum: &DecCoin) -> Result<Vec<u8>, serde_json::Error> {
    let input = ScriptInput {
        resources: request
            .pairs()
            .map(|(_, reserved)| Element::from_unit(reserved))
            .collect(),
        price: maximum,
        price_precision: request.precision,
        confidential_compute: is_confidential(&request.group),
    };
    let mut line = serde_json::to_vec(&input)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Serialize)]
struct ScriptInput<'a> {
    resources: Vec<Element<'a>>,
    price: &'a DecCoin,
    #[serde(skip_serializing_if = "is_zero")]
    price_precision: u32,
    /// Always encoded, as in the Go provider.
    confidential_compute: bool,
}

/// Returns true if the group requires `confidential-compute=true`. As in the Go provider, `tee/type` does not count.
fn is_confidential(group: &GroupSpec) -> bool {
    let mut required = group.requirements.attributes.iter();
    required.any(|a| a.key == CONFIDENTIAL && a.value == "true")
}

fn is_zero(precision: &u32) -> bool {
    *precision == 0
}

#[derive(Serialize)]
struct Element<'a> {
    /// Memory in bytes.
    memory: u64,
    /// CPU in millicores.
    cpu: u64,
    gpu: ScriptGpu<'a>,
    storage: Vec<Volume<'a>>,
    count: u32,
    endpoint_quantity: usize,
    ip_lease_quantity: u32,
}

#[derive(Serialize)]
struct ScriptGpu<'a> {
    units: u64,
    attributes: GpuAttributes<'a>,
}

#[derive(Serialize)]
struct GpuAttributes<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    vendor: BTreeMap<&'a str, ModelAttributes<'a>>,
}

#[derive(Serialize)]
struct ModelAttributes<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ram: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
}

#[derive(Serialize)]
struct Volume<'a> {
    class: &'a str,
    /// Size in bytes.
    size: u64,
}

impl<'a> Element<'a> {
    fn from_unit(unit: &'a ResourceUnit) -> Self {
        let resources = &unit.resources;
        Self {
            memory: resources.memory.bytes,
            cpu: resources.cpu.units,
            gpu: ScriptGpu {
                units: resources.gpu.units,
                attributes: GpuAttributes::from_attributes(&resources.gpu.attributes),
            },
            storage: resources.storage.iter().map(Volume::from_storage).collect(),
            count: unit.count,
            endpoint_quantity: resources.endpoints.len(),
            ip_lease_quantity: distinct_leased_ips(std::slice::from_ref(unit)),
        }
    }
}

impl<'a> GpuAttributes<'a> {
    /// Returns the GPU model of each vendor. If several models of a vendor are listed, the last model is
    /// used. Malformed attributes are skipped.
    fn from_attributes(attributes: &'a [Attribute]) -> Self {
        let models = attributes.iter().filter_map(|a| GpuModel::parse(&a.key));
        let entry = |gpu: GpuModel<'a>| {
            (
                gpu.vendor,
                ModelAttributes {
                    model: gpu.model,
                    ram: gpu.ram,
                    interface: gpu.interface,
                },
            )
        };
        Self {
            vendor: models.map(entry).collect(),
        }
    }
}

impl<'a> Volume<'a> {
    /// Creates the JSON of a volume. The class attribute is used even if the volume is not persistent.
    fn from_storage(volume: &'a Storage) -> Self {
        Self {
            class: volume.class().unwrap_or("ephemeral"),
            size: volume.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pricing::fixtures::{base_unit, leased_ip, request, request_with};
    use crate::types::{Endpoint, EndpointKind};
    use std::sync::Arc;

    fn text(request: &PriceRequest) -> String {
        String::from_utf8(line(request, &request.maximum().unwrap()).unwrap()).unwrap()
    }

    fn with_gpus(models: &[&str]) -> PriceRequest {
        request_with(|u| {
            u.resources.gpu.units = 1;
            u.resources.gpu.attributes = models.iter().map(|m| Attribute::new(*m, "true")).collect();
        })
    }

    fn vendors(request: &PriceRequest) -> String {
        let value: serde_json::Value = serde_json::from_str(&text(request)).unwrap();
        value["resources"][0]["gpu"]["attributes"].to_string()
    }

    #[test]
    fn the_line_equals_that_of_the_go_provider() {
        let request = request_with(|u| {
            u.count = 3;
            u.resources.gpu.units = 2;
            u.resources.gpu.attributes = vec![Attribute::new(
                "vendor/nvidia/model/a100/ram/80Gi/interface/sxm",
                "true",
            )];
            u.resources.endpoints = vec![Endpoint::default(), leased_ip(1), leased_ip(1), leased_ip(2)];
        });
        assert_eq!(
            text(&request),
            concat!(
                r#"{"resources":[{"memory":10000,"cpu":11,"gpu":{"units":2,"attributes":{"vendor":{"nvidia":"#,
                r#"{"model":"a100","ram":"80Gi","interface":"sxm"}}}},"storage":[{"class":"ephemeral","size":4096}],"#,
                r#""count":3,"endpoint_quantity":4,"ip_lease_quantity":2}],"#,
                r#""price":{"denom":"uact","amount":"69.000000000000000000"},"price_precision":6,"#,
                r#""confidential_compute":false}"#,
                "\n"
            )
        );
        let busy = PriceRequest {
            utilization: Some(Box::default()),
            ..request_with(|_| ())
        };
        assert_eq!(
            text(&busy),
            text(&request_with(|_| ())),
            "existing scripts receive the known fields"
        );
        let plain = PriceRequest {
            precision: 0,
            ..request_with(|_| ())
        };
        assert_eq!(
            text(&plain),
            concat!(
                r#"{"resources":[{"memory":10000,"cpu":11,"gpu":{"units":0,"attributes":{}},"#,
                r#""storage":[{"class":"ephemeral","size":4096}],"count":1,"endpoint_quantity":0,"#,
                r#""ip_lease_quantity":0}],"price":{"denom":"uact","amount":"23.000000000000000000"},"#,
                r#""confidential_compute":false}"#,
                "\n"
            )
        );
    }

    #[test]
    fn script_input_reports_required_confidential_computing() {
        let reported = |key: &str, value: &str| {
            let mut group = request_with(|_| ()).group.as_ref().clone();
            group.requirements.attributes =
                vec![Attribute::new("region", "true"), Attribute::new(key, value)];
            let request = PriceRequest {
                group: Arc::new(group),
                ..request_with(|_| ())
            };
            let value: serde_json::Value = serde_json::from_str(&text(&request)).unwrap();
            value["confidential_compute"].as_bool().unwrap()
        };
        assert!(reported("confidential-compute", "true"));
        assert!(!reported("confidential-compute", "false"));
        assert!(!reported("tee/type", "cpu"));
    }

    #[test]
    fn every_unit_has_its_element() {
        let mut units = Vec::new();
        for id in 1..=5_u32 {
            let mut unit = base_unit();
            unit.count = id * 2;
            let resources = &mut unit.resources;
            resources.id = id;
            resources.cpu.units = u64::from(id) * 111;
            resources.memory.bytes = u64::from(id) * 222;
            resources.storage[0].bytes = u64::from(id) * 333;
            resources.endpoints = (0..id).map(leased_ip).collect();
            resources
                .endpoints
                .push(Endpoint::new(EndpointKind::RandomPort, 0));
            units.push(unit);
        }
        let value: serde_json::Value = serde_json::from_str(&text(&request(units.clone()))).unwrap();
        let elements = value["resources"].as_array().unwrap();
        assert_eq!(elements.len(), units.len());
        for (element, unit) in elements.iter().zip(&units) {
            assert_eq!(element["cpu"], unit.resources.cpu.units);
            assert_eq!(element["memory"], unit.resources.memory.bytes);
            assert_eq!(element["storage"][0]["size"], unit.resources.storage[0].bytes);
            assert_eq!(element["count"], unit.count);
            assert_eq!(element["endpoint_quantity"], unit.resources.endpoints.len());
            assert_eq!(element["ip_lease_quantity"], unit.resources.id);
        }
    }

    #[test]
    fn the_last_model_of_a_vendor_counts() {
        let models = [
            "vendor/nvidia/model/a100",
            "vendor/nvidia/model/v100",
            "vendor/nvidia/model/h100",
        ];
        assert_eq!(
            vendors(&with_gpus(&models)),
            r#"{"vendor":{"nvidia":{"model":"h100"}}}"#
        );
        let two = [
            "vendor/nvidia/model/a100/ram/80Gi",
            "vendor/amd/model/mi100",
            "vendor/nvidia/model/t4",
        ];
        assert_eq!(
            vendors(&with_gpus(&two)),
            r#"{"vendor":{"amd":{"model":"mi100"},"nvidia":{"model":"t4"}}}"#
        );
    }

    #[test]
    fn a_reserved_model_replaces_the_wildcard() {
        let mut request = with_gpus(&["vendor/nvidia/model/*"]);
        assert_eq!(vendors(&request), r#"{"vendor":{"nvidia":{"model":"*"}}}"#);
        let reserved = with_gpus(&["vendor/nvidia/model/a100"]);
        request.allocated = Some(Arc::new(reserved.group.resources.clone()));
        assert_eq!(vendors(&request), r#"{"vendor":{"nvidia":{"model":"a100"}}}"#);
    }

    #[test]
    fn reserved_amounts_come_in_the_order_of_the_group() {
        let unit = |id: u32, cpu: u64| {
            let mut unit = base_unit();
            (unit.resources.id, unit.resources.cpu.units) = (id, cpu);
            unit
        };
        let mut request = request(vec![unit(1, 100), unit(2, 200), unit(3, 300)]);
        request.allocated = Some(Arc::new(vec![unit(2, 20), unit(1, 10)]));
        let value: serde_json::Value = serde_json::from_str(&text(&request)).unwrap();
        let cpus: Vec<u64> = value["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["cpu"].as_u64().unwrap())
            .collect();
        assert_eq!(cpus, [10, 20, 300]);
    }

    #[test]
    fn w29_malformed_gpu_keys_are_skipped() {
        let malformed = [
            "",
            "vendor",
            "vendor/nvidia",
            "vendor/nvidia/model",
            "vendor/nvidia/model/a100/ram",
            "x/y/z",
        ];
        assert_eq!(vendors(&with_gpus(&malformed)), "{}");
        let one_good = ["vendor/nvidia/model/a100", "vendor/nvidia/model/v100/ram"];
        assert_eq!(
            vendors(&with_gpus(&one_good)),
            r#"{"vendor":{"nvidia":{"model":"a100"}}}"#
        );
    }

    #[test]
    fn the_class_of_a_volume_is_the_one_named() {
        let class = |pairs: &[(&str, &str)]| {
            let request = request_with(|u| {
                let attributes = pairs.iter().map(|(k, v)| Attribute::new(*k, *v)).collect();
                u.resources.storage = vec![Storage::new("v", 1, attributes)];
            });
            let value: serde_json::Value = serde_json::from_str(&text(&request)).unwrap();
            value["resources"][0]["storage"][0]["class"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(class(&[("class", "ram"), ("persistent", "false")]), "ram");
        assert_eq!(class(&[("class", "beta3"), ("persistent", "true")]), "beta3");
        assert_eq!(class(&[("class", "")]), "ephemeral");
        assert_eq!(class(&[]), "ephemeral");
    }
}
