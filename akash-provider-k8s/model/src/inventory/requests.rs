//! Requests of a pod, counted as by the scheduler.
//!
//! The requests of a pod are the sum of the requests of its containers, or the maximum while its init
//! containers run, if this maximum is higher. Pod-level requests of CPU and memory replace this value, and
//! the overhead of the runtime class is added. During an in-place resize, the larger of the old and the new
//! request counts. Memory-backed volumes are added once per pod: the scheduler ignores them, but they use the
//! memory of the node.

use super::quantity::{ResourceQuantities, milli_of, whole, whole_of};
use super::vendor::Vendor;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};
use std::ops::AddAssign;

/// Amounts of the counted resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Millicores, each amount rounded up.
    pub cpu: i64,
    /// Bytes, including memory-backed volumes of a pod.
    pub memory: i64,
    /// Bytes of ephemeral storage.
    pub ephemeral: i64,
    /// Devices by vendor, in the order of `Vendor::ALL`.
    pub gpus: [i64; 2],
}

impl Requests {
    fn from_list(list: Option<&ResourceQuantities>) -> Self {
        list.map_or_else(Self::default, |list| Self {
            cpu: milli_of(list, "cpu"),
            memory: whole_of(list, "memory"),
            ephemeral: whole_of(list, "ephemeral-storage"),
            gpus: Vendor::ALL.map(|vendor| whole_of(list, vendor.resource())),
        })
    }

    /// Returns these amounts without `other`; each amount is at least zero.
    pub(crate) fn without(self, other: Self) -> Self {
        let less = |all: i64, part: i64| all.saturating_sub(part).max(0);
        Self {
            cpu: less(self.cpu, other.cpu),
            memory: less(self.memory, other.memory),
            ephemeral: less(self.ephemeral, other.ephemeral),
            gpus: [
                less(self.gpus[0], other.gpus[0]),
                less(self.gpus[1], other.gpus[1]),
            ],
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            ephemeral: self.ephemeral.max(other.ephemeral),
            gpus: [self.gpus[0].max(other.gpus[0]), self.gpus[1].max(other.gpus[1])],
        }
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        // Saturating, because any client may write any request.
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral = self.ephemeral.saturating_add(other.ephemeral);
        for (mine, others) in self.gpus.iter_mut().zip(other.gpus) {
            *mine = mine.saturating_add(others);
        }
    }
}

/// Returns the requests of a pod.
#[must_use]
pub fn pod_requests(pod: &Pod) -> Requests {
    let Some(spec) = &pod.spec else {
        return Requests::default();
    };
    let mut requests = of_containers(pod, spec);
    if let Some(list) = spec.resources.as_ref().and_then(|r| r.requests.as_ref()) {
        let whole_pod = Requests::from_list(Some(list));
        // Only named resources are replaced.
        if list.contains_key("cpu") {
            requests.cpu = whole_pod.cpu;
        }
        if list.contains_key("memory") {
            requests.memory = whole_pod.memory;
        }
    }
    requests += Requests::from_list(spec.overhead.as_ref());
    requests.memory = requests.memory.saturating_add(volumes_in_memory(spec));
    requests
}

fn of_containers(pod: &Pod, spec: &PodSpec) -> Requests {
    let mut sum = Requests::default();
    for container in &spec.containers {
        sum += of_container(pod, container);
    }
    let mut sidecars = Requests::default();
    let mut start = Requests::default();
    for container in spec.init_containers.iter().flatten() {
        let mut during = sidecars;
        // A sidecar starts before the containers and continues, so it counts in both phases.
        if container.restart_policy.as_deref() == Some("Always") {
            let sidecar = of_container(pod, container);
            sum += sidecar;
            sidecars += sidecar;
            during = sidecars;
        } else {
            during += declared(container);
        }
        start = start.max(during);
    }
    sum.max(start)
}

/// Returns the requests of a container. During an in-place resize, returns the larger of the old and the new request.
fn of_container(pod: &Pod, container: &Container) -> Requests {
    let declared = declared(container);
    let Some(status) = status_of(pod, &container.name) else {
        return declared;
    };
    let Some(actual) = &status.resources else {
        return declared;
    };
    let granted = Requests::from_list(status.allocated_resources.as_ref());
    let running = Requests::from_list(actual.requests.as_ref()).max(granted);
    // An infeasible resize does not count: the pod continues with its granted resources.
    if resize_is_infeasible(pod) {
        running
    } else {
        running.max(declared)
    }
}

fn declared(container: &Container) -> Requests {
    let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
    Requests::from_list(requests)
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let all = containers.chain(status.init_container_statuses.iter().flatten());
    all.into_iter().find(|s| s.name == container)
}

fn resize_is_infeasible(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let mut resize = conditions.filter(|c| c.type_ == "PodResizePending");
    resize
        .next()
        .is_some_and(|c| c.reason.as_deref() == Some("Infeasible"))
}

/// Returns the sum of the size limits of memory-backed volumes.
fn volumes_in_memory(spec: &PodSpec) -> i64 {
    let dirs = spec.volumes.iter().flatten().filter_map(|v| v.empty_dir.as_ref());
    let in_memory = dirs.filter(|d| d.medium.as_deref() == Some("Memory"));
    let sizes = in_memory.filter_map(|d| whole(&d.size_limit.as_ref()?.0));
    sizes.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests;
