//! What a pod takes from its node, counted as the scheduler counts it.
//!
//! The sum of the containers, or the most that the start of the pod takes at one time where that is more;
//! requests of the pod as a whole instead, where it has them; then the overhead of its runtime class. While a
//! pod is resized in place the larger of old and new counts. Volumes that live in memory are added once for
//! the pod: the scheduler does not see them, the node's memory does.

use super::gpu::Vendor;
use super::quantity::{Resources, milli_of, whole, whole_of};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};
use std::ops::AddAssign;

/// Amounts of the resources that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Milli-CPU, each amount rounded up.
    pub cpu: i64,
    /// Bytes; of a pod those of its volumes in memory too.
    pub memory: i64,
    /// Bytes of the node's ephemeral storage.
    pub ephemeral: i64,
    /// Devices by vendor, in the order of `Vendor::ALL`.
    pub gpus: [i64; 2],
}

impl Requests {
    fn of(list: Option<&Resources>) -> Self {
        list.map_or_else(Self::default, |list| Self {
            cpu: milli_of(list, "cpu"),
            memory: whole_of(list, "memory"),
            ephemeral: whole_of(list, "ephemeral-storage"),
            gpus: Vendor::ALL.map(|vendor| whole_of(list, vendor.resource())),
        })
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
        // Saturating, because anybody may write any request into a pod.
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral = self.ephemeral.saturating_add(other.ephemeral);
        for (mine, others) in self.gpus.iter_mut().zip(other.gpus) {
            *mine = mine.saturating_add(others);
        }
    }
}

/// What a pod takes from its node.
#[must_use]
pub fn pod_requests(pod: &Pod) -> Requests {
    let Some(spec) = &pod.spec else {
        return Requests::default();
    };
    let mut requests = of_containers(pod, spec);
    if let Some(list) = spec.resources.as_ref().and_then(|r| r.requests.as_ref()) {
        let whole_pod = Requests::of(Some(list));
        // Only what it names: the rest is the sum of the containers.
        if list.contains_key("cpu") {
            requests.cpu = whole_pod.cpu;
        }
        if list.contains_key("memory") {
            requests.memory = whole_pod.memory;
        }
    }
    requests += Requests::of(spec.overhead.as_ref());
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
        // A sidecar begins in the start and goes on: it counts for both.
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

/// What a container takes, a resize under way included.
fn of_container(pod: &Pod, container: &Container) -> Requests {
    let declared = declared(container);
    let Some(status) = status_of(pod, &container.name) else {
        return declared;
    };
    let Some(actual) = &status.resources else {
        return declared;
    };
    let granted = Requests::of(status.allocated_resources.as_ref());
    let running = Requests::of(actual.requests.as_ref()).max(granted);
    // What the node can never grant is not counted: the pod goes on with what it has.
    if resize_is_infeasible(pod) {
        running
    } else {
        running.max(declared)
    }
}

fn declared(container: &Container) -> Requests {
    let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
    Requests::of(requests)
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

/// Size limits of the pod's volumes in memory; one without a limit cannot be counted.
fn volumes_in_memory(spec: &PodSpec) -> i64 {
    let dirs = spec.volumes.iter().flatten().filter_map(|v| v.empty_dir.as_ref());
    let in_memory = dirs.filter(|d| d.medium.as_deref() == Some("Memory"));
    let sizes = in_memory.filter_map(|d| whole(&d.size_limit.as_ref()?.0));
    sizes.fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests;
