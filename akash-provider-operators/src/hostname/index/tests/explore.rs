//! Explores every sequence of steps, up to a depth. Records are created, moved, removed and become invalid.
//! Events arrive once or twice, or are missed until the next list. Between two steps the writer may
//! reconcile, also from outdated state.

use super::*;
use crate::explore::{PendingEvents, World as Explored, explore};
use crate::operator_state::names_to_reconcile;
use std::hash::{DefaultHasher, Hash};

const DEPTH: usize = 4;
/// Hostname that stays declared: no step changes its record.
const BYSTANDER: &str = "other.example.com";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// A record declares the hostname for the first lease of the tenant.
    First,
    /// A record declares the hostname for the second lease of the tenant.
    Second,
    /// A record declares the hostname for a lease of another tenant.
    OtherTenant,
    /// The record of the hostname is removed.
    Undeclared,
    /// The record of the hostname becomes invalid.
    Garbage,
    /// The Manifest of the second lease gets different HTTP options.
    Options,
    /// The Manifest of the second lease is removed.
    NoManifest,
    /// The index receives all pending events in order.
    Arrives,
    /// The index receives each pending event twice.
    ArrivesTwice,
    /// The index misses all pending events and receives a new list of all objects.
    Missed,
    /// The writer reconciles all names that the index returns.
    Works,
}

const STEPS: [Step; 11] = [
    Step::First,
    Step::Second,
    Step::OtherTenant,
    Step::Undeclared,
    Step::Garbage,
    Step::Options,
    Step::NoManifest,
    Step::Arrives,
    Step::ArrivesTwice,
    Step::Missed,
    Step::Works,
];

#[derive(Clone)]
struct World {
    hosts: BTreeMap<Name, DecodedRecord<Host>>,
    manifests: BTreeMap<Name, DecodedRecord<Exposes>>,
    routes: BTreeMap<ObjectKey, LiveObject>,
    version: u64,
    pending: PendingEvents<HostnameEvent>,
    index: HostnameIndex,
    /// Whether the route of [`BYSTANDER`] exists. The test fails if the route is written again.
    bystander_is_written: bool,
}

impl World {
    fn new() -> Self {
        let leases = [lease(1, 1), lease(1, 2), lease(2, 3)];
        let manifests = leases.iter().map(|l| (l.namespace(), Ok(exposes(l, 60_000))));
        let mut world = Self {
            hosts: BTreeMap::from([(BYSTANDER.to_owned(), Ok(host(&leases[0])))]),
            manifests: manifests.collect(),
            routes: BTreeMap::new(),
            version: 1,
            pending: PendingEvents::default(),
            index: HostnameIndex::new(Mode::default()),
            bystander_is_written: false,
        };
        world.list();
        world.works();
        world.pending.waiting.clear();
        world.bystander_is_written = true;
        world
    }

    fn list(&mut self) {
        self.pending.waiting.clear();
        self.receive(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Listed(self.routes.clone()),
        ));
        self.receive(HostnameEvent::Hosts(ObjectChange::Listed(self.hosts.clone())));
        self.receive(HostnameEvent::Manifests(ObjectChange::Listed(
            self.manifests.clone(),
        )));
    }

    fn declare(&mut self, host: DecodedRecord<Host>) {
        self.hosts.insert(NAME.to_owned(), host.clone());
        self.pending
            .waiting
            .push(HostnameEvent::Hosts(ObjectChange::Put(NAME.to_owned(), host)));
    }
}

impl Explored for World {
    type Step = Step;
    type Event = HostnameEvent;
    type Outcome = BTreeMap<ObjectKey, LiveObject>;
    const STEPS: &'static [Step] = &STEPS;
    const ENDS: &'static [Step] = &[Step::Arrives, Step::Missed];

    fn take(&mut self, step: Step) {
        let second = lease(1, 2);
        match step {
            Step::First => self.declare(Ok(host(&lease(1, 1)))),
            Step::Second => self.declare(Ok(host(&second))),
            Step::OtherTenant => self.declare(Ok(host(&lease(2, 3)))),
            Step::Garbage => self.declare(Err("garbage".to_owned())),
            Step::Undeclared => {
                if let Some(host) = self.hosts.remove(NAME) {
                    self.pending
                        .waiting
                        .push(HostnameEvent::Hosts(ObjectChange::Gone(NAME.to_owned(), host)));
                }
            }
            Step::Options => {
                let fact: DecodedRecord<Exposes> = Ok(exposes(&second, 5_000));
                self.manifests.insert(second.namespace(), fact.clone());
                self.pending
                    .waiting
                    .push(HostnameEvent::Manifests(ObjectChange::Put(
                        second.namespace(),
                        fact,
                    )));
            }
            Step::NoManifest => {
                if let Some(fact) = self.manifests.remove(&second.namespace()) {
                    self.pending
                        .waiting
                        .push(HostnameEvent::Manifests(ObjectChange::Gone(
                            second.namespace(),
                            fact,
                        )));
                }
            }
            Step::Arrives => self.arrive(1),
            Step::ArrivesTwice => self.arrive(2),
            Step::Missed => self.list(),
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

    /// Reconciles one hostname, as the writer does. The changes become pending events.
    fn works_on(&mut self, name: &str) {
        let mut work = self.index.work(name);
        // The guard lists the records before a deletion.
        if work
            .missing
            .as_ref()
            .is_some_and(|record| self.hosts.contains_key(&record.key))
        {
            work.deletes.clear();
        }
        if let Some(write) = &work.write {
            assert!(
                !self.bystander_is_written || name != BYSTANDER,
                "the route of the hostname that no step changes is written"
            );
            let goes = work.deletes.iter().any(|d| d.namespace == write.namespace);
            assert!(!goes, "the same route is written and deleted");
            self.version += 1;
            let place = (write.namespace.clone(), name.to_owned());
            let live = written(&write.body, self.version);
            self.routes.insert(place.clone(), live.clone());
            self.pending.waiting.push(HostnameEvent::Objects(
                ObjectKind::Ingress,
                ObjectChange::Put(place.clone(), live.clone()),
            ));
            self.receive(HostnameEvent::Objects(
                ObjectKind::Ingress,
                ObjectChange::Put(place, live),
            ));
        }
        for gone in work.deletes {
            self.version += 1;
            let place = (gone.namespace, name.to_owned());
            if let Some(mut live) = self.routes.remove(&place) {
                live.version = self.version;
                self.pending.waiting.push(HostnameEvent::Objects(
                    ObjectKind::Ingress,
                    ObjectChange::Gone(place.clone(), live),
                ));
            }
            self.receive(HostnameEvent::Deleted(ObjectKind::Ingress, place, gone.uid));
        }
        let routes = self.routes.keys().filter(|(_, there)| *there == name).count();
        assert!(routes <= 1, "`{name}` has {routes} routes");
    }

    fn identify(&self, state: &mut DefaultHasher) {
        (&self.hosts, &self.manifests, &self.routes, &self.pending).hash(state);
        let index = &self.index;
        (&index.hosts, &index.manifests, &index.objects, &index.providers).hash(state);
    }

    fn versions(&mut self) -> Vec<&mut u64> {
        let pending_versions = self.pending.waiting.iter_mut().filter_map(version_in);
        let objects = self.index.objects.values_mut().flat_map(ObjectTable::versions);
        let routes = self.routes.values_mut().map(|live| &mut live.version);
        [&mut self.version]
            .into_iter()
            .chain(pending_versions)
            .chain(objects)
            .chain(routes)
            .collect()
    }

    fn restarted(&self) -> Self {
        let mut restarted = self.clone();
        restarted.index = HostnameIndex::new(Mode::default());
        restarted.pending.touched.clear();
        restarted.list();
        restarted.works();
        restarted
    }

    fn made(&self) -> BTreeMap<ObjectKey, LiveObject> {
        let routes = self.routes.iter();
        routes.map(|(place, live)| (place.clone(), bare(live))).collect()
    }

    fn check(&self) {
        for name in self.index.names() {
            assert!(self.index.work(&name).is_done(), "{name} still has pending work");
        }
        let places: Vec<_> = self.routes.keys().filter(|(_, name)| name == NAME).collect();
        // A valid declaration with a Manifest has exactly one route.
        if let Some(Ok(host)) = self.hosts.get(NAME)
            && self.manifests.contains_key(&host.namespace)
        {
            assert_eq!(places, [&(host.namespace.clone(), NAME.to_owned())]);
        }
        if !self.hosts.contains_key(NAME) {
            assert!(places.is_empty(), "{places:?}");
        }
    }
}

#[test]
fn every_sequence_of_events_ends_in_the_state_of_a_fresh_start() {
    let states = explore(World::new(), DEPTH);
    assert!(states > 1_000, "{states}");
}
