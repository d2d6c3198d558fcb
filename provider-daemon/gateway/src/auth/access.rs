//! Permissions of callers: scopes, and the leases to which the scopes apply.

use akash_provider_core::types::{Address, LeaseId};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Permission that a token may grant, with the name that Akash tokens use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `send-manifest`: `PUT /deployment/{dseq}/manifest`, which changes every lease of the deployment.
    SendManifest,
    /// `get-manifest`: reads the running manifest, including environment variables.
    GetManifest,
    /// `logs`: reads past and new log lines of the containers.
    Logs,
    /// `shell`: runs commands in a service, with the rights of the container.
    Shell,
    /// `events`: reads the Kubernetes events of the workload (`kubeevents`).
    Events,
    /// `status`: reads the status of a lease or service. The provider's own status needs no scope.
    Status,
    /// `restart`: not used by this gateway.
    Restart,
    /// `hostname-migrate`: moves hostnames between leases of one tenant.
    HostnameMigrate,
    /// `ip-migrate`: moves leased addresses between leases of one tenant.
    IpMigrate,
    /// `attestation`: requests evidence of confidential computing. This gateway never returns evidence.
    Attestation,
}

impl Scope {
    /// All scopes. Any other name makes the token invalid.
    pub const ALL: [Self; 10] = [
        Self::SendManifest,
        Self::GetManifest,
        Self::Logs,
        Self::Shell,
        Self::Events,
        Self::Status,
        Self::Restart,
        Self::HostnameMigrate,
        Self::IpMigrate,
        Self::Attestation,
    ];

    /// Returns the name of the scope in the claims of a token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SendManifest => "send-manifest",
            Self::GetManifest => "get-manifest",
            Self::Logs => "logs",
            Self::Shell => "shell",
            Self::Events => "events",
            Self::Status => "status",
            Self::Restart => "restart",
            Self::HostnameMigrate => "hostname-migrate",
            Self::IpMigrate => "ip-migrate",
            Self::Attestation => "attestation",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or(())
    }
}

/// Scopes that a token grants.
pub type Scopes = BTreeSet<Scope>;

/// Permissions that a token grants for the leases of one deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentGrant {
    /// Sequence number of a deployment, never 0. The issuer of the token owns the deployment.
    pub dseq: u64,
    /// Number of the group in the deployment; 0 for all groups.
    pub gseq: u32,
    /// Number of the order in the group; 0 for all orders.
    pub oseq: u32,
    /// Scopes for the leases of this grant; never empty.
    pub scopes: Scopes,
    /// Names of the covered services; never empty, so "all services" cannot be expressed.
    pub services: BTreeSet<String>,
}

/// Permissions of a caller at this provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// All permissions on the caller's leases.
    Full,
    /// Only these scopes, on all of the caller's leases.
    Scoped(Scopes),
    /// The listed grants. Each grant is for one deployment.
    Granular(Vec<DeploymentGrant>),
    /// No permissions at this provider. The token grants permissions only at other providers.
    OtherProviders,
}

/// Deployment, group or lease that a request concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessTarget {
    /// All groups of the deployment with this sequence number.
    Deployment(u64),
    /// One group of a deployment, as `dseq` and `gseq`.
    Group(u64, u32),
    /// Lease between the caller and this provider, as `dseq`, `gseq` and `oseq`.
    Lease(u64, u32, u32),
}

impl AccessTarget {
    /// Returns the target for a lease of the caller. The owner in `lease` is not used, because the caller is
    /// the owner.
    #[must_use]
    pub fn lease(lease: &LeaseId) -> Self {
        Self::Lease(lease.deployment().dseq, lease.order.group.gseq, lease.order.oseq)
    }

    fn is_covered_by(self, grant: &DeploymentGrant) -> bool {
        let same = |granted: u32, asked: u32| granted == 0 || granted == asked;
        match self {
            Self::Deployment(dseq) => grant.dseq == dseq,
            Self::Group(dseq, gseq) => grant.dseq == dseq && same(grant.gseq, gseq),
            Self::Lease(dseq, gseq, oseq) => {
                grant.dseq == dseq && same(grant.gseq, gseq) && same(grant.oseq, oseq)
            }
        }
    }
}

/// Those services of a lease that a permission covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Services {
    /// All services, including those of future manifests.
    All,
    /// Services with these names, from the grants of a granular token. A renamed service is no longer
    /// covered.
    Only(BTreeSet<String>),
}

impl Services {
    /// Returns true if the permission covers the service.
    #[must_use]
    pub fn contains(&self, service: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(service),
        }
    }
}

/// Caller with a verified certificate or token. Requests with the same cached token share one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The tenant's account: the subject of the certificate, or the issuer of the token.
    pub owner: Address,
    /// Permissions at this provider.
    pub access: Access,
    /// Id of the token, for log messages; `None` for a certificate.
    pub token_id: Option<String>,
    /// End of the validity period of the certificate or token, since the Unix epoch.
    pub until: Duration,
}

impl Identity {
    /// Returns an identity with all permissions, for the `owner` of a certificate that expires at `until`.
    #[must_use]
    pub const fn full(owner: Address, until: Duration) -> Self {
        Self {
            owner,
            access: Access::Full,
            token_id: None,
            until,
        }
    }

    /// Returns true if the identity has grants for single deployments ([`Access::Granular`]).
    #[must_use]
    pub const fn is_granular(&self) -> bool {
        matches!(self.access, Access::Granular(_))
    }

    /// Returns the services of `target` that the permission `scope` covers, or `None` without this
    /// permission.
    #[must_use]
    pub fn permits(&self, scope: Scope, target: AccessTarget) -> Option<Services> {
        match &self.access {
            Access::Full => Some(Services::All),
            Access::Scoped(scopes) => scopes.contains(&scope).then_some(Services::All),
            Access::Granular(grants) => {
                let fitting = grants
                    .iter()
                    .filter(|g| g.scopes.contains(&scope) && target.is_covered_by(g));
                // Grants for one target add up.
                let services: BTreeSet<String> = fitting.flat_map(|g| g.services.clone()).collect();
                // Without a matching grant the result must be `None`: an empty list of services means "all" to the
                // cluster.
                (!services.is_empty()).then_some(Services::Only(services))
            }
            Access::OtherProviders => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(dseq: u64, gseq: u32, oseq: u32, scope: Scope, service: &str) -> DeploymentGrant {
        DeploymentGrant {
            dseq,
            gseq,
            oseq,
            scopes: [scope].into(),
            services: [service.to_owned()].into(),
        }
    }

    fn identity(access: Access) -> Identity {
        let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
        Identity {
            owner,
            access,
            token_id: None,
            until: Duration::MAX,
        }
    }

    #[test]
    fn scopes_parse_as_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("none".parse::<Scope>(), Err(()));
    }

    #[test]
    fn zero_matches_any_group_or_order_and_grants_add_up() {
        let who = identity(Access::Granular(vec![
            grant(7, 0, 0, Scope::Logs, "web"),
            grant(7, 1, 2, Scope::Logs, "db"),
            grant(8, 1, 0, Scope::Status, "web"),
        ]));
        let only = |names: &[&str]| {
            let names = names.iter().map(|n| (*n).to_owned()).collect();
            Some(Services::Only(names))
        };
        assert_eq!(
            who.permits(Scope::Logs, AccessTarget::Lease(7, 1, 2)),
            only(&["db", "web"])
        );
        assert_eq!(
            who.permits(Scope::Logs, AccessTarget::Lease(7, 2, 2)),
            only(&["web"])
        );
        assert_eq!(who.permits(Scope::Logs, AccessTarget::Lease(9, 1, 1)), None);
        assert_eq!(who.permits(Scope::Status, AccessTarget::Lease(7, 1, 1)), None);
        assert_eq!(who.permits(Scope::Status, AccessTarget::Group(8, 2)), None);
        assert_eq!(
            who.permits(Scope::Status, AccessTarget::Deployment(8)),
            only(&["web"])
        );
    }

    #[test]
    fn scoped_access_covers_every_lease_but_no_other_scope() {
        let who = identity(Access::Scoped([Scope::Logs].into()));
        assert_eq!(
            who.permits(Scope::Logs, AccessTarget::Lease(1, 1, 1)),
            Some(Services::All)
        );
        assert_eq!(who.permits(Scope::Shell, AccessTarget::Lease(1, 1, 1)), None);
        let elsewhere = identity(Access::OtherProviders);
        assert_eq!(elsewhere.permits(Scope::Logs, AccessTarget::Deployment(1)), None);
    }
}
