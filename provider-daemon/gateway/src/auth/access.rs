//! What a caller may do: scopes, and where they hold.

use akash_provider_core::types::{Address, LeaseId};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One thing a token may allow, by the network's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `send-manifest`: `PUT /deployment/{dseq}/manifest`, which changes every lease of the deployment.
    SendManifest,
    /// `get-manifest`: reads back the manifest that the cluster runs, environment variables included.
    GetManifest,
    /// `logs`: what the containers write, past and to come.
    Logs,
    /// `shell`: runs commands inside a service, with whatever rights the container has.
    Shell,
    /// `events`: what the cluster reports about the workload, on `kubeevents`.
    Events,
    /// `status`: of a lease and of one service; the provider's own status needs no scope.
    Status,
    /// `restart`; nothing here needs it.
    Restart,
    /// `hostname-migrate`: moves hostnames between leases of one tenant.
    HostnameMigrate,
    /// `ip-migrate`: moves leased addresses between leases of one tenant.
    IpMigrate,
    /// `attestation`; nothing here needs it.
    Attestation,
}

impl Scope {
    /// Every scope a token of the network may name. Any other word makes the token invalid.
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

    /// The scope as it stands in the claims of a token.
    #[must_use]
    pub const fn word(self) -> &'static str {
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
        f.write_str(self.word())
    }
}

impl FromStr for Scope {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|s| s.word() == text).ok_or(())
    }
}

/// Scopes of a token.
pub type Scopes = BTreeSet<Scope>;

/// What a token allows on the leases of one deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentGrant {
    /// Sequence number of the deployment, never 0; its owner is the issuer of the token.
    pub dseq: u64,
    /// Only this group; 0 for any.
    pub gseq: u32,
    /// Only this order; 0 for any.
    pub oseq: u32,
    /// What may be done there; never empty.
    pub scopes: Scopes,
    /// Names of the services where it may be done; never empty, so there is no word for "all".
    pub services: BTreeSet<String>,
}

/// What a caller may do at this provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everything with its own leases.
    Full,
    /// These things with all of its leases.
    Scoped(Scopes),
    /// These things with these deployments.
    Granular(Vec<DeploymentGrant>),
    /// Nothing: the token is for other providers.
    Elsewhere,
}

/// What is to be done something with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A deployment as a whole.
    Deployment(u64),
    /// One group of a deployment.
    Group(u64, u32),
    /// One lease, as `dseq`, `gseq` and `oseq`; owner and provider follow from who asks whom.
    Lease(u64, u32, u32),
}

impl Target {
    /// The target for a lease of the caller. The owner in the id is not compared: paths have none.
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

/// Services that a permission is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Services {
    /// Every service, also those of manifests to come: full and scoped access.
    All,
    /// These names alone, from grants of a granular token; a service that is renamed is lost.
    Only(BTreeSet<String>),
}

impl Services {
    /// True when a service is among them.
    #[must_use]
    pub fn contains(&self, service: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(service),
        }
    }
}

/// A caller whose certificate or token was verified. One of a token is shared for as long as the token is cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The tenant's account: the subject of the certificate, or the issuer of the token.
    pub owner: Address,
    /// What it may do here.
    pub access: Access,
    /// Id of the token, for the log.
    pub token_id: Option<String>,
    /// It ends then, since the Unix epoch.
    pub until: Duration,
}

impl Identity {
    /// Everything with its own leases, which is what a certificate gives until its end.
    #[must_use]
    pub const fn full(owner: Address, until: Duration) -> Self {
        Self {
            owner,
            access: Access::Full,
            token_id: None,
            until,
        }
    }

    /// True for what is granted deployment by deployment.
    #[must_use]
    pub const fn is_granular(&self) -> bool {
        matches!(self.access, Access::Granular(_))
    }

    /// In which services of the target this may be done; `None` for in none.
    #[must_use]
    pub fn permits(&self, scope: Scope, target: Target) -> Option<Services> {
        match &self.access {
            Access::Full => Some(Services::All),
            Access::Scoped(scopes) => scopes.contains(&scope).then_some(Services::All),
            Access::Granular(grants) => {
                let fitting = grants
                    .iter()
                    .filter(|g| g.scopes.contains(&scope) && target.is_covered_by(g));
                // Grants for one target add up; none takes away what another gives.
                let services: BTreeSet<String> = fitting.flat_map(|g| g.services.clone()).collect();
                // No fitting grant must be a refusal: an empty list of services reads as "all of them" elsewhere.
                (!services.is_empty()).then_some(Services::Only(services))
            }
            Access::Elsewhere => None,
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
    fn words_are_read_as_they_are_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("none".parse::<Scope>(), Err(()));
    }

    #[test]
    fn zero_means_any_and_grants_add_up() {
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
            who.permits(Scope::Logs, Target::Lease(7, 1, 2)),
            only(&["db", "web"])
        );
        assert_eq!(who.permits(Scope::Logs, Target::Lease(7, 2, 2)), only(&["web"]));
        assert_eq!(who.permits(Scope::Logs, Target::Lease(9, 1, 1)), None);
        assert_eq!(who.permits(Scope::Status, Target::Lease(7, 1, 1)), None);
        assert_eq!(who.permits(Scope::Status, Target::Group(8, 2)), None);
        assert_eq!(who.permits(Scope::Status, Target::Deployment(8)), only(&["web"]));
    }

    #[test]
    fn a_scope_holds_for_every_lease_and_nothing_else() {
        let who = identity(Access::Scoped([Scope::Logs].into()));
        assert_eq!(
            who.permits(Scope::Logs, Target::Lease(1, 1, 1)),
            Some(Services::All)
        );
        assert_eq!(who.permits(Scope::Shell, Target::Lease(1, 1, 1)), None);
        let elsewhere = identity(Access::Elsewhere);
        assert_eq!(elsewhere.permits(Scope::Logs, Target::Deployment(1)), None);
    }
}
