//! What the market knows of us: our record, what auditors signed, the parameters. Read once, shared by all
//! orders, refreshed by events, and bounded.

use crate::bidding;
use crate::error::Failure;
use crate::types::{Attribute, AuditedAttributes, GroupSpec, MarketParams, Mono, OrderId, ProviderRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Bytes of the longest address there can be.
const NAME_MAX: usize = 90;
/// How long an auditor's signature is believed without asking again (as in today's provider).
const AUDIT_TTL: Duration = Duration::from_secs(18 * 3600);
/// How long a failure is believed, so that waiting orders do not ask one after another.
const FAILED_TTL: Duration = Duration::from_secs(15);
/// Auditors remembered at most; orders name them, so the number is not ours to choose.
const AUDITORS_MAX: usize = 1024;
/// Attributes remembered of what one auditor signed; anybody may sign anything of us, and nobody needs more.
const SIGNED_MAX: usize = 1024;
/// Failed reads before the orders that wait are judged without.
const ATTEMPTS: u32 = 3;

/// What one auditor signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Audit {
    /// A question is on its way; `outdated` when what it asks for changed since.
    Asked { attempts: u32, outdated: bool },
    /// Known; nothing when the auditor signed nothing.
    Known {
        at: Mono,
        signed: Option<AuditedAttributes>,
    },
    /// Could not be asked; orders are told why, and after a while the next one asks again.
    Failed { at: Mono, message: String },
}

/// What is known of us, and the orders that wait for more of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct Facts {
    provider: Option<ProviderRecord>,
    provider_asked: bool,
    /// It changed while it was being asked for.
    provider_outdated: bool,
    params: Option<MarketParams>,
    audits: BTreeMap<String, Audit>,
    /// Orders that wait, by the auditor whose answer they wait for.
    waiting: BTreeMap<String, BTreeSet<OrderId>>,
    version: u32,
    /// A snapshot has brought another record of ours, or other parameters.
    changed: bool,
}

/// What an order's judgement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) enum Needs {
    /// Everything is here: what the group's auditors signed.
    Ready(Vec<AuditedAttributes>),
    /// These auditors are to be asked; the order waits. May be empty when they are being asked already.
    Ask(Vec<String>),
    /// It cannot be found out.
    Failed(String),
}

impl Facts {
    /// Takes a snapshot's facts.
    pub(in crate::engine) fn resync(&mut self, provider: Option<&ProviderRecord>, params: &MarketParams) {
        let changed = self.provider.as_ref() != provider || self.params.as_ref() != Some(params);
        // Wrapping, because two versions are only ever compared for being the same.
        self.version = self.version.wrapping_add(u32::from(changed));
        self.changed |= changed;
        self.provider = provider.cloned();
        self.params = Some(params.clone());
    }

    /// True once after a snapshot that brought something new.
    pub(in crate::engine) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Changes with the facts, so that an order can tell that it was judged by older ones.
    #[must_use]
    pub(in crate::engine) const fn version(&self) -> u32 {
        self.version
    }

    /// Our attributes as registered; `None` while we are not.
    #[must_use]
    pub(in crate::engine) fn attributes(&self) -> Option<&[Attribute]> {
        self.provider.as_ref().map(|p| p.attributes.as_slice())
    }

    /// Where tenants reach us, as registered.
    #[must_use]
    pub(in crate::engine) fn host(&self) -> Option<&str> {
        self.provider.as_ref()?.host()
    }

    /// True when we are registered.
    #[must_use]
    pub(in crate::engine) const fn is_registered(&self) -> bool {
        self.provider.is_some()
    }

    /// Market parameters, once known.
    #[must_use]
    pub(in crate::engine) const fn params(&self) -> Option<&MarketParams> {
        self.params.as_ref()
    }

    /// Our record changed: true when it is to be asked for (once).
    pub(in crate::engine) fn provider_stale(&mut self) -> bool {
        let is_asked = std::mem::replace(&mut self.provider_asked, true);
        // The answer on its way may be the old one.
        self.provider_outdated |= is_asked;
        !is_asked
    }

    /// Our record was read, and a failure keeps the old one: true when it is to be asked for again.
    pub(in crate::engine) fn provider_read(
        &mut self,
        result: Result<Option<ProviderRecord>, Failure>,
    ) -> bool {
        let again = std::mem::take(&mut self.provider_outdated);
        self.provider_asked = again;
        if let Ok(provider) = result {
            self.version = self.version.wrapping_add(1);
            self.provider = provider;
        }
        again
    }

    /// What an auditor signed changed.
    pub(in crate::engine) fn audit_stale(&mut self, auditor: &str) {
        self.version = self.version.wrapping_add(1);
        match self.audits.get_mut(auditor) {
            // The answer on its way may be the old one.
            Some(Audit::Asked { outdated, .. }) => *outdated = true,
            Some(Audit::Known { .. } | Audit::Failed { .. }) => drop(self.audits.remove(auditor)),
            None => {}
        }
    }

    /// Any auditor may have changed what it signed.
    pub(in crate::engine) fn audits_stale(&mut self) {
        let all: Vec<String> = self.audits.keys().cloned().collect();
        for auditor in all {
            self.audit_stale(&auditor);
        }
    }

    /// What is needed to judge a group.
    pub(in crate::engine) fn needs(&mut self, now: Mono, order: &OrderId, group: &GroupSpec) -> Needs {
        let (mut known, mut ask, mut pending) = (Vec::new(), Vec::new(), None);
        for auditor in bidding::auditors(group) {
            match self.audits.get(auditor) {
                Some(Audit::Known { at, signed }) if now.since(*at) < AUDIT_TTL => {
                    known.extend(signed.clone())
                }
                Some(Audit::Asked { .. }) => pending = Some(auditor),
                Some(Audit::Failed { at, message }) if now.since(*at) < FAILED_TTL => {
                    return Needs::Failed(format!("auditor {auditor} could not be asked: {message}"));
                }
                // No account has so long a name, so nobody signed under it.
                None if auditor.len() > NAME_MAX => {}
                Some(Audit::Known { .. } | Audit::Failed { .. }) | None => ask.push(auditor.to_owned()),
            }
        }
        // The answer that is asked for last mostly comes last; whatever is still missing then is waited for next.
        let Some(awaited) = ask.last().map(String::as_str).or(pending) else {
            return Needs::Ready(known);
        };
        let waiting = self.waiting.entry(awaited.to_owned()).or_default();
        waiting.insert(order.clone());
        for auditor in &ask {
            self.make_room();
            self.audits.insert(
                auditor.clone(),
                Audit::Asked {
                    attempts: 0,
                    outdated: false,
                },
            );
        }
        Needs::Ask(ask)
    }

    /// An auditor was asked: true when to ask again, else the orders that waited are to be judged anew.
    pub(in crate::engine) fn audit_read(
        &mut self,
        now: Mono,
        auditor: &str,
        result: Result<Option<AuditedAttributes>, Failure>,
    ) -> bool {
        let Some(audit) = self.audits.get_mut(auditor) else {
            return false;
        };
        if let Audit::Asked { outdated: true, .. } = audit {
            *audit = Audit::Asked {
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
                Audit::Known { at: now, signed }
            }
            (Err(failure), Audit::Asked { attempts, .. })
                if failure.transient && *attempts + 1 < ATTEMPTS =>
            {
                *audit = Audit::Asked {
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

    /// The orders that wait for an auditor's answer.
    pub(in crate::engine) fn take_waiting_for(&mut self, auditor: &str) -> BTreeSet<OrderId> {
        self.waiting.remove(auditor).unwrap_or_default()
    }

    /// All orders that wait for facts.
    pub(in crate::engine) fn take_waiting(&mut self) -> BTreeSet<OrderId> {
        std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .collect()
    }

    fn make_room(&mut self) {
        while self.audits.len() >= AUDITORS_MAX {
            let oldest = self
                .audits
                .iter()
                .filter_map(|(name, audit)| match audit {
                    Audit::Known { at, .. } | Audit::Failed { at, .. } => Some((*at, name)),
                    // Orders wait for this one, so it makes room for nobody.
                    Audit::Asked { .. } => None,
                })
                .min();
            match oldest.map(|(_, name)| name.clone()) {
                Some(name) => self.audits.remove(&name),
                None => return,
            };
        }
    }
}
