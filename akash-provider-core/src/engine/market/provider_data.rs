//! This provider's data on the chain: provider record, audited attributes and market parameters. All orders
//! share the data. Events update it, and its size is bounded.

use crate::bidding;
use crate::error::Failure;
use crate::types::{Attribute, AuditedAttributes, GroupSpec, MarketParams, Mono, OrderId, ProviderRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum length of an auditor's name in an order, in bytes.
const NAME_MAX: usize = 90;
/// Time after which audited attributes are read again. Same value as in the Go provider.
const AUDIT_TTL: Duration = Duration::from_secs(18 * 3600);
/// Time for which a failed read is cached, so that not every pending order repeats the query.
const FAILED_TTL: Duration = Duration::from_secs(15);
/// Maximum number of cached auditors. Tenants name the auditors in orders, without a limit.
const AUDITORS_MAX: usize = 1024;
/// Maximum number of cached attributes per auditor, because any account can sign any number of attributes.
const SIGNED_MAX: usize = 1024;
/// Maximum number of attempts to query an audit. After the last failure, the waiting orders are declined.
const ATTEMPTS: u32 = 3;

/// Cached audit by one auditor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Audit {
    /// A query is in flight. `outdated` is true if the audit changed after the query was sent.
    Pending { attempts: u32, outdated: bool },
    /// The audit was read. `signed` is `None` if the auditor signed no attributes of this provider.
    Cached {
        at: Mono,
        signed: Option<AuditedAttributes>,
    },
    /// The query failed. Orders are declined with the message until `FAILED_TTL` has passed.
    Failed { at: Mono, message: String },
}

/// This provider's data on the chain, and the orders that wait for missing data.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct ProviderData {
    provider: Option<ProviderRecord>,
    is_provider_pending: bool,
    /// True if the provider record changed while a query for the record was in flight.
    is_provider_outdated: bool,
    params: Option<MarketParams>,
    audits: BTreeMap<String, Audit>,
    /// Orders that wait for an audit, by auditor.
    waiting: BTreeMap<String, BTreeSet<OrderId>>,
    version: u32,
    /// True if a snapshot changed the provider record or the parameters since the last call of
    /// `take_changed`.
    changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) enum AuditRequirement {
    /// All required audits are cached.
    Ready(Vec<AuditedAttributes>),
    /// The order waits, and these auditors must be queried. The list is empty if all queries are already in
    /// flight.
    Query(Vec<String>),
    /// A required audit could not be read.
    Failed(String),
}

impl ProviderData {
    pub(in crate::engine) fn resync(&mut self, provider: Option<&ProviderRecord>, params: &MarketParams) {
        let changed = self.provider.as_ref() != provider || self.params.as_ref() != Some(params);
        // Wrapping is safe, because versions are only compared for equality.
        self.version = self.version.wrapping_add(u32::from(changed));
        self.changed |= changed;
        self.provider = provider.cloned();
        self.params = Some(params.clone());
    }

    pub(in crate::engine) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns a counter that changes with every change of the provider record, the audits or the parameters.
    pub(in crate::engine) const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the registered attributes, or `None` if this provider is not registered.
    pub(in crate::engine) fn attributes(&self) -> Option<&[Attribute]> {
        self.provider.as_ref().map(|p| p.attributes.as_slice())
    }

    pub(in crate::engine) fn host(&self) -> Option<&str> {
        self.provider.as_ref()?.host()
    }

    pub(in crate::engine) const fn is_registered(&self) -> bool {
        self.provider.is_some()
    }

    /// Returns the market parameters, or `None` before the first snapshot.
    pub(in crate::engine) const fn params(&self) -> Option<&MarketParams> {
        self.params.as_ref()
    }

    /// Marks the provider record as outdated. Returns true if the caller must query the record, or false if a
    /// query is already in flight.
    pub(in crate::engine) fn mark_provider_outdated(&mut self) -> bool {
        let was_pending = std::mem::replace(&mut self.is_provider_pending, true);
        // The query in flight may return the old record.
        self.is_provider_outdated |= was_pending;
        !was_pending
    }

    /// Stores the provider record from the query. After a failed query, the old record remains. Returns true
    /// if the query must be repeated.
    pub(in crate::engine) fn provider_read(
        &mut self,
        result: Result<Option<ProviderRecord>, Failure>,
    ) -> bool {
        let again = std::mem::take(&mut self.is_provider_outdated);
        self.is_provider_pending = again;
        if let Ok(provider) = result {
            self.version = self.version.wrapping_add(1);
            self.provider = provider;
        }
        again
    }

    pub(in crate::engine) fn mark_audit_outdated(&mut self, auditor: &str) {
        self.version = self.version.wrapping_add(1);
        match self.audits.get_mut(auditor) {
            // The query in flight may return the old audit.
            Some(Audit::Pending { outdated, .. }) => *outdated = true,
            Some(Audit::Cached { .. } | Audit::Failed { .. }) => drop(self.audits.remove(auditor)),
            None => {}
        }
    }

    pub(in crate::engine) fn mark_audits_outdated(&mut self) {
        let all: Vec<String> = self.audits.keys().cloned().collect();
        for auditor in all {
            self.mark_audit_outdated(&auditor);
        }
    }

    pub(in crate::engine) fn required_audits(
        &mut self,
        now: Mono,
        order: &OrderId,
        group: &GroupSpec,
    ) -> AuditRequirement {
        let (mut audits, mut ask, mut pending) = (Vec::new(), Vec::new(), None);
        for auditor in bidding::auditors(group) {
            match self.audits.get(auditor) {
                Some(Audit::Cached { at, signed }) if now.since(*at) < AUDIT_TTL => {
                    audits.extend(signed.clone())
                }
                Some(Audit::Pending { .. }) => pending = Some(auditor),
                Some(Audit::Failed { at, message }) if now.since(*at) < FAILED_TTL => {
                    return AuditRequirement::Failed(format!("cannot query auditor {auditor}: {message}"));
                }
                // Longer than any account name, so no audit can exist.
                None if auditor.len() > NAME_MAX => {}
                Some(Audit::Cached { .. } | Audit::Failed { .. }) | None => ask.push(auditor.to_owned()),
            }
        }
        // The order waits for the last query, which usually completes last. Other missing audits are awaited
        // afterwards.
        let Some(awaited) = ask.last().map(String::as_str).or(pending) else {
            return AuditRequirement::Ready(audits);
        };
        let waiting = self.waiting.entry(awaited.to_owned()).or_default();
        waiting.insert(order.clone());
        for auditor in &ask {
            self.evict_oldest();
            self.audits.insert(
                auditor.clone(),
                Audit::Pending {
                    attempts: 0,
                    outdated: false,
                },
            );
        }
        AuditRequirement::Query(ask)
    }

    /// Stores an audit. Returns true if the audit must be queried again, or false if the waiting orders can
    /// be decided.
    pub(in crate::engine) fn audit_read(
        &mut self,
        now: Mono,
        auditor: &str,
        result: Result<Option<AuditedAttributes>, Failure>,
    ) -> bool {
        let Some(audit) = self.audits.get_mut(auditor) else {
            return false;
        };
        if let Audit::Pending { outdated: true, .. } = audit {
            *audit = Audit::Pending {
                attempts: 0,
                outdated: false,
            };
            return true;
        }
        *audit = match (result, &*audit) {
            (Ok(mut signed), _) => {
                if let Some(signed) = &mut signed {
                    signed.attributes.truncate(SIGNED_MAX);
                }
                Audit::Cached { at: now, signed }
            }
            (Err(failure), Audit::Pending { attempts, .. })
                if failure.transient && *attempts + 1 < ATTEMPTS =>
            {
                *audit = Audit::Pending {
                    attempts: *attempts + 1,
                    outdated: false,
                };
                return true;
            }
            (Err(failure), _) => Audit::Failed {
                at: now,
                message: failure.message,
            },
        };
        false
    }

    pub(in crate::engine) fn take_waiting_for(&mut self, auditor: &str) -> BTreeSet<OrderId> {
        self.waiting.remove(auditor).unwrap_or_default()
    }

    pub(in crate::engine) fn take_waiting(&mut self) -> BTreeSet<OrderId> {
        std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .collect()
    }

    fn evict_oldest(&mut self) {
        while self.audits.len() >= AUDITORS_MAX {
            let oldest = self
                .audits
                .iter()
                .filter_map(|(name, audit)| match audit {
                    Audit::Cached { at, .. } | Audit::Failed { at, .. } => Some((*at, name)),
                    // Orders wait for this audit, so it is not evicted.
                    Audit::Pending { .. } => None,
                })
                .min();
            match oldest.map(|(_, name)| name.clone()) {
                Some(name) => self.audits.remove(&name),
                None => return,
            };
        }
    }
}
