//! Migration of hostnames and leased addresses between leases of one tenant.
//!
//! A granular token needs the scope for two leases: the lease that holds the hostname or address, and the destination
//! lease.

use super::caller::{Caller, permit, unauthorized};
use super::reply::{self, RejectionReply, RestReply, RestResult};
use super::{body, manifest};
use crate::App;
use crate::auth::{AccessTarget, Identity, Scope, Services};
use akash_provider_core::cluster::{IpDeclaration, LeasedIps};
use akash_provider_core::engine::{Refusal, RefusalKind};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::{Group, hosts};
use akash_provider_core::types::id::ip_sharing_key;
use akash_provider_core::types::{DeploymentId, LeaseId};
use axum::Extension;
use axum::extract::{Request, State};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
struct HostnamesRequest {
    #[serde(default)]
    hostnames_to_migrate: Option<Vec<String>>,
    #[serde(default)]
    destination_dseq: u64,
    #[serde(default)]
    destination_gseq: u32,
}

#[derive(Deserialize)]
struct EndpointsRequest {
    #[serde(default)]
    endpoints_to_migrate: Option<Vec<String>>,
    #[serde(default)]
    destination_dseq: u64,
    #[serde(default)]
    destination_gseq: u32,
}

/// Destination lease of a migration, with its manifest group and the services that the permission covers.
struct Destination {
    lease: LeaseId,
    group: Arc<Group>,
    services: Services,
}

fn bad_request(words: impl std::fmt::Display) -> RejectionReply {
    reply::text(StatusCode::BAD_REQUEST, words).into()
}

fn no_destination() -> RejectionReply {
    bad_request("destination deployment does not exist")
}

fn transferred(names: &[String]) -> RestReply {
    reply::plain_json(&serde_json::json!({ "transferred": names }))
}

async fn read<T: DeserializeOwned>(app: &App, request: Request) -> Result<T, RejectionReply> {
    let bytes = body::read(request.into_body(), BODY_BYTES_MAX, app.limits.body).await?;
    serde_json::from_slice(&bytes).map_err(|_| reply::empty(StatusCode::UNPROCESSABLE_ENTITY).into())
}

/// Returns the hostnames or endpoints to migrate. An empty list is refused.
fn names(names: Option<Vec<String>>) -> Result<Vec<String>, RejectionReply> {
    names
        .filter(|n| !n.is_empty())
        .ok_or_else(|| reply::empty(StatusCode::BAD_REQUEST).into())
}

async fn destination(
    app: &App,
    identity: &Identity,
    scope: Scope,
    (dseq, gseq): (u64, u32),
) -> Result<Destination, RejectionReply> {
    let deployment = DeploymentId::new(identity.owner.clone(), dseq);
    let group = deployment.group(gseq);
    let unavailable = |error| reply::cluster(&error);
    // While the state is incomplete, "no such deployment" would be a guess that clients treat as final.
    if let Some(why) = app.status.missing_state().await {
        let words = format!("{why}; try again");
        return Err(reply::text(StatusCode::SERVICE_UNAVAILABLE, words).into());
    }
    let lease = app.handle.lease_of(&group).await.map_err(unavailable)?;
    let lease = lease.ok_or_else(no_destination)?;
    // A grant for one order of the group covers that order only.
    let services = permit(identity, scope, AccessTarget::lease(&lease))?;
    let group = app
        .bounded("get manifest", app.cluster.manifest_group(&lease))
        .await;
    let group = group.map_err(unavailable)?.ok_or_else(no_destination)?;
    Ok(Destination {
        lease,
        group,
        services,
    })
}

pub(super) async fn hostnames(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> RestResult {
    const SCOPE: Scope = Scope::HostnameMigrate;
    let identity = caller.tenant()?;
    let asked: HostnamesRequest = read(&app, request).await?;
    let (dseq, gseq) = (asked.destination_dseq, asked.destination_gseq);
    permit(identity, SCOPE, AccessTarget::Group(dseq, gseq))?;
    let names = names(asked.hostnames_to_migrate)?;
    let to = destination(&app, identity, SCOPE, (dseq, gseq)).await?;
    for name in &names {
        match service_of(&to.group, name) {
            None => {
                return Err(bad_request(format!(
                    "the hostname {name:?} is not used by this deployment"
                )));
            }
            Some(service) if !to.services.contains(service) => return Err(unauthorized()),
            Some(_) => {}
        }
    }
    let status = app.handle.status().await;
    let holders = &status.hostnames;
    for name in &names {
        let holder = holders.get(&name.to_ascii_lowercase());
        // Names of other tenants are left to the provider, which refuses them with a text of its own.
        let from = holder.filter(|from| **from != to.lease && from.owner() == &identity.owner);
        if let Some(from) = from {
            permit(identity, SCOPE, AccessTarget::lease(from))?;
        }
    }
    match app.handle.transfer_hostnames(&to.lease, names.clone()).await {
        Ok(()) => {
            tracing::info!(lease = %to.lease, ?names, token = identity.token_id.as_deref(), "tenant moved hostnames to this lease");
            Ok(transferred(&names))
        }
        Err(refusal) => Err(refused(&refusal)),
    }
}

fn refused(refusal: &Refusal) -> RejectionReply {
    match refusal.kind {
        RefusalKind::NoLease => no_destination(),
        RefusalKind::Rejected => bad_request(&refusal.message),
        RefusalKind::Hostname
        | RefusalKind::VersionMismatch
        | RefusalKind::InvalidManifest
        | RefusalKind::CrossValidation
        | RefusalKind::Unavailable
        | RefusalKind::Busy
        | RefusalKind::Stopping
        | RefusalKind::NotLeader => manifest::refused(refusal).into(),
        // `manifest::refused` has a status for every kind.
        _ => manifest::refused(refusal).into(),
    }
}

fn service_of<'g>(group: &'g Group, name: &str) -> Option<&'g str> {
    let lists = |hosts: &Vec<String>| hosts.iter().any(|h| h.eq_ignore_ascii_case(name));
    let service = group.services.iter().find(|s| {
        let mut lists_of = s.expose.iter().filter_map(|e| e.hosts.as_ref());
        lists_of.any(lists)
    });
    service.map(|s| s.name.as_str())
}

pub(super) async fn endpoints(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> RestResult {
    const SCOPE: Scope = Scope::IpMigrate;
    let identity = caller.tenant()?;
    let asked: EndpointsRequest = read(&app, request).await?;
    let (dseq, gseq) = (asked.destination_dseq, asked.destination_gseq);
    permit(identity, SCOPE, AccessTarget::Group(dseq, gseq))?;
    let names = names(asked.endpoints_to_migrate)?;
    let to = destination(&app, identity, SCOPE, (dseq, gseq)).await?;
    let wanted = hosts::ips_wanted(&to.group, &to.lease);
    let mut moving: Vec<IpDeclaration> = Vec::new();
    for name in &names {
        let key = ip_sharing_key(&identity.owner, name);
        let of_name = wanted.iter().filter(|ip| ip.sharing_key == key);
        let before = moving.len();
        moving.extend(of_name.cloned());
        if moving.len() == before {
            return Err(no_endpoint(name));
        }
    }
    if moving.iter().any(|ip| !to.services.contains(&ip.service)) {
        return Err(unauthorized());
    }
    let Some(ips) = app.cluster.leased_ips() else {
        return Err(no_endpoint(names.first().map_or("", String::as_str)));
    };
    // The cluster stores the holder of an address, so it is queried directly; but only the leader may write.
    if !app.handle.status().await.leader {
        let standby = manifest::refused(&Refusal {
            kind: RefusalKind::NotLeader,
            message: "this instance is a standby; send the request to the leader".to_owned(),
        });
        return Err(standby.into());
    }
    // A token for all services covers every lease of its tenant, so these cluster queries are unnecessary.
    if services_are_limited(&to.services) {
        check_holders(&app, identity, ips.as_ref(), &to.lease, &moving).await?;
    }
    declare(&app, ips.as_ref(), &to.lease, &moving).await?;
    tracing::info!(lease = %to.lease, ?names, token = identity.token_id.as_deref(), "tenant moved leased IPs to this lease");
    Ok(transferred(&names))
}

const fn services_are_limited(services: &Services) -> bool {
    matches!(services, Services::Only(_))
}

fn no_endpoint(name: &str) -> RejectionReply {
    bad_request(format!(
        "the endpoint {name:?} does not exist in the destination deployment"
    ))
}

/// Checks that the caller may take the IP addresses in `moving` from the other leases of the tenant.
async fn check_holders(
    app: &App,
    identity: &Identity,
    ips: &dyn LeasedIps,
    to: &LeaseId,
    moving: &[IpDeclaration],
) -> Result<(), RejectionReply> {
    let status = app.handle.status().await;
    let others = status.leases.iter().map(|l| &l.lease);
    for lease in others.filter(|l| *l != to && l.owner() == &identity.owner) {
        let declared = app.bounded("declared addresses", ips.declared_ips(lease)).await;
        let declared = declared.map_err(|e| reply::cluster(&e))?;
        let holds = |ip: &IpDeclaration| declared.iter().any(|d| d.sharing_key == ip.sharing_key);
        if moving.iter().any(holds) {
            permit(identity, Scope::IpMigrate, AccessTarget::lease(lease))?;
        }
    }
    Ok(())
}

/// Assigns the leased IP addresses in `moving` to the lease, and removes them from the tenant's other leases.
async fn declare(
    app: &App,
    ips: &dyn LeasedIps,
    lease: &LeaseId,
    moving: &[IpDeclaration],
) -> Result<(), RejectionReply> {
    for ip in moving {
        match app
            .bounded("move an address", ips.declare_ip(lease, ip, true))
            .await
        {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return Err(reply::text(StatusCode::UNPROCESSABLE_ENTITY, error).into());
            }
            Err(error) => return Err(reply::cluster(&error).into()),
        }
    }
    // The addresses of a lease that closed meanwhile were cleared before this declaration.
    if app.handle.has_lease(lease).await.is_ok_and(|live| !live) {
        let cleared = app
            .bounded("clear addresses", ips.purge_declared_ips(lease))
            .await;
        cleared.map_err(|e| reply::cluster(&e))?;
        return Err(no_destination());
    }
    Ok(())
}
