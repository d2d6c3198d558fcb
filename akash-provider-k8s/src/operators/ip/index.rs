//! The pure index: what the watches say goes in, what is to be done about each load balancer comes out. It has no clock
//! and no network.
//!
//! A record is named after its seat: the key of the address, the protocol and the port. So a seat is declared once, and
//! leads to one Service of one lease or to none. Two Services cannot have one seat, so that the one a seat leaves goes
//! before the other is made. A list counts when it is complete; until records, manifests and Services were listed once,
//! nothing is to be done. A Service is ours to delete when its labels name a lease of our provider, whose records are
//! here, and it lies in that lease's namespace.

use super::balancer::Mode;
use super::facts::{Bad, Declares, Fact, Leased};
use super::live::Live;
use super::pool::Pool;
use crate::operators::change::{Change, changed};
use crate::operators::guard::MissingRecord;
use akash_provider_core::types::Address;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A name as an object's metadata have it, or a Service as `NAMESPACE/NAME`.
type Name = String;

/// What a watch says.
#[derive(Debug, Clone, PartialEq, Hash)]
pub enum Event {
    /// Of the records, by their names.
    Records(Change<Name, Fact>),
    /// Of the manifests, by their names: what they declare, where they name their lease.
    Manifests(Change<Name, Option<Declares>>),
    /// Of all Services of the cluster, by namespace and name.
    Services(Change<Name, Live>),
    /// Of MetalLB's pools, by their names.
    Pools(Change<Name, Pool>),
    /// A Service was written by us.
    Written(Name, Live),
    /// A Service of this place and identity was deleted by us.
    Deleted(Name, String),
}

/// What the cluster has, and what is to be done about it.
#[derive(Debug, Clone)]
pub struct Index {
    provider: Address,
    mode: Mode,
    records: Option<BTreeMap<Name, Fact>>,
    /// Which records declare a Service.
    claims: BTreeMap<Name, BTreeSet<Name>>,
    manifests: Option<BTreeMap<Name, Option<Declares>>>,
    /// Load balancers, and whatever has the labels of one of ours.
    services: Option<BTreeMap<Name, Live>>,
    /// Which Services have a seat.
    seats: BTreeMap<Name, BTreeSet<Name>>,
    pools: Option<BTreeMap<Name, Pool>>,
    /// Our provider's records are or were here.
    has_records: bool,
    /// Records that were removed after the start.
    removed: BTreeSet<Name>,
}

/// What is to be done about a Service. Nothing where everything is as it is to be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// The Service that is to be written.
    pub write: Option<Write>,
    /// Identity of the Service that is to go.
    pub delete: Option<String>,
    /// What keeps it from being as declared.
    pub problem: Option<String>,
    /// The missing record, if its absence is the only reason for `delete`.
    pub missing: Option<MissingRecord>,
}

/// A Service that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The whole object, as it is applied.
    pub body: Value,
    /// Identity of the object that is there.
    pub uid: Option<String>,
    /// What another provider's operator wrote has to become ours first.
    pub take_over: bool,
    /// The first field that differs; empty for one that is new.
    pub at: String,
}

impl Work {
    /// True when there is nothing to do.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.write.is_none() && self.delete.is_none()
    }

    fn kept(problem: impl Into<String>) -> Self {
        Self {
            problem: Some(problem.into()),
            ..Self::default()
        }
    }
}

impl Index {
    /// An index that knows nothing yet, and of which nothing is to be done.
    #[must_use]
    pub const fn new(provider: Address, mode: Mode) -> Self {
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

    /// Whose leases are served.
    #[must_use]
    pub const fn provider(&self) -> &Address {
        &self.provider
    }

    /// How leased addresses become load balancers.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// True once everything was listed that decides what is written. Pools do not: a cluster may have none.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.records.is_some() && self.manifests.is_some() && self.services.is_some()
    }

    /// Takes an event; the names of which something may have to be done anew, once everything is known.
    pub fn apply(&mut self, event: Event) -> BTreeSet<Name> {
        match event {
            Event::Records(change) => self.apply_records(change),
            Event::Manifests(change) => self.apply_manifests(change),
            Event::Services(change) => self.apply_services(change),
            Event::Pools(change) => {
                changed(&mut self.pools, change);
                BTreeSet::new()
            }
            Event::Written(place, live) => self.apply_written(&place, live),
            Event::Deleted(place, uid) => {
                // A Service that was made anew under the name is another one, and stays.
                let is_it = self.live(&place).is_some_and(|live| live.uid == uid);
                if is_it {
                    self.put_service(&place, None)
                } else {
                    BTreeSet::from([place])
                }
            }
        }
    }

    /// All Services that are declared or there, and records that make no sense.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        let services = self.services.iter().flatten();
        let ours = services.filter(|(_, live)| live.is_leased && self.is_of_provider(live));
        let bad = self.records.iter().flatten().filter(|(_, fact)| fact.is_err());
        let all = self.claims.keys().chain(ours.map(|(place, _)| place));
        all.chain(bad.map(|(name, _)| name)).cloned().collect()
    }

    /// Number of records, readable or not.
    #[must_use]
    pub fn declared(&self) -> usize {
        self.records.as_ref().map_or(0, BTreeMap::len)
    }

    /// What is declared for a Service; `None` where nothing is, or more than one thing.
    #[must_use]
    pub fn leased(&self, place: &str) -> Option<&Leased> {
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

    /// A Service, where it is a load balancer or has the labels of one of ours.
    #[must_use]
    pub fn live(&self, place: &str) -> Option<&Live> {
        self.services.as_ref()?.get(place)
    }

    /// Services were listed once.
    pub(super) const fn has_services(&self) -> bool {
        self.services.is_some()
    }

    /// All load balancers, whoever made them, and what else has the labels of ours.
    pub fn services(&self) -> impl Iterator<Item = (&Name, &Live)> {
        self.services.iter().flatten()
    }

    /// The pools there are; `None` where that is not known.
    #[must_use]
    pub const fn pools(&self) -> Option<&BTreeMap<Name, Pool>> {
        self.pools.as_ref()
    }

    /// What is to be done about a Service.
    #[must_use]
    pub fn work(&self, name: &str) -> Work {
        if !self.is_known() {
            return Work::default();
        }
        if let Some(Err(bad)) = self.records.as_ref().and_then(|all| all.get(name)) {
            return Work::kept(format!("the record makes no sense: {}", bad.problem));
        }
        let claims: Vec<&str> = self.claims_of(name).map(String::as_str).collect();
        match (claims.as_slice(), self.leased(name)) {
            ([], _) => self.without_record(name),
            (_, Some(leased)) => self.with_record(name, leased),
            (several, None) => Work::kept(format!(
                "it is declared by {}, and can have one address; nothing is done until one of them goes",
                several.join(" and ")
            )),
        }
    }

    /// The record is gone: it is in no complete list, or a watch said so.
    fn without_record(&self, place: &str) -> Work {
        let Some(live) = self
            .live(place)
            .filter(|live| live.is_leased && self.is_of_provider(live))
        else {
            return Work::default();
        };
        if live.is_going {
            return Work::default();
        }
        if !self.is_ours(place, live) {
            return Work::kept(
                "it has no record, and it is not certain that it is of this provider: there is no record of the \
                 provider in this namespace, or it lies outside of its lease's; whoever made it has to delete it",
            );
        }
        if self.may_be_declared(place, live) {
            return Work::kept(
                "a record that makes no sense may speak of it; it stays until that is mended or goes",
            );
        }
        // A seat with a record has moved to another Service.
        let key = live.seat().unwrap_or_else(|| place.to_owned());
        let has_moved = self.records.as_ref().is_some_and(|all| all.contains_key(&key));
        let has_reason = self.removed.contains(&key) || self.has_given_up(place, live);
        Work {
            delete: Some(live.uid.clone()),
            missing: (!has_moved).then_some(MissingRecord { key, has_reason }),
            ..Work::default()
        }
    }

    /// True if the Manifest of the lease is there and declares no such port of an address.
    fn has_given_up(&self, place: &str, live: &Live) -> bool {
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

    fn with_record(&self, place: &str, leased: &Leased) -> Work {
        if leased.lease.provider != self.provider {
            let provider = &leased.lease.provider;
            return Work::kept(format!(
                "its lease is of provider {provider}, and this operator is of {}; --provider says of whom",
                self.provider
            ));
        }
        if let Some(other) = self.leftover_of(place, leased) {
            return Work::kept(format!(
                "its port is on its address already, by Service {other}, which has to be gone before"
            ));
        }
        match self.write(place, leased) {
            Ok(write) => Work {
                write,
                ..Work::default()
            },
            Err(problem) => Work::kept(problem),
        }
    }

    /// `None` when the Service is there as wanted.
    fn write(&self, place: &str, leased: &Leased) -> Result<Option<Write>, String> {
        let body = self.mode.render(leased);
        let Some(live) = self.live(place) else {
            let write = Write {
                body,
                uid: None,
                take_over: false,
                at: String::new(),
            };
            return Ok(Some(write));
        };
        if !live.is_leased || live.lease.as_ref() != Some(&leased.lease) {
            return Err(
                "somebody else's Service has its name: the labels name no leased address of this lease; it is not \
                 touched, and nothing leads there until it is deleted"
                    .to_owned(),
            );
        }
        if live.is_going {
            return Err("its Service is just being deleted; it is made again when that is gone".to_owned());
        }
        let body = with_class(body, live.class.as_deref());
        Ok(live.differs(&body).map(|difference| Write {
            body,
            uid: Some(live.uid.clone()),
            take_over: difference.is_surplus,
            at: difference.at,
        }))
    }

    /// Another Service of ours that has the port of the address and is to go.
    fn leftover_of(&self, place: &str, leased: &Leased) -> Option<&Name> {
        let seat = crate::leased_ips::object_name(&leased.ip);
        let others = self.seats.get(&seat)?.iter().filter(|other| *other != place);
        others
            .filter_map(|other| Some((other, self.live(other)?)))
            .find(|(other, live)| {
                live.is_leased && self.is_ours(other, live) && self.claims_of(other).next().is_none()
            })
            .map(|(other, _)| other)
    }

    fn claims_of(&self, place: &str) -> impl Iterator<Item = &Name> {
        self.claims.get(place).into_iter().flatten()
    }

    /// A record that cannot be read may be the one of this Service.
    fn may_be_declared(&self, place: &str, live: &Live) -> bool {
        let bad = |fact: &Fact| fact.as_ref().err().cloned();
        let records = self.records.iter().flatten();
        let mut bad = records.filter_map(|(name, fact)| Some((name, bad(fact)?)));
        let seat = live.seat();
        bad.any(|(name, bad): (&Name, Bad)| {
            bad.place.as_deref() == Some(place) || seat.as_ref().is_none_or(|seat| seat == name)
        })
    }

    fn is_of_provider(&self, live: &Live) -> bool {
        live.lease.as_ref().is_some_and(|l| l.provider == self.provider)
    }

    fn is_ours(&self, place: &str, live: &Live) -> bool {
        let home = place.split_once('/').map(|(namespace, _)| namespace);
        let lies_at_home = live.lease.as_ref().map(|lease| lease.namespace()).as_deref() == home;
        self.has_records && self.is_of_provider(live) && lies_at_home
    }

    fn apply_records(&mut self, change: Change<Name, Fact>) -> BTreeSet<Name> {
        let of_us = |fact: &Fact| fact.as_ref().is_ok_and(|l| l.lease.provider == self.provider);
        let had = self.has_records;
        // Never taken back: the last record of a provider may go before its Services do.
        self.has_records |= change.values().any(of_us);
        let records = self.records.iter().flatten();
        let before: BTreeMap<Name, Fact> = match &change {
            Change::Listed(_) => records.map(|(k, v)| (k.clone(), v.clone())).collect(),
            Change::Put(name, _) | Change::Gone(name, _) => {
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

    /// Has the claims follow a record; the Services that it may decide.
    fn claim(&mut self, name: &Name, old: Option<&Fact>) -> BTreeSet<Name> {
        let place = |fact: &Fact| match fact {
            Ok(leased) => Some(leased.place()),
            Err(bad) => bad.place.clone(),
        };
        let mut touched: BTreeSet<Name> = old.and_then(place).into_iter().collect();
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
        // A record is named after its seat: whoever has that, and whoever has none, may have to stay or go.
        touched.extend(self.seats.get(name).into_iter().flatten().cloned());
        if matches!(old, Some(Err(_))) {
            let services = self.services.iter().flatten();
            let seatless = services.filter(|(_, live)| live.is_leased && live.seat().is_none());
            touched.extend(seatless.map(|(place, _)| place.clone()));
        }
        touched
    }

    fn apply_manifests(&mut self, change: Change<Name, Option<Declares>>) -> BTreeSet<Name> {
        let had = self.has_records;
        let is_ours = |declares: &Declares| declares.provider == self.provider;
        self.has_records |= change.values().flatten().any(is_ours);
        changed(&mut self.manifests, change);
        // What lies about without a record may go once it is certain whose it is.
        if had == self.has_records {
            BTreeSet::new()
        } else {
            self.names()
        }
    }

    /// Removes stored records without an object.
    pub(super) fn prune(&mut self) {
        let seats = &self.seats;
        self.removed.retain(|name| seats.contains_key(name));
    }

    fn apply_services(&mut self, change: Change<Name, Live>) -> BTreeSet<Name> {
        match change {
            Change::Listed(all) => {
                let before = self.services.replace(BTreeMap::new()).unwrap_or_default();
                self.seats.clear();
                let mut touched = BTreeSet::new();
                let names: BTreeSet<Name> = before.keys().chain(all.keys()).cloned().collect();
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
            // Versions of one kind are in order, so that an event from before our own write changes nothing.
            Change::Put(place, live) => {
                let known = self.live(&place);
                if known.is_some_and(|known| live.version < known.version) {
                    return BTreeSet::new();
                }
                let live = live.after(known);
                self.put_service(&place, Some(live))
            }
            Change::Gone(place, last) => {
                let known = self.live(&place).map_or(0, |known| known.version);
                if last.version < known {
                    return BTreeSet::new();
                }
                self.put_service(&place, None)
            }
        }
    }

    /// What it had been given it has still: the answer to a write does not say.
    fn apply_written(&mut self, place: &Name, mut live: Live) -> BTreeSet<Name> {
        let known = self.live(place);
        if known.is_some_and(|known| live.version < known.version) {
            return BTreeSet::new();
        }
        if let Some(known) = known.filter(|known| known.uid == live.uid) {
            live.given = known.given.clone();
        }
        let live = live.after(known);
        self.put_service(place, Some(live))
    }

    fn put_service(&mut self, place: &Name, live: Option<Live>) -> BTreeSet<Name> {
        let Some(services) = &mut self.services else {
            // Before the first list nothing counts, and that list has it too.
            return BTreeSet::new();
        };
        let live = live.filter(|live| live.is_leased || live.is_balancer);
        let seat = |live: &Live| live.seat().filter(|_| live.is_leased);
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

    /// Itself, and who waits for its port of the address.
    fn touched_by(&self, place: &Name, live: Option<&Live>) -> BTreeSet<Name> {
        let record = live.and_then(Live::seat);
        let record = record.and_then(|seat| self.records.as_ref()?.get(&seat)?.as_ref().ok());
        let waiting = record.map(Leased::place);
        waiting.into_iter().chain([place.clone()]).collect()
    }
}

/// The class of a Service that is there is left as it is: it cannot change.
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
