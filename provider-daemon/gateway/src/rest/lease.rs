//! Status and manifest of a lease, for the tenant of the lease.

use super::caller::{Caller, permit, unauthorized};
use super::path::LeasePath;
use super::reply::{self, RejectionReply, RestResult};
use crate::App;
use crate::auth::{AccessTarget, Scope, Services};
use akash_provider_core::cluster::{
    AssignedIp, ForwardedPort, HostnameNotes, LeaseStatus, ServiceStatus, Termination,
};
use akash_provider_core::engine::{LeasePhase, Status};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::{Group, Proto};
use akash_provider_core::types::LeaseId;
use axum::Extension;
use axum::extract::{Path, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Serialize)]
struct StatusBody<'a> {
    services: Option<BTreeMap<&'a str, ServiceBody<'a>>>,
    forwarded_ports: Option<BTreeMap<&'a str, Vec<PortBody<'a>>>>,
    ips: Option<BTreeMap<&'a str, Vec<IpBody>>>,
    /// Manifest of the deployment. `None` on a standby, and until the leader has accepted a manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<ManifestBody<'a>>,
}

/// Manifest that the provider accepted last for the deployment.
#[derive(Serialize)]
struct ManifestBody<'a> {
    /// Hash of the manifest in lower-case hexadecimal digits. The chain stores the same hash.
    version: &'a str,
    /// True after the cluster has deployed this manifest for the lease.
    deployed: bool,
}

impl<'a> ManifestBody<'a> {
    fn new(status: &'a Status, lease: &LeaseId) -> Option<Self> {
        let mut deployments = status.deployments.iter().filter(|_| status.leader);
        let deployment = deployments.find(|d| d.deployment == *lease.deployment())?;
        let mut leases = status.leases.iter();
        let phase = leases.find(|info| info.lease == *lease)?.phase;
        Some(Self {
            version: deployment.manifest.as_deref()?,
            deployed: phase == LeasePhase::Running,
        })
    }
}

#[derive(Serialize)]
struct ServiceBody<'a> {
    name: &'a str,
    available: u32,
    total: u32,
    uris: Option<&'a [String]>,
    /// Status of each hostname of the service. An empty map is not encoded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    hostnames: &'a BTreeMap<String, HostnameNotes>,
    observed_generation: i64,
    replicas: u32,
    updated_replicas: u32,
    ready_replicas: u32,
    available_replicas: u32,
    /// Newest termination of any container of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_termination: Option<&'a Termination>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PortBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
    port: u16,
    external_port: u16,
    proto: Proto,
    name: &'a str,
}

/// Leased IP, with capitalized keys as in the Go provider.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct IpBody {
    port: u16,
    external_port: u16,
    protocol: Proto,
    #[serde(rename = "IP")]
    ip: IpAddr,
}

impl<'a> From<&'a ServiceStatus> for ServiceBody<'a> {
    fn from(status: &'a ServiceStatus) -> Self {
        Self {
            name: &status.name,
            available: status.available,
            total: status.total,
            uris: (!status.uris.is_empty()).then_some(&status.uris),
            hostnames: &status.hostnames,
            observed_generation: status.observed_generation,
            replicas: status.replicas,
            updated_replicas: status.updated_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            last_termination: status.last_termination.as_ref(),
        }
    }
}

impl<'a> From<&'a ForwardedPort> for PortBody<'a> {
    fn from(port: &'a ForwardedPort) -> Self {
        Self {
            host: &port.host,
            port: port.port,
            external_port: port.external_port,
            proto: port.proto,
            name: &port.name,
        }
    }
}

impl From<&AssignedIp> for IpBody {
    fn from(assigned: &AssignedIp) -> Self {
        Self {
            port: assigned.port,
            external_port: assigned.external_port,
            protocol: assigned.proto,
            ip: assigned.ip,
        }
    }
}

fn some<K: Ord, V>(map: BTreeMap<K, V>) -> Option<BTreeMap<K, V>> {
    (!map.is_empty()).then_some(map)
}

fn status_body<'a>(
    status: &'a LeaseStatus,
    services: &Services,
    manifest: Option<ManifestBody<'a>>,
) -> StatusBody<'a> {
    let is_visible = |name: &&'a String| services.contains(name);
    let of_services = status.services.iter().filter(|(name, _)| is_visible(name));
    let ips = status.ips.iter().filter(|(name, _)| is_visible(name));
    let ports = status.forwarded_ports.iter().filter(|(name, _)| is_visible(name));
    StatusBody {
        services: some(of_services.map(|(name, s)| (name.as_str(), s.into())).collect()),
        forwarded_ports: some(
            ports
                .map(|(name, p)| (name.as_str(), p.iter().map(PortBody::from).collect()))
                .collect(),
        ),
        ips: some(
            ips.map(|(name, i)| (name.as_str(), i.iter().map(IpBody::from).collect()))
                .collect(),
        ),
        manifest,
    }
}

/// Returns the lease, and the services that the caller's permission covers.
pub(super) fn permitted(
    app: &App,
    caller: &Caller,
    path: &LeasePath,
    scope: Scope,
) -> Result<(LeaseId, Services), RejectionReply> {
    let identity = caller.tenant()?;
    let lease = path.lease(&identity.owner, &app.status.info().address)?;
    let services = permit(identity, scope, AccessTarget::lease(&lease))?;
    Ok((lease, services))
}

pub(super) async fn status(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
) -> RestResult {
    let (lease, services) = permitted(&app, &caller, &path, Scope::Status)?;
    Ok(
        match app
            .bounded("lease status", app.cluster.lease_status(&lease))
            .await
        {
            Ok(status) => {
                let snapshot = app.status.get().await;
                let manifest = ManifestBody::new(&snapshot.status, &lease);
                reply::json(&status_body(&status, &services, manifest))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => reply::empty(StatusCode::NOT_FOUND),
            Err(error) => reply::cluster(&error),
        },
    )
}

#[derive(Debug, Deserialize)]
pub(super) struct ServicePath {
    #[serde(flatten)]
    lease: LeasePath,
    service: String,
}

pub(super) async fn service_status(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<ServicePath>,
) -> RestResult {
    let (lease, services) = permitted(&app, &caller, &path.lease, Scope::Status)?;
    // Before the cluster query: a caller without permission must not learn whether the service exists.
    if !services.contains(&path.service) {
        return Err(unauthorized());
    }
    let call = app.cluster.service_status(&lease, &path.service);
    Ok(match app.bounded("service status", call).await {
        Ok(status) => reply::json(&ServiceBody::from(&status)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The Go provider has different texts for the two cases.
            let words = if app.has_workload(&lease).await {
                "kube: no service for that lease"
            } else {
                "kube: lease not found"
            };
            reply::text(StatusCode::NOT_FOUND, words)
        }
        Err(error) => reply::cluster(&error),
    })
}

pub(super) async fn manifest(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
) -> RestResult {
    let (lease, services) = permitted(&app, &caller, &path, Scope::GetManifest)?;
    Ok(
        match app
            .bounded("get manifest", app.cluster.manifest_group(&lease))
            .await
        {
            Ok(Some(group)) => reply::json(&[visible_group(&group, &services)]),
            Ok(None) => match app.status.missing_state().await {
                Some(why) => reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}; try again")),
                None => reply::text(StatusCode::NOT_FOUND, "lease not found"),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                reply::text(StatusCode::NOT_FOUND, "lease not found")
            }
            Err(error) => reply::cluster(&error),
        },
    )
}

/// Returns `group` with only the services in `services`.
fn visible_group(group: &Group, services: &Services) -> Group {
    let mut group = group.clone();
    group.services.retain(|s| services.contains(&s.name));
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminated_container_is_shown_with_reason_and_exit_code() {
        let mut status = ServiceStatus::default();
        let body_of = |status: &ServiceStatus| serde_json::to_value(ServiceBody::from(status)).unwrap();
        assert_eq!(body_of(&status).get("last_termination"), None);
        status.last_termination = Some(Termination {
            reason: "OOMKilled".to_owned(),
            exit_code: 137,
            restarts: 2,
        });
        let wanted = serde_json::json!({"reason": "OOMKilled", "exit_code": 137, "restarts": 2});
        assert_eq!(body_of(&status)["last_termination"], wanted);
    }
}
