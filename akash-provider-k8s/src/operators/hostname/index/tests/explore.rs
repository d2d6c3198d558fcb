//! Explores every sequence of steps up to a depth: records are created, moved, removed and become invalid; events
//! arrive once, twice or are missed until the next list; the writer works in between, also on outdated state.

use super::*;
use crate::operators::board::turns;
use crate::operators::explore::{News, World as Explored, explore};
use std::hash::{DefaultHasher, Hash};

/// Number of steps of a sequence.
const DEPTH: usize = 4;
/// Hostname that is always declared, and must not be written again.
const BYSTANDER: &str = "other.example.com";

/// Step of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The hostname is declared for, or moves to, the first lease of the tenant.
    First,
    /// The hostname is declared for, or moves to, the second lease.
    Second,
    /// The hostname moves to a lease of another tenant.
    Stranger,
    /// The record is removed.
    Undeclared,
    /// The record becomes invalid.
    Garbage,
    /// The options of the second lease change.
    Options,
    /// The Manifest of the second lease is removed.
    NoManifest,
    /// All pending events arrive in order.
    Arrives,
    /// All pending events arrive twice.
    ArrivesTwice,
    /// All pending events are missed, and everything is listed.
    Missed,
    /// The writer does the work of the index.
    Works,
}

const STEPS: [Step; 11] = [
    Step::First,
    Step::Second,
    Step::Stranger,
    Step::Undeclared,
    Step::Garbage,
    Step::Options,
    Step::NoManifest,
    Step::Arrives,
    Step::ArrivesTwice,
    Step::Missed,
    Step::Works,
];

/// Model of the cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    hosts: BTreeMap<Name, Fact<Host>>,
    manifests: BTreeMap<Name, Fact<Exposes>>,
    routes: BTreeMap<Place, Live>,
    version: u64,
    news: News<Event>,
    index: Index,
    /// A later write of the bystander fails the test.
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
            news: News::default(),
            index: Index::new(Mode::default()),
            bystander_is_written: false,
        };
        world.list();
        world.works();
        world.news.waiting.clear();
        world.bystander_is_written = true;
        world
    }

    fn list(&mut self) {
        self.news.waiting.clear();
        self.tell(Event::Objects(Sort::Ingress, Change::Listed(self.routes.clone())));
        self.tell(Event::Hosts(Change::Listed(self.hosts.clone())));
        self.tell(Event::Manifests(Change::Listed(self.manifests.clone())));
    }

    fn declare(&mut self, host: Fact<Host>) {
        self.hosts.insert(NAME.to_owned(), host.clone());
        self.news
            .waiting
            .push(Event::Hosts(Change::Put(NAME.to_owned(), host)));
    }
}

impl Explored for World {
    type Step = Step;
    type Event = Event;
    type Made = BTreeMap<Place, Live>;
    const STEPS: &'static [Step] = &STEPS;
    const ENDS: &'static [Step] = &[Step::Arrives, Step::Missed];

    fn take(&mut self, step: Step) {
        let second = lease(1, 2);
        match step {
            Step::First => self.declare(Ok(host(&lease(1, 1)))),
            Step::Second => self.declare(Ok(host(&second))),
            Step::Stranger => self.declare(Ok(host(&lease(2, 3)))),
            Step::Garbage => self.declare(Err("garbage".to_owned())),
            Step::Undeclared => {
                if let Some(host) = self.hosts.remove(NAME) {
                    self.news
                        .waiting
                        .push(Event::Hosts(Change::Gone(NAME.to_owned(), host)));
                }
            }
            Step::Options => {
                let fact: Fact<Exposes> = Ok(exposes(&second, 5_000));
                self.manifests.insert(second.namespace(), fact.clone());
                self.news
                    .waiting
                    .push(Event::Manifests(Change::Put(second.namespace(), fact)));
            }
            Step::NoManifest => {
                if let Some(fact) = self.manifests.remove(&second.namespace()) {
                    self.news
                        .waiting
                        .push(Event::Manifests(Change::Gone(second.namespace(), fact)));
                }
            }
            Step::Arrives => self.arrive(1),
            Step::ArrivesTwice => self.arrive(2),
            Step::Missed => self.list(),
            Step::Works => self.works(),
        }
    }

    fn news(&mut self) -> &mut News<Event> {
        &mut self.news
    }

    fn apply(&mut self, event: Event) -> BTreeSet<Name> {
        turns(
            &mut self.index,
            Index::is_known,
            |index| index.apply(event),
            Index::names,
        )
    }

    /// Writes the route, then deletes objects; the API server reports both to the index.
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
                "the other name is written"
            );
            let goes = work.deletes.iter().any(|d| d.namespace == write.namespace);
            assert!(!goes, "both written and deleted");
            self.version += 1;
            let place = (write.namespace.clone(), name.to_owned());
            let live = written(&write.body, self.version);
            self.routes.insert(place.clone(), live.clone());
            self.news.waiting.push(Event::Objects(
                Sort::Ingress,
                Change::Put(place.clone(), live.clone()),
            ));
            self.tell(Event::Objects(Sort::Ingress, Change::Put(place, live)));
        }
        for gone in work.deletes {
            self.version += 1;
            let place = (gone.namespace, name.to_owned());
            if let Some(mut live) = self.routes.remove(&place) {
                live.version = self.version;
                self.news
                    .waiting
                    .push(Event::Objects(Sort::Ingress, Change::Gone(place.clone(), live)));
            }
            self.tell(Event::Deleted(Sort::Ingress, place, gone.uid));
        }
        let routes = self.routes.keys().filter(|(_, there)| *there == name).count();
        assert!(routes <= 1, "`{name}` has {routes} routes");
    }

    fn identify(&self, state: &mut DefaultHasher) {
        (&self.hosts, &self.manifests, &self.routes, &self.news).hash(state);
        let known = &self.index;
        (&known.hosts, &known.manifests, &known.objects, &known.providers).hash(state);
    }

    fn versions(&mut self) -> Vec<&mut u64> {
        let told = self.news.waiting.iter_mut().filter_map(version_in);
        let known = self.index.objects.values_mut().flat_map(Table::versions);
        let routes = self.routes.values_mut().map(|live| &mut live.version);
        [&mut self.version]
            .into_iter()
            .chain(told)
            .chain(known)
            .chain(routes)
            .collect()
    }

    fn anew(&self) -> Self {
        let mut anew = self.clone();
        anew.index = Index::new(Mode::default());
        anew.news.touched.clear();
        anew.list();
        anew.works();
        anew
    }

    /// Returns the routes without their versions.
    fn made(&self) -> BTreeMap<Place, Live> {
        let routes = self.routes.iter();
        routes.map(|(place, live)| (place.clone(), bare(live))).collect()
    }

    fn check(&self) {
        for name in self.index.names() {
            assert!(self.index.work(&name).is_done(), "{name} is not at rest");
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
