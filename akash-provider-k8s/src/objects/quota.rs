//! The most a lease may have in its namespace.
//!
//! It stops what went wrong, not what is right. Pods that end take their requests until they are gone: those of an
//! update before the last one, and those on a node that is dead until the API server gives up waiting for it, which
//! is after their time to end. An update finds room beside two such generations and the one it replaces, a change of
//! the workload's kind has both kinds for a while, and a runtime class adds its own overhead.
//!
//! It counts what pods ask for, and nothing else. Every pod of a lease asks for something, so that a number of pods
//! would say nothing more and stop what is right where pods are small. Nobody but us makes Services in the namespace,
//! and how many ports a manifest may have is decided before anything is written; a quota that counts them makes the
//! API server write the quota for each Service, one after the other, before it takes the Service.

use super::Refusal;
use super::context::Context;
use super::quantity::{milli, whole};
use super::resources::{Amounts, gpu_vendor};
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Name of the quota.
pub const QUOTA: &str = "akash-lease";

/// Times what the lease asks for: what comes, what it replaces, and two generations that have not ended yet.
const TIMES: u64 = 4;
/// Cores in thousandths that each pod may have on top, for runtime classes and injected containers.
const CPU_ON_TOP: u64 = 1_000;
/// Bytes that each pod may have on top.
const MEMORY_ON_TOP: u64 = 1024 * 1024 * 1024;

/// The quota; `None` where the operator has switched it off or the lease has none from before.
pub(super) fn render(cx: &Context<'_>) -> Result<Option<ResourceQuota>, Refusal> {
    if !cx.settings.quota || cx.is_legacy() {
        return Ok(None);
    }
    let (mut cpu, mut memory, mut ephemeral) = (0_u64, 0_u64, 0_u64);
    let mut devices: BTreeMap<&str, u64> = BTreeMap::new();
    for service in &cx.deployment.group.services {
        let amounts = Amounts::of(service)?.requested(cx);
        // Saturating: amounts are the tenant's, and what is too large for a number is the largest.
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
    // Kubernetes counts no further.
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
