//! Who holds which hostname: a ledger, indexed both ways.
//!
//! Names are compared in lower case. As the network's provider has it, the leases of one group (owner, dseq,
//! gseq) are one holder, so that a resumed group keeps its names; other leases of the same tenant get a name
//! only by transfer (until then it is withheld from them), and other tenants never while it is held.
//!
//! A wildcard and the names that it covers are of one tenant, in whichever of its leases: the nearer name leads there.

use crate::manifest::{covering, is_within, looks_like, reaches};
use crate::types::{Address, GroupId, LeaseId};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Why hostnames are refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HostnameError {
    /// Another tenant holds it.
    #[error("host {hostname:?} in use")]
    InUse {
        /// The name, in lower case.
        hostname: String,
    },
    /// Another tenant holds the wildcard that covers it, or a name that it covers.
    #[error("host {hostname:?} in use: {held:?} is another tenant's")]
    Overlaps {
        /// The name, in lower case.
        hostname: String,
        /// What the other one holds.
        held: String,
    },
    /// This provider gives it to nobody.
    #[error("hostname not allowed: {hostname:?} is blocked by this provider")]
    Blocked {
        /// The name, in lower case.
        hostname: String,
    },
}

/// What a reservation changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Reserved {
    /// Names that another lease of the same tenant holds; it keeps them.
    pub withheld: Vec<String>,
    /// Names the holder had before and gave up.
    pub released: Vec<String>,
}

/// The ledger of hostnames.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostnameLedger {
    /// Whole names, and domains without their leading dot.
    blocked: BTreeSet<String>,
    blocked_domains: BTreeSet<String>,
    /// The name by which tenants reach the provider, as the chain has it.
    own: Option<String>,
    /// Domain of automatic hostnames. The engine refuses the names below it that are not the lease's own.
    #[serde(default)]
    automatic: Option<String>,
    by_name: BTreeMap<Arc<str>, LeaseId>,
    by_group: HashMap<GroupId, BTreeSet<Arc<str>>, FxBuildHasher>,
    /// Names by the wildcard that covers them, whether anybody holds that or not.
    by_cover: HashMap<String, BTreeSet<Arc<str>>, FxBuildHasher>,
}

impl HostnameLedger {
    /// An empty ledger. An entry of `blocked` with a leading dot blocks the domain and everything below it but
    /// automatic hostnames.
    #[must_use]
    pub fn new(blocked: &[String]) -> Self {
        let mut ledger = Self::default();
        for entry in blocked.iter().map(|e| e.trim().to_lowercase()) {
            match entry.strip_prefix('.') {
                // A dot alone names no domain.
                Some("") => {}
                Some(domain) => drop(ledger.blocked_domains.insert(domain.to_owned())),
                None if entry.is_empty() => {}
                None => drop(ledger.blocked.insert(entry)),
            }
        }
        ledger
    }

    /// Sets the domain of automatic hostnames: names that look like it are blocked.
    #[must_use]
    pub fn with_automatic(mut self, domain: Option<&str>) -> Self {
        self.automatic = domain.map(str::to_lowercase);
        self
    }

    /// Sets the name by which tenants reach the provider, in place of the one before. The name, every name below it
    /// and every name that looks like one of these is blocked, because its holder could pass for the provider. Automatic
    /// hostnames below it stay possible, and so do names that are held already.
    pub fn set_own(&mut self, hostname: &str) {
        self.own = Some(hostname.to_lowercase());
    }

    /// Forgets who holds what; what is blocked stays so.
    pub fn clear(&mut self) {
        self.by_name.clear();
        self.by_group.clear();
        self.by_cover.clear();
    }

    /// Says whether a tenant may have all of these names.
    ///
    /// # Errors
    /// The first name that is blocked or held by another tenant.
    pub fn can_reserve(&self, hostnames: &[String], owner: &Address) -> Result<(), HostnameError> {
        for name in hostnames.iter().map(|n| n.to_lowercase()) {
            self.check_not_blocked(&name)?;
            self.check_owner(&name, owner)?;
            self.check_covers(&name, owner)?;
        }
        Ok(())
    }

    /// True when nobody holds a name, nor another tenant what overlaps with it.
    #[must_use]
    pub fn is_free(&self, hostname: &str, owner: &Address) -> bool {
        let name = hostname.to_lowercase();
        self.holder(&name).is_none() && self.check_covers(&name, owner).is_ok()
    }

    /// Makes these the names of a lease: all of them or, on an error, none. Names it held and that are not
    /// listed are given up; names that another lease of the tenant holds are withheld. A name it already holds
    /// is not refused when it was blocked later.
    ///
    /// # Errors
    /// The first name that is blocked or held by another tenant.
    pub fn reserve(&mut self, lease: &LeaseId, hostnames: &[String]) -> Result<Reserved, HostnameError> {
        let group = &lease.order.group;
        let names: BTreeSet<String> = hostnames.iter().map(|n| n.to_lowercase()).collect();
        // All checks come before the first change, so that an error leaves the ledger as it was.
        for name in &names {
            self.check_owner(name, lease.owner())?;
            if self.holder(name).is_none_or(|h| h.order.group != *group) {
                self.check_not_blocked(name)?;
                self.check_covers(name, lease.owner())?;
            }
        }
        let mut reserved = Reserved::default();
        let held = self.by_group.get(group).into_iter().flatten();
        let given_up: Vec<_> = held.filter(|n| !names.contains(&***n)).cloned().collect();
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

    /// Gives up everything a lease holds and returns it. Names that a later lease of the same group has taken
    /// over stay.
    pub fn release(&mut self, lease: &LeaseId) -> Vec<String> {
        let names = self.held_by(lease);
        for name in &names {
            self.remove(name);
        }
        names
    }

    /// Moves names to a lease from wherever its tenant holds them; a name nobody holds is simply taken.
    /// Returns each name with its former holder.
    ///
    /// # Errors
    /// The first name that another tenant holds, or that nobody holds and is blocked.
    pub fn transfer(
        &mut self,
        lease: &LeaseId,
        hostnames: &[String],
    ) -> Result<Vec<(String, Option<LeaseId>)>, HostnameError> {
        let names: BTreeSet<String> = hostnames.iter().map(|n| n.to_lowercase()).collect();
        // All checks come before the first change, so that an error leaves the ledger as it was.
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

    /// Takes over what the cluster has declared already, blocked or not. Returns the holder it replaced.
    pub fn adopt(&mut self, hostname: &str, lease: &LeaseId) -> Option<LeaseId> {
        let former = self.assign(&hostname.to_lowercase(), lease);
        former.filter(|f| f != lease)
    }

    /// Who holds a name.
    #[must_use]
    pub fn holder(&self, hostname: &str) -> Option<&LeaseId> {
        // Most callers have it in lower case, and need no copy.
        let found = self.by_name.get(hostname);
        found.or_else(|| self.by_name.get(hostname.to_lowercase().as_str()))
    }

    /// What a lease holds, sorted.
    #[must_use]
    pub fn held_by(&self, lease: &LeaseId) -> Vec<String> {
        let names = self.by_group.get(&lease.order.group).into_iter().flatten();
        let mine = names.filter(|n| self.by_name.get(*n) == Some(lease));
        mine.map(ToString::to_string).collect()
    }

    /// Every name with its holder.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, LeaseId> {
        let names = self.by_name.iter();
        names.map(|(n, lease)| (n.to_string(), lease.clone())).collect()
    }

    /// True when no tenant gets a name: it is blocked, it looks like such a name (Punycode), or it is a wildcard that
    /// reaches one.
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
        let mut kept = self.blocked.iter().chain(&self.blocked_domains).chain(&self.own);
        let mut alike = kept.clone().chain(&self.automatic);
        name.starts_with('*') && kept.any(|kept| reaches(&name, kept))
            || name.contains("xn--") && alike.any(|kept| looks_like(&name, kept))
    }

    /// The wildcard that covers a name, or the names that a wildcard covers, as far as they are held.
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

    /// Gives a name in lower case to a lease; returns who had it.
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
            // Or the index would keep every group that ever had a name.
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
