//! Calls of the engine that consist of several calls of the cluster port.

use crate::cluster::{Cluster, IpDeclaration, LeasedIps, Listing, Teardown, WorkloadSpec};
use crate::engine::Workloads;
use crate::error::{Error, ErrorKind};
use crate::types::LeaseId;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;

/// Maximum number of concurrent queries for the leased IPs of leases.
const IP_QUERIES: usize = 8;

/// Deploys a workload, declares its hostnames and leased IPs, then removes the hostnames and leased IPs that
/// the workload no longer uses. All steps are idempotent.
pub(super) async fn deploy(
    cluster: &dyn Cluster,
    deployment: &WorkloadSpec,
    purge_hostnames: &[String],
) -> Result<(), Error> {
    // First, so that no name routes to a service that does not exist yet.
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
                // The address moves from the other lease only on request of the tenant.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    tracing::info!(%lease, key = %ip.sharing_key, "leased IP not assigned to this lease: another lease of the same tenant uses the IP until the tenant migrates it");
                }
                answer => answer?,
            }
        }
    }
    if let Some(hostnames) = &hostnames {
        // A name that is declared again stays, even if it was scheduled for removal.
        let retained = deployment.names();
        for name in purge_hostnames.iter().filter(|n| !retained.contains(n.as_str())) {
            hostnames.purge_declared_hostname(lease, name).await?;
        }
    }
    if let Some(ips) = &ips {
        let retained: BTreeSet<_> = deployment.ips.iter().collect();
        // Queried from the cluster, because another leader may have declared addresses.
        for ip in ips.declared_ips(lease).await? {
            if !retained.contains(&ip) {
                ips.purge_declared_ip(lease, &ip).await?;
            }
        }
    }
    Ok(())
}

/// Removes the hostnames, the leased IPs and the workload of a lease. A failed step does not prevent the
/// other steps. Returns `Done` only if all steps are done.
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
    // The teardown is not done while a name or address still routes to the lease.
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
        // The listing is valid without the addresses.
        Some(ips) => declared_ips(ips.as_ref(), &listing)
            .await
            .inspect_err(|error| tracing::warn!(%error, "cannot list the leased IPs in the cluster, listing the workloads without their IPs"))
            .ok(),
        None => None,
    };
    Ok(Workloads {
        listing,
        hostnames,
        ips,
    })
}

/// Returns the declared IPs by lease. Includes each lease that requests IPs or has assigned IPs.
async fn declared_ips(
    ips: &dyn LeasedIps,
    listing: &Listing,
) -> Result<Vec<(LeaseId, Vec<IpDeclaration>)>, Error> {
    let with_some = listing.deployments.iter().filter(|d| !d.ips.is_empty());
    // Each lease once, in a reproducible order.
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
