//! Ledger of the hostnames held by leases, indexed by hostname and by group.
//!
//! Hostnames are compared in lower case. All leases of one group (owner, dseq, gseq) count as one holder, as
//! in the Go provider, so a resumed group retains its hostnames. A lease of another group of the same tenant
//! gets a hostname only by transfer or after its release. Another tenant gets a hostname only after its
//! release.
//!
//! A wildcard and the hostnames that it covers belong to one tenant, but may belong to different leases of
//! this tenant. A request is routed to the most specific hostname.

use crate::manifest::{covering, is_within, looks_like, reaches};
use crate::types::{Address, GroupId, LeaseId};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Reason why hostnames are refused. On this error, no hostname changes its holder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HostnameError {
    /// Another tenant holds the hostname.
    #[error("host {hostname:?} in use")]
    InUse {
        /// Hostname in lower case.
        hostname: String,
    },
    /// The requested hostname and a hostname of another tenant overlap: one of them is a wildcard that covers
    /// the other.
    #[error("host {hostname:?} in use: another tenant holds {held:?}")]
    Overlaps {
        /// Requested hostname in lower case.
        hostname: String,
        /// Hostname of the other tenant.
        held: String,
    },
    /// The provider's configuration blocks the hostname for all tenants.
    #[error("hostname not allowed: {hostname:?} is blocked by this provider")]
    Blocked {
        /// Hostname in lower case.
        hostname: String,
    },
}

/// Result of a reservation of hostnames.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostnameChanges {
    /// Requested hostnames that another lease of the same tenant holds.
    pub withheld: Vec<String>,
    /// Hostnames that the lease has released.
    pub released: Vec<String>,
}

/// Hostnames held by leases, and blocked hostnames.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostnameLedger {
    /// Blocked hostnames. The subdomains of these hostnames are not blocked.
    blocked: BTreeSet<String>,
    blocked_domains: BTreeSet<String>,
    /// Hostname of this provider, from the provider record on the chain.
    own: Option<String>,
    /// Domain of automatic hostnames. Below this domain, a lease can use only its own automatic hostnames.
    #[serde(default)]
    automatic: Option<String>,
    by_name: BTreeMap<Arc<str>, LeaseId>,
    by_group: HashMap<GroupId, BTreeSet<Arc<str>>, FxBuildHasher>,
    /// Held hostnames, grouped by the wildcard that would cover them.
    by_cover: HashMap<String, BTreeSet<Arc<str>>, FxBuildHasher>,
}

impl HostnameLedger {
    /// Creates an empty ledger. An entry of `blocked` with a leading dot blocks the domain and all its subdomains,
    /// except automatic hostnames.
    #[must_use]
    pub fn new(blocked: &[String]) -> Self {
        let mut ledger = Self::default();
        for entry in blocked.iter().map(|e| e.trim().to_lowercase()) {
            match entry.strip_prefix('.') {
                // A single dot does not name a domain.
                Some("") => {}
                Some(domain) => drop(ledger.blocked_domains.insert(domain.to_owned())),
                None if entry.is_empty() => {}
                None => drop(ledger.blocked.insert(entry)),
            }
        }
        ledger
    }

    /// Sets the domain of automatic hostnames. Blocks Punycode hostnames that look like this domain.
    #[must_use]
    pub fn with_automatic(mut self, domain: Option<&str>) -> Self {
        self.automatic = domain.map(str::to_lowercase);
        self
    }

    /// Sets the hostname of the provider. Blocks this hostname, its subdomains, and Punycode hostnames that
    /// look similar. Automatic hostnames below this hostname are not blocked. No lease loses a hostname that
    /// it already holds.
    pub fn set_own(&mut self, hostname: &str) {
        self.own = Some(hostname.to_lowercase());
    }

    /// Releases all hostnames of all leases. Blocked hostnames stay blocked.
    pub fn clear(&mut self) {
        self.by_name.clear();
        self.by_group.clear();
        self.by_cover.clear();
    }

    /// Checks that a tenant may hold all of these hostnames.
    ///
    /// # Errors
    /// Returns an error if a hostname is blocked, or conflicts with another tenant's hostname.
    pub fn can_reserve(&self, hostnames: &[String], owner: &Address) -> Result<(), HostnameError> {
        for name in hostnames.iter().map(|n| n.to_lowercase()) {
            self.check_not_blocked(&name)?;
            self.check_owner(&name, owner)?;
            self.check_covers(&name, owner)?;
        }
        Ok(())
    }

    /// Returns true if no lease holds the hostname, and no other tenant holds an overlapping hostname.
    #[must_use]
    pub fn is_free(&self, hostname: &str, owner: &Address) -> bool {
        let name = hostname.to_lowercase();
        self.holder(&name).is_none() && self.check_covers(&name, owner).is_ok()
    }

    /// Replaces the hostnames of a lease. On an error, nothing changes.
    ///
    /// Releases the lease's hostnames that are not in `hostnames`. A hostname of another lease of the same
    /// tenant is returned as `withheld`. A hostname that the lease already holds is accepted even if it was
    /// blocked later.
    ///
    /// # Errors
    /// Returns an error if a new hostname is blocked, or if a hostname conflicts with another tenant's
    /// hostname.
    pub fn reserve(
        &mut self,
        lease: &LeaseId,
        hostnames: &[String],
    ) -> Result<HostnameChanges, HostnameError> {
        let group = &lease.order.group;
        let names: BTreeSet<String> = hostnames.iter().map(|n| n.to_lowercase()).collect();
        // All checks precede the first change, so that an error changes nothing.
        for name in &names {
            self.check_owner(name, lease.owner())?;
            if self.holder(name).is_none_or(|h| h.order.group != *group) {
                self.check_not_blocked(name)?;
                self.check_covers(name, lease.owner())?;
            }
        }
        let mut reserved = HostnameChanges::default();
        let earlier = self.by_group.get(group).into_iter().flatten();
        let given_up: Vec<_> = earlier.filter(|n| !names.contains(&***n)).cloned().collect();
        for name in given_up {
            self.remove(&name);
            reserved.released.push(name.to_string());
        }
        for name in names {
            if self.holder(&name).is_some_and(|h| h.order.group != *group) {
                reserved.withheld.push(name);
            } else {
                self.assign(&name, lease);
            }
        }
        Ok(reserved)
    }

    /// Releases and returns all hostnames that a lease still holds.
    pub fn release(&mut self, lease: &LeaseId) -> Vec<String> {
        let names = self.held_by(lease);
        for name in &names {
            self.remove(name);
        }
        names
    }

    /// Moves hostnames from other leases of the same tenant to a lease. Hostnames that no lease holds are
    /// assigned directly. Returns each hostname with its previous holder.
    ///
    /// # Errors
    /// Returns an error if a hostname conflicts with another tenant's hostname. Also returns an error for a
    /// blocked hostname that no lease holds.
    pub fn transfer(
        &mut self,
        lease: &LeaseId,
        hostnames: &[String],
    ) -> Result<Vec<(String, Option<LeaseId>)>, HostnameError> {
        let names: BTreeSet<String> = hostnames.iter().map(|n| n.to_lowercase()).collect();
        // All checks precede the first change, so that an error changes nothing.
        for name in &names {
            self.check_owner(name, lease.owner())?;
            if self.holder(name).is_none() {
                self.check_not_blocked(name)?;
                self.check_covers(name, lease.owner())?;
            }
        }
        let moved = names.into_iter().map(|name| {
            let former = self.assign(&name, lease);
            (name, former)
        });
        Ok(moved.collect())
    }

    /// Assigns a hostname to a lease, as declared in the cluster. Does not check whether the hostname is
    /// blocked. Returns the previous holder of the hostname.
    pub fn adopt(&mut self, hostname: &str, lease: &LeaseId) -> Option<LeaseId> {
        let former = self.assign(&hostname.to_lowercase(), lease);
        former.filter(|f| f != lease)
    }

    /// Returns the lease that holds a hostname.
    #[must_use]
    pub fn holder(&self, hostname: &str) -> Option<&LeaseId> {
        // Fast path without allocation: most callers pass lower case.
        let found = self.by_name.get(hostname);
        found.or_else(|| self.by_name.get(hostname.to_lowercase().as_str()))
    }

    /// Returns the hostnames of a lease, sorted.
    #[must_use]
    pub fn held_by(&self, lease: &LeaseId) -> Vec<String> {
        let names = self.by_group.get(&lease.order.group).into_iter().flatten();
        let mine = names.filter(|n| self.by_name.get(*n) == Some(lease));
        mine.map(ToString::to_string).collect()
    }

    /// Returns all hostnames with their holders.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, LeaseId> {
        let names = self.by_name.iter();
        names.map(|(n, lease)| (n.to_string(), lease.clone())).collect()
    }

    /// Returns true if no tenant may hold the hostname: the hostname is blocked, is Punycode that looks like
    /// a blocked hostname, or is a wildcard that includes a blocked hostname.
    #[must_use]
    pub fn is_blocked(&self, hostname: &str) -> bool {
        let name = hostname.to_lowercase();
        let first = Some(name.as_str());
        let mut domains = std::iter::successors(first, |n| n.split_once('.').map(|(_, rest)| rest));
        let is_automatic = self
            .automatic
            .as_ref()
            .is_some_and(|domain| is_within(&name, domain));
        let mut is_below = || domains.any(|domain| self.blocked_domains.contains(domain));
        let is_own = || self.own.as_ref().is_some_and(|own| is_within(&name, own));
        if self.blocked.contains(&name) || !is_automatic && (is_own() || is_below()) {
            return true;
        }
        let mut reserved = self.blocked.iter().chain(&self.blocked_domains).chain(&self.own);
        let mut alike = reserved.clone().chain(&self.automatic);
        name.starts_with('*') && reserved.any(|reserved| reaches(&name, reserved))
            || name.contains("xn--") && alike.any(|reserved| looks_like(&name, reserved))
    }

    /// Returns the held wildcard that covers `name`, or the held hostnames that `name` covers.
    fn overlapping(&self, name: &str) -> impl Iterator<Item = (&Arc<str>, &LeaseId)> {
        let cover = covering(name).and_then(|cover| self.by_name.get_key_value(cover.as_str()));
        let covered = self.by_cover.get(name).into_iter().flatten();
        let covered = covered.filter_map(|name| self.by_name.get_key_value(name));
        cover.into_iter().chain(covered)
    }

    fn check_covers(&self, name: &str, owner: &Address) -> Result<(), HostnameError> {
        match self.overlapping(name).find(|(_, holder)| holder.owner() != owner) {
            None => Ok(()),
            Some((held, _)) => Err(HostnameError::Overlaps {
                hostname: name.to_owned(),
                held: held.to_string(),
            }),
        }
    }

    fn check_not_blocked(&self, name: &str) -> Result<(), HostnameError> {
        if self.is_blocked(name) {
            return Err(HostnameError::Blocked {
                hostname: name.to_owned(),
            });
        }
        Ok(())
    }

    fn check_owner(&self, name: &str, owner: &Address) -> Result<(), HostnameError> {
        if self.holder(name).is_some_and(|h| h.owner() != owner) {
            return Err(HostnameError::InUse {
                hostname: name.to_owned(),
            });
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, lease: &LeaseId) -> Option<LeaseId> {
        let former = self.remove(name);
        let name: Arc<str> = name.into();
        let group = lease.order.group.clone();
        self.by_group.entry(group).or_default().insert(name.clone());
        if let Some(cover) = covering(&name) {
            self.by_cover.entry(cover).or_default().insert(name.clone());
        }
        self.by_name.insert(name, lease.clone());
        former
    }

    fn remove(&mut self, name: &str) -> Option<LeaseId> {
        let holder = self.by_name.remove(name)?;
        if let Some(names) = self.by_group.get_mut(&holder.order.group) {
            names.remove(name);
            // Empty entries are removed, so that the index does not grow with every group.
            if names.is_empty() {
                self.by_group.remove(&holder.order.group);
            }
        }
        if let Some(cover) = covering(name)
            && let Some(names) = self.by_cover.get_mut(&cover)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_cover.remove(&cover);
            }
        }
        Some(holder)
    }
}
