//! Explores every sequence of steps around a change of mode, up to a depth. The operator restarts in the
//! other mode, and controllers accept or refuse objects. Kinds are removed and restored, hostnames move, and
//! events are late or missed. A hostname never loses its only route, a route never references a missing
//! object, and every sequence ends in the state of a fresh start.

use super::*;
use crate::explore::{PendingEvents, World as Explored, explore};
use crate::hostname::certificate::{Issuer, IssuerKind};
use crate::operator_state::names_to_reconcile;
use std::hash::{DefaultHasher, Hash};

const DEPTH: usize = 3;
/// Wildcard hostname, handled like any other hostname.
const WIDE: &str = "*.example.com";
/// Hostname that matches the wildcard. No step declares or removes this hostname.
const NEAR: &str = "a.example.com";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The operator restarts and changes between Ingress mode and Gateway mode.
    Switches,
    /// A record declares the hostname for the second lease of the tenant.
    Second,
    /// A record declares the hostname for a lease of another tenant.
    OtherTenant,
    /// The record of the hostname is removed.
    Undeclared,
    /// The Manifest of the first lease gets different HTTP options.
    Options,
    /// Controllers set an accepting status on all objects.
    Accepted,
    /// Controllers refuse all objects that have no status yet.
    Refused,
    /// The definition of the filter kind is removed, or a removed definition is restored.
    Filters,
    /// The index receives all pending events.
    Arrives,
    /// The index misses all pending events and receives a new list of all objects.
    Missed,
    /// The handover time passes, so routes of the other mode may be deleted.
    Waits,
    /// The writer reconciles all names that the index returns.
    Works,
}

const STEPS: [Step; 12] = [
    Step::Switches,
    Step::Second,
    Step::OtherTenant,
    Step::Undeclared,
    Step::Options,
    Step::Accepted,
    Step::Refused,
    Step::Filters,
    Step::Arrives,
    Step::Missed,
    Step::Waits,
    Step::Works,
];

fn ingress() -> RoutePlan {
    RoutePlan {
        issuer: Some(Issuer {
            name: "letsencrypt".to_owned(),
            kind: IssuerKind::ClusterIssuer,
        }),
        ..RoutePlan::default()
    }
}

fn gateway() -> RoutePlan {
    RoutePlan::from(Mode::GatewayApi {
        name: "gate".to_owned(),
        namespace: "gates".to_owned(),
        provider: GatewayProvider::Nginx,
        buffer_size: "16k".to_owned(),
    })
}

#[derive(Clone)]
struct World {
    plan: RoutePlan,
    hosts: BTreeMap<Name, DecodedRecord<Host>>,
    manifests: BTreeMap<Name, DecodedRecord<Exposes>>,
    objects: BTreeMap<ObjectKind, BTreeMap<ObjectKey, LiveObject>>,
    has_filters: bool,
    version: u64,
    pending: PendingEvents<HostnameEvent>,
    index: HostnameIndex,
    time_passed: bool,
}

impl World {
    fn new(plan: RoutePlan) -> Self {
        let leases = [lease(1, 1), lease(1, 2), lease(2, 3)];
        let manifests = leases.iter().map(|l| (l.namespace(), Ok(exposes(l, 60_000))));
        let hosts = [WIDE, NEAR].map(|name| (name.to_owned(), Ok(host(&leases[0]))));
        let mut world = Self {
            index: HostnameIndex::new(plan.clone()),
            plan,
            hosts: hosts.into(),
            manifests: manifests.collect(),
            objects: ObjectKind::ALL.map(|sort| (sort, BTreeMap::new())).into(),
            has_filters: true,
            version: 1,
            pending: PendingEvents::default(),
            time_passed: false,
        };
        world.settle(Step::Missed);
        world
    }

    fn list(&mut self) {
        self.pending.waiting.clear();
        self.receive(HostnameEvent::Hosts(ObjectChange::Listed(self.hosts.clone())));
        self.receive(HostnameEvent::Manifests(ObjectChange::Listed(
            self.manifests.clone(),
        )));
        for (sort, all) in self.objects.clone() {
            let event = match sort {
                ObjectKind::Filter if !self.has_filters => HostnameEvent::Absent(sort),
                _ => HostnameEvent::Objects(sort, ObjectChange::Listed(all)),
            };
            self.receive(event);
        }
    }

    fn declare(&mut self, lease: &LeaseId) {
        self.hosts.insert(WIDE.to_owned(), Ok(host(lease)));
        let event = HostnameEvent::Hosts(ObjectChange::Put(WIDE.to_owned(), Ok(host(lease))));
        self.pending.waiting.push(event);
    }

    fn controllers(&mut self, accepts: bool) {
        for (sort, all) in &mut self.objects {
            for (place, live) in all {
                let is_change = match (accepts, &live.accepted) {
                    (true, acceptance) => *acceptance != Acceptance::Yes,
                    (false, acceptance) => *acceptance == Acceptance::Unknown,
                };
                // Ingress controllers report no conditions.
                if !is_change || *sort == ObjectKind::Ingress {
                    continue;
                }
                self.version += 1;
                live.version = self.version;
                live.accepted = if accepts {
                    Acceptance::Yes
                } else {
                    Acceptance::No("why".to_owned())
                };
                let event = HostnameEvent::Objects(*sort, ObjectChange::Put(place.clone(), live.clone()));
                self.pending.waiting.push(event);
            }
        }
    }

    fn writes(&mut self, name: &str, write: &HostnameWrite) {
        if write.sort == ObjectKind::Filter && !self.has_filters {
            // The API server refuses the filter, and the hostname is retried.
            return;
        }
        self.version += 1;
        let place = (write.namespace.clone(), name.to_owned());
        let live = written(&write.body, self.version);
        self.objects
            .get_mut(&write.sort)
            .unwrap()
            .insert(place.clone(), live.clone());
        let event = HostnameEvent::Objects(write.sort, ObjectChange::Put(place, live));
        self.pending.waiting.push(event.clone());
        self.receive(event);
        self.check_references(name);
    }

    fn deletes(&mut self, name: &str, gone: &Delete) {
        self.check_delete(name, gone);
        self.version += 1;
        let place = (gone.namespace.clone(), name.to_owned());
        if let Some(mut live) = self.objects.get_mut(&gone.sort).unwrap().remove(&place) {
            live.version = self.version;
            let event = HostnameEvent::Objects(gone.sort, ObjectChange::Gone(place.clone(), live));
            self.pending.waiting.push(event);
        }
        self.receive(HostnameEvent::Deleted(gone.sort, place, gone.uid.clone()));
        self.check_references(name);
    }

    /// Checks that a route of the other ingress mode is not deleted before the new route works.
    fn check_delete(&self, name: &str, gone: &Delete) {
        let (Some(Ok(host)), main) = (self.index.host(name), self.plan.mode.sort()) else {
            return;
        };
        let place = (gone.namespace.clone(), name.to_owned());
        let old = self.objects[&gone.sort].get(&place);
        if gone.sort != self.plan.mode.other()
            || old.and_then(|old| old.lease.as_ref()).map(LeaseId::owner) != Some(host.lease.owner())
        {
            return;
        }
        let new = self.objects[&main].get(&(host.namespace.clone(), name.to_owned()));
        let new = new.unwrap_or_else(|| panic!("hostname {name} has no route"));
        let serves = match main {
            ObjectKind::HttpRoute => new.accepted == Acceptance::Yes,
            _ => self.time_passed,
        };
        assert!(
            serves,
            "hostname {name} loses its route before the new route serves requests: {new:?}"
        );
    }

    fn check_references(&self, name: &str) {
        for sort in [ObjectKind::Filter, ObjectKind::Certificate] {
            let gone = sort == ObjectKind::Filter && !self.has_filters;
            for (place, route) in self.objects[&sort.route()]
                .iter()
                .filter(|((_, of), _)| of == name)
            {
                let is_there = gone || self.objects[&sort].contains_key(place);
                // Filters that were removed with their kind are created again when the index lists their kind.
                let goes = |event: &HostnameEvent| *event == HostnameEvent::Absent(ObjectKind::Filter);
                let is_late =
                    self.index.live(sort, name, &place.0).is_none() || self.pending.waiting.iter().any(goes);
                assert!(
                    !route.refers_to(sort, name) || is_there || is_late,
                    "{sort:?} of {name} is missing"
                );
            }
        }
    }
}

impl Explored for World {
    type Step = Step;
    type Event = HostnameEvent;
    type Outcome = BTreeMap<(ObjectKind, ObjectKey), LiveObject>;
    const STEPS: &'static [Step] = &STEPS;
    const ENDS: &'static [Step] = &[Step::Arrives, Step::Missed];

    fn take(&mut self, step: Step) {
        match step {
            Step::Switches => {
                let is_ingress = self.plan.mode.sort() == ObjectKind::Ingress;
                self.plan = if is_ingress { gateway() } else { ingress() };
                self.index = HostnameIndex::new(self.plan.clone());
                self.pending.touched.clear();
                self.list();
            }
            Step::Second => self.declare(&lease(1, 2)),
            Step::OtherTenant => self.declare(&lease(2, 3)),
            Step::Undeclared => {
                if let Some(host) = self.hosts.remove(WIDE) {
                    self.pending
                        .waiting
                        .push(HostnameEvent::Hosts(ObjectChange::Gone(WIDE.to_owned(), host)));
                }
            }
            Step::Options => {
                let first = lease(1, 1);
                let fact: DecodedRecord<Exposes> = Ok(exposes(&first, 5_000));
                self.manifests.insert(first.namespace(), fact.clone());
                self.pending
                    .waiting
                    .push(HostnameEvent::Manifests(ObjectChange::Put(
                        first.namespace(),
                        fact,
                    )));
            }
            Step::Accepted => self.controllers(true),
            Step::Refused => self.controllers(false),
            Step::Filters => {
                self.has_filters = !self.has_filters;
                self.objects.insert(ObjectKind::Filter, BTreeMap::new());
                self.pending.waiting.push(if self.has_filters {
                    HostnameEvent::Objects(ObjectKind::Filter, ObjectChange::Listed(BTreeMap::new()))
                } else {
                    HostnameEvent::Absent(ObjectKind::Filter)
                });
            }
            Step::Arrives => self.arrive(1),
            Step::Missed => self.list(),
            Step::Waits => {
                self.time_passed = true;
                self.pending.touched = self.index.names();
                self.works();
                self.time_passed = false;
            }
            Step::Works => self.works(),
        }
    }

    fn pending(&mut self) -> &mut PendingEvents<HostnameEvent> {
        &mut self.pending
    }

    fn apply(&mut self, event: HostnameEvent) -> BTreeSet<Name> {
        names_to_reconcile(
            &mut self.index,
            HostnameIndex::is_known,
            |index| index.apply(event),
            HostnameIndex::names,
        )
    }

    fn works_on(&mut self, name: &str) {
        let mut work = self.index.work(name);
        if self.time_passed {
            work.deletes.append(&mut work.held);
        }
        for write in [&work.filter, &work.write].into_iter().flatten() {
            self.writes(name, write);
        }
        for gone in &work.deletes {
            self.deletes(name, gone);
        }
        if let Some(write) = &work.certificate {
            self.writes(name, write);
        }
    }

    fn identify(&self, state: &mut DefaultHasher) {
        (&self.hosts, &self.manifests, &self.objects, &self.pending).hash(state);
        (self.plan.mode.sort(), self.has_filters).hash(state);
        let index = &self.index;
        (&index.hosts, &index.manifests, &index.objects, &index.providers).hash(state);
    }

    fn versions(&mut self) -> Vec<&mut u64> {
        let pending_versions = self.pending.waiting.iter_mut().filter_map(version_in);
        let indexed = self.index.objects.values_mut().flat_map(ObjectTable::versions);
        let objects = self.objects.values_mut().flat_map(BTreeMap::values_mut);
        let objects = objects.map(|live| &mut live.version);
        [&mut self.version]
            .into_iter()
            .chain(pending_versions)
            .chain(indexed)
            .chain(objects)
            .collect()
    }

    fn restarted(&self) -> Self {
        let mut restarted = self.clone();
        restarted.index = HostnameIndex::new(restarted.plan.clone());
        restarted.pending.touched.clear();
        restarted.settle(Step::Missed);
        restarted
    }

    fn made(&self) -> BTreeMap<(ObjectKind, ObjectKey), LiveObject> {
        let of = |(sort, all): (&ObjectKind, &BTreeMap<ObjectKey, LiveObject>)| {
            let sort = *sort;
            let bare = all
                .iter()
                .map(move |(place, live)| ((sort, place.clone()), bare(live)));
            bare.collect::<Vec<_>>()
        };
        self.objects.iter().flat_map(of).collect()
    }

    /// Runs one round: controllers accept the objects, `end` is applied, and all work is done. Delayed
    /// deletions are done too.
    fn round(&mut self, end: Step) {
        self.controllers(true);
        for step in [end, Step::Works, Step::Waits] {
            self.take(step);
        }
    }

    fn check(&self) {
        for name in self.index.names() {
            let work = self.index.work(&name);
            assert!(work.is_done() && work.held.is_empty(), "{name}: {work:?}");
        }
        for (sort, all) in &self.objects {
            let wanted = self.plan.wants(*sort) && (*sort != ObjectKind::Filter || self.has_filters);
            for name in [WIDE, NEAR] {
                let places: Vec<_> = all.keys().filter(|(_, of)| of == name).collect();
                let host = self.hosts.get(name).and_then(|host| host.as_ref().ok());
                let expected = host
                    .filter(|_| wanted)
                    .map(|host| (host.namespace.clone(), name.to_owned()));
                assert_eq!(places, expected.iter().collect::<Vec<_>>(), "{sort:?}");
            }
        }
        // Accepted objects are referenced.
        for ((place, name), route) in &self.objects[&self.plan.mode.sort()] {
            for sort in [ObjectKind::Filter, ObjectKind::Certificate] {
                let is_there = self.objects[&sort].contains_key(&(place.clone(), name.clone()));
                assert_eq!(route.refers_to(sort, name), is_there, "{sort:?} of {name}");
            }
        }
    }
}

#[test]
fn no_sequence_of_events_around_a_change_of_mode_leaves_a_hostname_without_a_route() {
    let states: usize = [ingress(), gateway()]
        .into_iter()
        .map(|plan| explore(World::new(plan), DEPTH))
        .sum();
    assert!(states > 500, "{states}");
}
