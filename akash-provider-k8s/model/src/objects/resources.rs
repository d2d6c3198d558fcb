//! Resource limits and requests of a container.

use super::context::RenderContext;
use super::quantity::{committed, milli, whole};
use super::{RenderError, text};
use akash_provider_core::manifest::Service;
use akash_provider_core::types::Resources;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Largest amount in Kubernetes.
const MAX_AMOUNT: u64 = i64::MAX as u64;

const EPHEMERAL: &str = "ephemeral-storage";

/// Resources of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplicaAmounts {
    /// CPU in millicores.
    pub(super) cpu: u64,
    /// Memory in bytes, without memory-backed volumes.
    pub(super) memory: u64,
    /// Total size of the memory-backed volumes, in bytes.
    pub(super) ram_volumes: u64,
    /// Ephemeral storage in bytes, requested or default.
    pub(super) ephemeral: u64,
    /// Number of GPUs.
    pub(super) gpu: u64,
}

impl ReplicaAmounts {
    pub(super) fn for_service(service: &Service) -> Result<Self, RenderError> {
        let Resources {
            cpu,
            memory,
            storage,
            gpu,
            ..
        } = &service.resources;
        let name = service.name.as_str();
        let within = |field: &str, amount: Option<u64>| {
            let amount = amount.filter(|amount| *amount <= MAX_AMOUNT);
            amount.ok_or_else(|| {
                RenderError::new(
                    name,
                    field,
                    format!("exceeds {MAX_AMOUNT}, the maximum of Kubernetes"),
                )
            })
        };
        let mut in_memory = storage.iter().filter(|volume| volume.is_ram());
        let in_memory = in_memory.try_fold(0_u64, |sum, volume| sum.checked_add(volume.bytes));
        let ram_volumes = within("resources.storage", in_memory)?;
        // The memory limit includes volumes in memory.
        within("resources.memory", memory.bytes.checked_add(ram_volumes))?;
        Ok(Self {
            cpu: within("resources.cpu", Some(cpu.units))?,
            memory: memory.bytes,
            ram_volumes,
            ephemeral: within("resources.storage", service.resources.ephemeral_bytes())?,
            gpu: within("resources.gpu", Some(gpu.units))?,
        })
    }

    /// Returns the resource requests. With overcommit, the requests are lower than the limits.
    pub(super) fn requested(self, cx: &RenderContext<'_>) -> Self {
        let levels = &cx.settings.commit;
        Self {
            cpu: committed(self.cpu, levels.cpu),
            memory: committed(self.memory, levels.memory),
            ephemeral: committed(self.ephemeral, levels.storage),
            // GPUs are never overcommitted.
            ..self
        }
    }
}

pub(super) fn render(cx: &RenderContext<'_>, service: &Service) -> Result<ResourceRequirements, RenderError> {
    let limits = ReplicaAmounts::for_service(service)?;
    let device = match limits.gpu {
        0 => None,
        _ => Some(format!("{}.com/gpu", gpu_vendor(cx, service)?)),
    };
    let map = |amounts: ReplicaAmounts, memory: u64| {
        let mut map: BTreeMap<String, Quantity> = BTreeMap::from([
            ("cpu".to_owned(), milli(amounts.cpu)),
            ("memory".to_owned(), whole(memory)),
        ]);
        map.insert(EPHEMERAL.to_owned(), whole(amounts.ephemeral));
        if let Some(device) = &device {
            map.insert(device.clone(), whole(amounts.gpu));
        }
        Some(map)
    };
    let requests = limits.requested(cx);
    Ok(ResourceRequirements {
        // Volumes in memory count toward the limit, but not toward the request.
        limits: map(limits, limits.memory.saturating_add(limits.ram_volumes)),
        requests: map(requests, requests.memory),
        ..ResourceRequirements::default()
    })
}

/// Returns true for a service without a request for ephemeral storage. Such a service gets the default
/// amount.
pub(super) fn has_default_disk(service: &Service) -> bool {
    let mut volumes = service.resources.storage.iter();
    volumes.all(|volume| volume.is_persistent() || volume.is_ram() || volume.bytes == 0)
}

/// Removes the limits and requests of ephemeral storage.
pub(super) fn remove_disk(resources: &mut ResourceRequirements) {
    for amounts in [&mut resources.limits, &mut resources.requests] {
        amounts
            .iter_mut()
            .for_each(|amounts| drop(amounts.remove(EPHEMERAL)));
    }
}

/// Returns the GPU vendor of a service. The vendor that was promised with the bid has precedence over the
/// requested vendor.
pub(super) fn gpu_vendor(cx: &RenderContext<'_>, service: &Service) -> Result<&'static str, RenderError> {
    let promised = cx.params(service).and_then(|params| params.resources.as_ref());
    let promised = promised.and_then(|resources| resources.gpu.as_ref());
    let asked = || {
        let attributes = service.resources.gpu.attributes.iter();
        let mut vendors = attributes.filter_map(|a| a.key.strip_prefix("vendor/")?.split('/').next());
        vendors.next()
    };
    let vendor = promised
        .map(|gpu| gpu.vendor.as_str())
        .filter(|vendor| !vendor.is_empty())
        .or_else(asked)
        .unwrap_or_default();
    match vendor.to_ascii_lowercase().as_str() {
        "nvidia" => Ok("nvidia"),
        "amd" => Ok("amd"),
        _ => {
            let problem = format!(
                "unknown GPU vendor `{}`; use `nvidia` or `amd`",
                text::shortened(vendor)
            );
            Err(RenderError::new(
                &service.name,
                "resources.gpu.attributes",
                problem,
            ))
        }
    }
}
