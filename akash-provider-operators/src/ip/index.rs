//! Pure index of the IP operator: receives watch events and returns the work for each Service.
//!
//! A ProviderLeasedIP record is named after its seat: the sharing key, the protocol and the port. One record
//! at most declares a seat, so a seat belongs to at most one Service of one lease. Two Services cannot share
//! a seat, so the old Service of a seat is deleted before the new Service is created. A list is used only
//! when it is complete, and no work is done before records, manifests and Services were listed. The operator
//! may delete a Service only if three conditions hold: its labels name a lease of the provider, the provider
//! has records in this cluster, and the Service is in the namespace of that lease.

use super::balancer::Mode;
use super::facts::{DeclaredIps, DecodedRecord, InvalidRecord, LeasedPort};
use super::live::LiveService;
use crate::change::{ObjectChange, changed};
use crate::operator_state::{OperatorIndex, Work};
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::audit::MissingRecord;
use akash_provider_kube_model::leased_ips::object_name;
use akash_provider_kube_model::leased_ips::pool::Pool;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the watch of the MetalLB pools in the status.
pub(super) const POOLS: &str = "ipaddresspools";

/// Name of an object, or `NAMESPACE/NAME` of a Service.
type ObjectName = String;

/// Change from a watch or from the writer.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) enum IpEvent {
    /// Change of the records. The key is the name.
    Records(ObjectChange<ObjectName, DecodedRecord>),
    /// Change of Manifests, by name. The value is `None` if the labels do not identify a lease.
    Manifests(ObjectChange<ObjectName, Option<DeclaredIps>>),
    /// Change of all Services of the cluster, by `NAMESPACE/NAME`.
    Services(ObjectChange<ObjectName, LiveService>),
    /// Change of the MetalLB pools, by name.
    Pools(ObjectChange<ObjectName, Pool>),
    /// The writer wrote a Service.
    Written(ObjectName, LiveService),
    /// Deletion of a Service by the writer: its `NAMESPACE/NAME` and its UID.
    Deleted(ObjectName, String),
}

/// Observed objects of the cluster. The index determines the work for each Service.
#[derive(Debug, Clone)]
pub(crate) struct IpIndex {
    provider: Address,
    mode: Mode,
    records: Option<BTreeMap<ObjectName, DecodedRecord>>,
    /// Names of the records that declare a Service, by the name of the Service.
    claims: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    manifests: Option<BTreeMap<ObjectName, Option<DeclaredIps>>>,
    /// Load balancers, and Services with the labels of a leased address.
    services: Option<BTreeMap<ObjectName, LiveService>>,
    /// Names of Services, by the name of their ProviderLeasedIP record ([`LiveService::seat`]).
    seats: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    pools: Option<BTreeMap<ObjectName, Pool>>,
    /// True if this provider ever had records in the cluster.
    has_records: bool,
    /// Names of the records that were removed since the start of the operator.
    removed: BTreeSet<ObjectName>,
}

/// Pending work for a Service. Empty if the Service is in the desired state.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct IpWork {
    /// Service to write.
    pub write: Option<ServiceWrite>,
    /// UID of the Service, if it must be deleted.
    pub delete: Option<String>,
    /// Reason why the Service does not match the ProviderLeasedIP record.
    pub problem: Option<String>,
    /// Missing record that causes the deletion. `None` if the deletion has another cause.
    pub missing: Option<MissingRecord>,
}

/// Service to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServiceWrite {
    /// Complete object to apply.
    pub body: Value,
    /// UID of the existing object; `None` for a new object.
    pub uid: Option<String>,
    /// True if the operator must own the fields of the Service before it can remove a surplus annotation.
    pub take_over: bool,
    /// Path of the first field that differs; empty for a new object.
    pub at: String,
}

impl IpWork {
    fn with_problem(problem: impl Into<String>) -> Self {
        Self {
            problem: Some(problem.into()),
            ..Self::default()
        }
    }
}

impl IpIndex {
    /// Creates an empty index, which requires no work before the initial lists.
    pub(crate) const fn new(provider: Address, mode: Mode) -> Self {
        Self {
            provider,
            mode,
            records: None,
            claims: BTreeMap::new(),
            manifests: None,
            services: None,
            seats: BTreeMap::new(),
            pools: None,
            has_records: false,
            removed: BTreeSet::new(),
        }
    }

    /// Returns the settings for rendering the Services.
    pub(crate) const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Returns the declaration of a Service, if exactly one record declares the Service.
    pub(crate) fn leased(&self, place: &str) -> Option<&LeasedPort> {
        let mut claims = self.claims_of(place);
        let only = claims.next()?;
        let is_alone = claims.next().is_none();
        self.records
            .as_ref()?
            .get(only)?
            .as_ref()
            .ok()
            .filter(|_| is_alone)
    }

    /// Returns the Service `place` if it is a load balancer or has a leased address.
    pub(crate) fn live(&self, place: &str) -> Option<&LiveService> {
        self.services.as_ref()?.get(place)
    }

    /// Returns all load balancers, and all Services of leased addresses.
    pub(crate) fn services(&self) -> impl Iterator<Item = (&ObjectName, &LiveService)> {
        self.services.iter().flatten()
    }

    /// Returns the pools, or `None` before they were listed.
    pub(crate) const fn pools(&self) -> Option<&BTreeMap<ObjectName, Pool>> {
        self.pools.as_ref()
    }

    fn without_record(&self, place: &str) -> IpWork {
        let Some(live) = self
            .live(place)
            .filter(|live| live.is_leased && self.is_of_provider(live))
        else {
            return IpWork::default();
        };
        if live.is_going {
            return IpWork::default();
        }
        if !self.is_ours(place, live) {
            return IpWork::with_problem(
                "the Service has no record, and its provider is uncertain: the namespace of the records has no record of \
                 the provider, or the Service is not in the namespace of its lease; delete the Service with the tool that \
                 created it",
            );
        }
        if self.may_be_declared(place, live) {
            return IpWork::with_problem(
                "an invalid record may declare the Service; fix or delete that record",
            );
        }
        // The seat moved to another Service.
        let key = live.seat().unwrap_or_else(|| place.to_owned());
        let has_moved = self.records.as_ref().is_some_and(|all| all.contains_key(&key));
        let has_reason = self.removed.contains(&key) || self.has_given_up(place, live);
        IpWork {
            delete: Some(live.uid.clone()),
            missing: (!has_moved).then_some(MissingRecord { key, has_reason }),
            ..IpWork::default()
        }
    }

    /// Returns true if the valid Manifest of the lease no longer declares the address of the Service.
    fn has_given_up(&self, place: &str, live: &LiveService) -> bool {
        let namespace = place.split_once('/').map_or(place, |(namespace, _)| namespace);
        let manifest = self
            .manifests
            .as_ref()
            .and_then(|all| all.get(namespace)?.as_ref());
        let records = manifest.and_then(|declares| declares.records.as_ref());
        records.is_some_and(|records| match live.seat() {
            Some(seat) => !records.contains(&seat),
            None => records.is_empty(),
        })
    }

    fn with_record(&self, place: &str, leased: &LeasedPort) -> IpWork {
        if leased.lease.provider != self.provider {
            let provider = &leased.lease.provider;
            return IpWork::with_problem(format!(
                "the lease belongs to provider {provider}, and this operator serves {} (--provider)",
                self.provider
            ));
        }
        if let Some(other) = self.leftover_of(place, leased) {
            return IpWork::with_problem(format!(
                "Service {other} uses this port of the address until its deletion"
            ));
        }
        match self.write(place, leased) {
            Ok(write) => IpWork {
                write,
                ..IpWork::default()
            },
            Err(problem) => IpWork::with_problem(problem),
        }
    }

    /// Returns the write for a Service, or `None` if the Service is in the desired state.
    fn write(&self, place: &str, leased: &LeasedPort) -> Result<Option<ServiceWrite>, String> {
        let body = self.mode.render(leased);
        let Some(live) = self.live(place) else {
            let write = ServiceWrite {
                body,
                uid: None,
                take_over: false,
                at: String::new(),
            };
            return Ok(Some(write));
        };
        if !live.is_leased || live.lease.as_ref() != Some(&leased.lease) {
            return Err(
                "a Service of another client has this name, and its labels name no leased address of this lease; the \
                 operator does not change that Service, and the address serves no traffic until that Service is deleted"
                    .to_owned(),
            );
        }
        if live.is_going {
            return Err("the Service is being deleted; it is created again after the deletion".to_owned());
        }
        let body = with_class(body, live.class.as_deref());
        Ok(live.differs(&body).map(|difference| ServiceWrite {
            body,
            uid: Some(live.uid.clone()),
            take_over: difference.is_surplus,
            at: difference.at,
        }))
    }

    /// Returns an undeclared Service with the port and the address of `leased`, if any.
    fn leftover_of(&self, place: &str, leased: &LeasedPort) -> Option<&ObjectName> {
        let seat = object_name(&leased.ip);
        let others = self.seats.get(&seat)?.iter().filter(|other| *other != place);
        others
            .filter_map(|other| Some((other, self.live(other)?)))
            .find(|(other, live)| {
                live.is_leased && self.is_ours(other, live) && self.claims_of(other).next().is_none()
            })
            .map(|(other, _)| other)
    }

    fn claims_of(&self, place: &str) -> impl Iterator<Item = &ObjectName> {
        self.claims.get(place).into_iter().flatten()
    }

    /// Returns true if an invalid record possibly declares this Service.
    fn may_be_declared(&self, place: &str, live: &LiveService) -> bool {
        let bad = |fact: &DecodedRecord| fact.as_ref().err().cloned();
        let records = self.records.iter().flatten();
        let mut bad = records.filter_map(|(name, fact)| Some((name, bad(fact)?)));
        let seat = live.seat();
        bad.any(|(name, bad): (&ObjectName, InvalidRecord)| {
            bad.place.as_deref() == Some(place) || seat.as_ref().is_none_or(|seat| seat == name)
        })
    }

    fn is_of_provider(&self, live: &LiveService) -> bool {
        live.lease.as_ref().is_some_and(|l| l.provider == self.provider)
    }

    fn is_ours(&self, place: &str, live: &LiveService) -> bool {
        let home = place.split_once('/').map(|(namespace, _)| namespace);
        let lies_at_home = live.lease.as_ref().map(|lease| lease.namespace()).as_deref() == home;
        self.has_records && self.is_of_provider(live) && lies_at_home
    }

    fn apply_records(&mut self, change: ObjectChange<ObjectName, DecodedRecord>) -> BTreeSet<ObjectName> {
        let of_us = |fact: &DecodedRecord| fact.as_ref().is_ok_and(|l| l.lease.provider == self.provider);
        let had = self.has_records;
        // Never reset: the last record of a provider may be deleted before its Services.
        self.has_records |= change.values().any(of_us);
        let records = self.records.iter().flatten();
        let before: BTreeMap<ObjectName, DecodedRecord> = match &change {
            ObjectChange::Listed(_) => records.map(|(k, v)| (k.clone(), v.clone())).collect(),
            ObjectChange::Put(name, _) | ObjectChange::Gone(name, _) => {
                let old = self.records.as_ref().and_then(|all| all.get(name)).cloned();
                old.map(|old| (name.clone(), old)).into_iter().collect()
            }
        };
        let was_listed = self.records.is_some();
        let names = changed(&mut self.records, change);
        let mut touched = BTreeSet::new();
        for name in names {
            if self.records.as_ref().is_some_and(|all| all.contains_key(&name)) {
                self.removed.remove(&name);
            } else if was_listed {
                self.removed.insert(name.clone());
            }
            touched.extend(self.claim(&name, before.get(&name)));
            touched.insert(name);
        }
        if had == self.has_records {
            touched
        } else {
            self.names()
        }
    }

    /// Updates `claims` after a change of the record `name`; returns the affected Services.
    fn claim(&mut self, name: &ObjectName, old: Option<&DecodedRecord>) -> BTreeSet<ObjectName> {
        let place = |fact: &DecodedRecord| match fact {
            Ok(leased) => Some(leased.place()),
            Err(bad) => bad.place.clone(),
        };
        let mut touched: BTreeSet<ObjectName> = old.and_then(place).into_iter().collect();
        if let Some(Ok(leased)) = old {
            let place = leased.place();
            let claims = self.claims.entry(place.clone()).or_default();
            claims.remove(name);
            if claims.is_empty() {
                self.claims.remove(&place);
            }
        }
        let new = self.records.as_ref().and_then(|all| all.get(name)).cloned();
        if let Some(Ok(leased)) = &new {
            self.claims
                .entry(leased.place())
                .or_default()
                .insert(name.clone());
        }
        touched.extend(new.as_ref().and_then(place));
        // A record is named after its seat. Services with that seat, and Services without a seat, may be affected.
        touched.extend(self.seats.get(name).into_iter().flatten().cloned());
        if matches!(old, Some(Err(_))) {
            let services = self.services.iter().flatten();
            let seatless = services.filter(|(_, live)| live.is_leased && live.seat().is_none());
            touched.extend(seatless.map(|(place, _)| place.clone()));
        }
        touched
    }

    fn apply_manifests(
        &mut self,
        change: ObjectChange<ObjectName, Option<DeclaredIps>>,
    ) -> BTreeSet<ObjectName> {
        let had = self.has_records;
        let is_ours = |declares: &DeclaredIps| declares.provider == self.provider;
        self.has_records |= change.values().flatten().any(is_ours);
        changed(&mut self.manifests, change);
        // Services without a record may be deleted once their provider is certain.
        if had == self.has_records {
            BTreeSet::new()
        } else {
            self.names()
        }
    }

    fn apply_services(&mut self, change: ObjectChange<ObjectName, LiveService>) -> BTreeSet<ObjectName> {
        match change {
            ObjectChange::Listed(all) => {
                let before = self.services.replace(BTreeMap::new()).unwrap_or_default();
                self.seats.clear();
                let mut touched = BTreeSet::new();
                let names: BTreeSet<ObjectName> = before.keys().chain(all.keys()).cloned().collect();
                for (place, live) in all {
                    let live = live.after(before.get(&place));
                    self.put_service(&place, Some(live));
                }
                for place in names {
                    let (old, new) = (before.get(&place), self.live(&place));
                    if old != new {
                        touched.extend(self.touched_by(&place, old));
                        touched.extend(self.touched_by(&place, new));
                    }
                }
                touched
            }
            // Versions of one kind are ordered, so an event from before the writer's own write is dropped.
            ObjectChange::Put(place, live) => {
                let current = self.live(&place);
                if current.is_some_and(|current| live.version < current.version) {
                    return BTreeSet::new();
                }
                let live = live.after(current);
                self.put_service(&place, Some(live))
            }
            ObjectChange::Gone(place, last) => {
                let current = self.live(&place).map_or(0, |current| current.version);
                if last.version < current {
                    return BTreeSet::new();
                }
                self.put_service(&place, None)
            }
        }
    }

    /// Stores the Service that this operator has written. `live` contains no status, so the known addresses
    /// of the Service are retained.
    fn apply_written(&mut self, place: &ObjectName, mut live: LiveService) -> BTreeSet<ObjectName> {
        let current = self.live(place);
        if current.is_some_and(|current| live.version < current.version) {
            return BTreeSet::new();
        }
        if let Some(current) = current.filter(|current| current.uid == live.uid) {
            live.given = current.given.clone();
        }
        let live = live.after(current);
        self.put_service(place, Some(live))
    }

    fn put_service(&mut self, place: &ObjectName, live: Option<LiveService>) -> BTreeSet<ObjectName> {
        let Some(services) = &mut self.services else {
            // The first list contains this object too.
            return BTreeSet::new();
        };
        let live = live.filter(|live| live.is_leased || live.is_balancer);
        let seat = |live: &LiveService| live.seat().filter(|_| live.is_leased);
        let new = live.clone();
        let old = match live {
            Some(live) => services.insert(place.clone(), live),
            None => services.remove(place),
        };
        if let Some(seat) = old.as_ref().and_then(seat)
            && let Some(places) = self.seats.get_mut(&seat)
        {
            places.remove(place);
            if places.is_empty() {
                self.seats.remove(&seat);
            }
        }
        if let Some(seat) = new.as_ref().and_then(seat) {
            self.seats.entry(seat).or_default().insert(place.clone());
        }
        if old.is_none() && new.is_none() {
            return BTreeSet::new();
        }
        let mut touched = self.touched_by(place, old.as_ref());
        touched.extend(self.touched_by(place, new.as_ref()));
        touched
    }

    fn touched_by(&self, place: &ObjectName, live: Option<&LiveService>) -> BTreeSet<ObjectName> {
        let record = live.and_then(LiveService::seat);
        let record = record.and_then(|seat| self.records.as_ref()?.get(&seat)?.as_ref().ok());
        let waiting = record.map(LeasedPort::place);
        waiting.into_iter().chain([place.clone()]).collect()
    }
}

impl OperatorIndex for IpIndex {
    type Event = IpEvent;
    type Work = IpWork;
    const PROBLEM: &'static str = "leased address has no valid Service";

    /// Applies an event and returns the names to reconcile.
    fn apply(&mut self, event: IpEvent) -> BTreeSet<ObjectName> {
        match event {
            IpEvent::Records(change) => self.apply_records(change),
            IpEvent::Manifests(change) => self.apply_manifests(change),
            IpEvent::Services(change) => self.apply_services(change),
            IpEvent::Pools(change) => {
                changed(&mut self.pools, change);
                BTreeSet::new()
            }
            IpEvent::Written(place, live) => self.apply_written(&place, live),
            IpEvent::Deleted(place, uid) => {
                // A Service that was created again under the name has another UID.
                let is_it = self.live(&place).is_some_and(|live| live.uid == uid);
                if is_it {
                    self.put_service(&place, None)
                } else {
                    BTreeSet::from([place])
                }
            }
        }
    }

    /// Returns true after records, Manifests and Services were listed. Pools are optional.
    fn is_known(&self) -> bool {
        self.records.is_some() && self.manifests.is_some() && self.services.is_some()
    }

    /// Returns the declared Services, the existing Services of this provider's leased addresses, and the
    /// names of invalid records.
    fn names(&self) -> BTreeSet<ObjectName> {
        let services = self.services.iter().flatten();
        let ours = services.filter(|(_, live)| live.is_leased && self.is_of_provider(live));
        let bad = self.records.iter().flatten().filter(|(_, fact)| fact.is_err());
        let all = self.claims.keys().chain(ours.map(|(place, _)| place));
        all.chain(bad.map(|(name, _)| name)).cloned().collect()
    }

    /// Returns the work for a Service.
    fn work(&self, name: &str) -> IpWork {
        if !self.is_known() {
            return IpWork::default();
        }
        if let Some(Err(bad)) = self.records.as_ref().and_then(|all| all.get(name)) {
            return IpWork::with_problem(format!("invalid record: {}", bad.problem));
        }
        let claims: Vec<&str> = self.claims_of(name).map(String::as_str).collect();
        match (claims.as_slice(), self.leased(name)) {
            ([], _) => self.without_record(name),
            (_, Some(leased)) => self.with_record(name, leased),
            (several, None) => IpWork::with_problem(format!(
                "several records declare the Service: {}; delete all but one",
                several.join(" and ")
            )),
        }
    }

    /// Returns the number of ProviderLeasedIP records, valid or not.
    fn declared(&self) -> usize {
        self.records.as_ref().map_or(0, BTreeMap::len)
    }

    /// Drops a removed record after the last Service of the record is deleted.
    fn prune(&mut self) {
        let seats = &self.seats;
        self.removed.retain(|name| seats.contains_key(name));
    }

    fn needs(&self, watch: &str) -> bool {
        // Services are written without a known number of addresses.
        watch != POOLS
    }
}

impl Work for IpWork {
    /// Returns true if there is nothing to do.
    fn is_done(&self) -> bool {
        self.write.is_none() && self.delete.is_none()
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn bodies(&self) -> Vec<&Value> {
        self.write.iter().map(|write| &write.body).collect()
    }

    fn missing(&self) -> Option<&MissingRecord> {
        self.missing.as_ref()
    }

    fn withhold(&mut self, why: String) {
        self.delete = None;
        self.problem = Some(why);
    }
}

/// Sets the load balancer class in `body` to `class`, the class of the existing Service. Kubernetes permits
/// no change of this class.
fn with_class(mut body: Value, class: Option<&str>) -> Value {
    if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
        match class {
            Some(class) => drop(spec.insert("loadBalancerClass".to_owned(), class.into())),
            None => drop(spec.remove("loadBalancerClass")),
        }
    }
    body
}

#[cfg(test)]
mod tests;
