//! Calls of the engine that are several calls of the cluster port.

use crate::cluster::{Cluster, IpDeclaration, LeasedIps, Listing, Teardown, WorkloadSpec};
use crate::engine::Workloads;
use crate::error::{Error, ErrorKind};
use crate::types::LeaseId;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;

/// Questions for a lease's addresses at once.
const IP_QUERIES: usize = 8;

/// Deploys, declares what leads there, then takes back what no longer does. All of it is idempotent, so a
/// failure anywhere is answered by doing the whole again.
pub(super) async fn deploy(
    cluster: &dyn Cluster,
    deployment: &WorkloadSpec,
    purge_hostnames: &[String],
) -> Result<(), Error> {
    // First, so that no name leads to what is not there yet.
    cluster.deploy(deployment).await?;
    let lease = &deployment.lease;
    let hostnames = cluster.hostnames();
    let ips = cluster.leased_ips();
    if let Some(hostnames) = &hostnames {
        for name in &deployment.hostnames {
            hostnames.declare_hostname(lease, name).await?;
        }
    }
    if let Some(ips) = &ips {
        for ip in &deployment.ips {
            match ips.declare_ip(lease, ip, false).await {
                // Another lease of the tenant holds the address; it moves only on the tenant's command.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    tracing::info!(%lease, key = %ip.sharing_key, "leased IP is held by another lease");
                }
                answer => answer?,
            }
        }
    }
    if let Some(hostnames) = &hostnames {
        // A name that is wanted again stays, whatever was to be purged when this was asked for.
        let kept = deployment.names();
        for name in purge_hostnames.iter().filter(|n| !kept.contains(n.as_str())) {
            hostnames.purge_declared_hostname(lease, name).await?;
        }
    }
    if let Some(ips) = &ips {
        let kept: BTreeSet<_> = deployment.ips.iter().collect();
        // Asked for and not remembered, because another leader may have declared them.
        for ip in ips.declared_ips(lease).await? {
            if !kept.contains(&ip) {
                ips.purge_declared_ip(lease, &ip).await?;
            }
        }
    }
    Ok(())
}

/// Tries all three parts, so that one that fails keeps nothing else alive; done only if all are.
pub(super) async fn teardown(cluster: &dyn Cluster, lease: &LeaseId) -> Result<Teardown, Error> {
    let state = cluster.teardown_lease(lease).await;
    let hostnames = match cluster.hostnames() {
        Some(hostnames) => hostnames.purge_declared_hostnames(lease).await,
        None => Ok(()),
    };
    let ips = match cluster.leased_ips() {
        Some(ips) => ips.purge_declared_ips(lease).await,
        None => Ok(()),
    };
    let state = state?;
    // What still leads to the lease keeps it from being done.
    hostnames.and(ips)?;
    Ok(state)
}

pub(super) async fn list_workloads(cluster: &dyn Cluster) -> Result<Workloads, Error> {
    let listing = cluster.deployments().await?;
    let hostnames = match cluster.hostnames() {
        Some(hostnames) => Some(hostnames.all_hostnames().await?),
        None => None,
    };
    let ips = match cluster.leased_ips() {
        // The list is good without them.
        Some(ips) => declared_ips(ips.as_ref(), &listing)
            .await
            .inspect_err(|error| tracing::warn!(%error, "declared addresses cannot be listed"))
            .ok(),
        None => None,
    };
    Ok(Workloads {
        listing,
        hostnames,
        ips,
    })
}

/// Addresses of every lease that has some, and of every one that was deployed with some.
async fn declared_ips(
    ips: &dyn LeasedIps,
    listing: &Listing,
) -> Result<Vec<(LeaseId, Vec<IpDeclaration>)>, Error> {
    let with_some = listing.deployments.iter().filter(|d| !d.ips.is_empty());
    // Each lease once, in an order that can be repeated.
    let mut leases: BTreeSet<LeaseId> = with_some.map(|d| d.lease.clone()).collect();
    leases.extend(ips.usage().await?.confirmed);
    stream::iter(leases)
        .map(|lease| async move {
            let declared = ips.declared_ips(&lease).await?;
            Ok((lease, declared))
        })
        .buffered(IP_QUERIES)
        .try_collect()
        .await
}
