//! Pod of an operator: its declared ports and its name.

use crate::args::operators::common::CommonArgs;
use akash_provider_k8s::error::within;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::time::Duration;

/// Timeout of the API request for the Pod object of this process. After a timeout, the operator listens on
/// its default ports.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the container port `name` of this process's pod. Returns `None` outside of a pod, or without
/// permission to read the pod.
pub(super) async fn port(client: &Client, args: &CommonArgs, name: &str) -> Option<u16> {
    let (Some(pod), Some(namespace)) = (&args.pod_name, &args.pod_namespace) else {
        return None;
    };
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    match within(LIMIT, "read the own pod", api.get(pod)).await {
        Ok(found) => port_of(&found, name),
        Err(error) => {
            tracing::warn!(%error, "operator cannot read the Pod object of this process, listening on the default ports");
            None
        }
    }
}

fn port_of(pod: &DynamicObject, name: &str) -> Option<u16> {
    let containers = pod.data["spec"]["containers"].as_array()?;
    let mut ports = containers
        .iter()
        .filter_map(|one| one["ports"].as_array())
        .flatten();
    let port = ports.find(|port| port["name"] == name)?;
    u16::try_from(port["containerPort"].as_u64()?).ok()
}

/// Returns the election identity: the pod or host name, and a random suffix.
pub(crate) fn identity(pod: Option<&str>) -> String {
    let host = || {
        let name = rustix::system::uname();
        name.nodename().to_string_lossy().into_owned()
    };
    let name = pod.map_or_else(host, str::to_owned);
    let mut random = [0; 8];
    // Without randomness the process ID is unique on this host.
    if getrandom::fill(&mut random).is_err() {
        return format!("{name}_{}", std::process::id());
    }
    format!("{name}_{:016x}", u64::from_be_bytes(random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn port_is_found_by_name_in_any_container() {
        let pod = DynamicObject::new("pod", &ApiResource::erase::<Pod>(&())).data(json!({"spec": {"containers": [
            {"name": "a"},
            {"name": "b", "ports": [{"name": "grpc", "containerPort": 8081}, {"containerPort": 1}]},
            {"name": "c", "ports": [{"name": "rest", "containerPort": 9000}, {"name": "huge", "containerPort": 99999}]},
        ]}}));
        assert_eq!(port_of(&pod, "rest"), Some(9000));
        assert_eq!(port_of(&pod, "grpc"), Some(8081));
        assert_eq!(port_of(&pod, "huge"), None);
        assert_eq!(port_of(&pod, "none"), None);
    }
}
