//! Resource quota of the namespace of a lease.
//!
//! The quota limits the effect of errors and must not block regular operation. Pods that are being deleted,
//! such as pods of an earlier update or pods on a failed node, count until their deletion is complete. An
//! update must therefore succeed while two generations of pods are being deleted and one generation is being
//! replaced. During a change of the workload kind both workloads exist, and a runtime class adds its
//! overhead.
//!
//! The quota counts requested resources only. Every pod of a lease requests resources, so a limit on the number of pods
//! would add nothing. The provider alone creates Services in the namespace, and the number of ports is checked before
//! the first write. A quota on Services would make the API server update the quota once per Service, sequentially.

use super::RenderError;
use super::context::RenderContext;
use super::quantity::{milli, whole};
use super::resources::{ReplicaAmounts, gpu_vendor};
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Name of the ResourceQuota.
pub const QUOTA: &str = "akash-lease";

/// Number of pods per replica that the quota permits: one new, one replaced and two in deletion.
const TIMES: u64 = 4;
/// Additional CPU per pod in millicores, for runtime classes and injected containers.
const CPU_ON_TOP: u64 = 1_000;
/// Additional memory per pod, in bytes.
const MEMORY_ON_TOP: u64 = 1024 * 1024 * 1024;

/// Renders the quota; `None` if [`KubeSettings::quota`](crate::settings::KubeSettings::quota) is false, or if another
/// program created the pods of the lease.
pub(super) fn render(cx: &RenderContext<'_>) -> Result<Option<ResourceQuota>, RenderError> {
    if !cx.settings.quota || cx.is_legacy() {
        return Ok(None);
    }
    let (mut cpu, mut memory, mut ephemeral) = (0_u64, 0_u64, 0_u64);
    let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
    for service in &cx.deployment.group.services {
        let amounts = ReplicaAmounts::for_service(service)?.requested(cx);
        // Saturating: the tenant chooses the amounts, and an overflow means unlimited.
        let count = u64::from(service.count).saturating_mul(TIMES);
        let times = |amount: u64| amount.saturating_mul(count);
        cpu = cpu.saturating_add(times(amounts.cpu.saturating_add(CPU_ON_TOP)));
        memory = memory.saturating_add(times(amounts.memory.saturating_add(MEMORY_ON_TOP)));
        ephemeral = ephemeral.saturating_add(times(amounts.ephemeral));
        if amounts.gpu > 0 {
            let sum = devices.entry(gpu_vendor(cx, service)?).or_default();
            *sum = sum.saturating_add(times(amounts.gpu));
        }
    }
    // Maximum of Kubernetes.
    let bytes = |amount: u64| whole(amount.min(i64::MAX as u64));
    let mut hard: BTreeMap<String, Quantity> = BTreeMap::from([
        ("requests.cpu".to_owned(), milli(cpu.min(i64::MAX as u64))),
        ("requests.memory".to_owned(), bytes(memory)),
        ("requests.ephemeral-storage".to_owned(), bytes(ephemeral)),
    ]);
    for (vendor, amount) in devices {
        hard.insert(format!("requests.{vendor}.com/gpu"), whole(amount));
    }
    Ok(Some(ResourceQuota {
        metadata: cx.meta(QUOTA, cx.labels()),
        spec: Some(ResourceQuotaSpec {
            hard: Some(hard),
            ..ResourceQuotaSpec::default()
        }),
        ..ResourceQuota::default()
    }))
}
