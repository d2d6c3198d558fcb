//! Every order of what may happen, to a depth: records come, move, go and turn to garbage; events arrive, arrive twice or
//! are missed until the next list; the writer works in between, also on what is out of date.

use super::*;
use crate::operators::board::turns;
use crate::operators::explore::{News, World as Explored, explore};
use std::hash::{DefaultHasher, Hash};

/// Steps of a history.
const DEPTH: usize = 4;
/// Declared all the time, and never to be touched once it is written.
const BYSTANDER: &str = "other.example.com";

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The name is declared for the tenant's first lease, or moves there.
    First,
    /// The same of its second lease.
    Second,
    /// It moves to a lease of another tenant.
    Stranger,
    /// Its record goes.
    Undeclared,
    /// Its record turns to garbage.
    Garbage,
    /// The options of the second lease change.
    Options,
    /// The second lease has no manifest any more.
    NoManifest,
    /// All that is waiting arrives, what was there last first.
    Arrives,
    /// It arrives twice.
    ArrivesTwice,
    /// It is missed, and everything is listed.
    Missed,
    /// The writer does what the index says.
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

/// The cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    hosts: BTreeMap<Name, Fact<Host>>,
    manifests: BTreeMap<Name, Fact<Exposes>>,
    routes: BTreeMap<Place, Live>,
    version: u64,
    news: News<Event>,
    index: Index,
    /// It must not be written any more.
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

    /// The route first, then what goes; the API server tells the index of both.
    fn works_on(&mut self, name: &str) {
        let mut work = self.index.work(name);
        // The guard lists the records first.
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

    /// Routes without their versions.
    fn made(&self) -> BTreeMap<Place, Live> {
        let routes = self.routes.iter();
        routes.map(|(place, live)| (place.clone(), bare(live))).collect()
    }

    fn check(&self) {
        for name in self.index.names() {
            assert!(self.index.work(&name).is_done(), "{name} is not at rest");
        }
        let places: Vec<_> = self.routes.keys().filter(|(_, name)| name == NAME).collect();
        // What is declared and known has exactly its route.
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
fn every_order_of_events_ends_as_a_fresh_start_would() {
    let states = explore(World::new(), DEPTH);
    assert!(states > 1_000, "{states}");
}
