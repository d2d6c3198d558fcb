//! Every order of what may happen, to a depth: records come, move, go and turn to garbage; events arrive, arrive twice or
//! are missed until the next list; the writer works in between, also on what is out of date.

use super::*;

/// Steps of a history; each leaf is judged.
const DEPTH: u32 = 4;
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
    waiting: Vec<Event>,
    index: Index,
    /// The names that the index says have to be looked at; the writer looks at no others.
    touched: BTreeSet<Name>,
    writes_to_bystander: u32,
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
            waiting: Vec::new(),
            index: Index::new(Mode::default()),
            touched: BTreeSet::new(),
            writes_to_bystander: 0,
        };
        world.list();
        world.works();
        world.waiting.clear();
        world.writes_to_bystander = 0;
        world
    }

    fn tell(&mut self, event: Event) {
        let touched = self.index.apply(event);
        self.touched.extend(touched);
    }

    fn list(&mut self) {
        self.waiting.clear();
        self.tell(Event::Objects(Sort::Ingress, Change::Listed(self.routes.clone())));
        self.tell(Event::Hosts(Change::Listed(self.hosts.clone())));
        self.tell(Event::Manifests(Change::Listed(self.manifests.clone())));
    }

    fn declare(&mut self, host: Fact<Host>) {
        self.hosts.insert(NAME.to_owned(), host.clone());
        self.waiting
            .push(Event::Hosts(Change::Put(NAME.to_owned(), host)));
    }

    fn take(&mut self, step: Step) {
        let second = lease(1, 2);
        match step {
            Step::First => self.declare(Ok(host(&lease(1, 1)))),
            Step::Second => self.declare(Ok(host(&second))),
            Step::Stranger => self.declare(Ok(host(&lease(2, 3)))),
            Step::Garbage => self.declare(Err("garbage".to_owned())),
            Step::Undeclared => {
                if let Some(host) = self.hosts.remove(NAME) {
                    self.waiting
                        .push(Event::Hosts(Change::Gone(NAME.to_owned(), host)));
                }
            }
            Step::Options => {
                let fact: Fact<Exposes> = Ok(exposes(&second, 5_000));
                self.manifests.insert(second.namespace(), fact.clone());
                self.waiting
                    .push(Event::Manifests(Change::Put(second.namespace(), fact)));
            }
            Step::NoManifest => {
                if let Some(fact) = self.manifests.remove(&second.namespace()) {
                    self.waiting
                        .push(Event::Manifests(Change::Gone(second.namespace(), fact)));
                }
            }
            Step::Arrives => self.arrive(1),
            Step::ArrivesTwice => self.arrive(2),
            Step::Missed => self.list(),
            Step::Works => self.works(),
        }
    }

    fn arrive(&mut self, times: u32) {
        let waiting = std::mem::take(&mut self.waiting);
        for event in waiting {
            for _ in 0..times {
                self.tell(event.clone());
            }
        }
    }

    /// As the writer does it: the route first, then what goes; the API server tells the index of both.
    ///
    /// It goes on until nothing is touched: what it wrote itself would else keep a name touched, and a list that forgets
    /// to touch it would not be noticed.
    fn works(&mut self) {
        for _ in 0..4 {
            for name in std::mem::take(&mut self.touched) {
                self.works_on(&name);
            }
        }
        assert!(self.touched.is_empty(), "the writer never comes to rest");
    }

    fn works_on(&mut self, name: &str) {
        let work = self.index.work(name);
        if let Some(write) = &work.write {
            let goes = work.deletes.iter().any(|d| d.namespace == write.namespace);
            assert!(!goes, "both written and deleted");
            self.version += 1;
            let place = (write.namespace.clone(), name.to_owned());
            let live = written(&write.body, self.version);
            self.routes.insert(place.clone(), live.clone());
            self.waiting.push(Event::Objects(
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
                self.waiting
                    .push(Event::Objects(Sort::Ingress, Change::Gone(place.clone(), live)));
            }
            self.tell(Event::Deleted(Sort::Ingress, place, gone.uid));
        }
        if name == BYSTANDER && work.write.is_some() {
            self.writes_to_bystander += 1;
        }
        let routes = self.routes.keys().filter(|(_, there)| *there == name).count();
        assert!(routes <= 1, "`{name}` has {routes} routes");
    }

    /// What is waiting arrives, or is missed and listed, and the writer comes to rest; so it does when it starts anew.
    fn judge(mut self, history: &[Step], last: Step) {
        let mut anew = self.clone();
        anew.index = Index::new(Mode::default());
        anew.touched.clear();
        anew.list();
        anew.works();
        for _ in 0..3 {
            self.take(last);
            self.works();
        }
        let kept: BTreeMap<_, _> = bare(&self.routes);
        assert_eq!(kept, bare(&anew.routes), "{history:?}");
        for name in self.index.names() {
            assert!(
                self.index.work(&name).is_done(),
                "{history:?}: {name} is not at rest"
            );
        }
        assert_eq!(self.writes_to_bystander, 0, "{history:?}");
        // What is declared and known has exactly its route.
        if let Some(Ok(host)) = self.hosts.get(NAME)
            && self.manifests.contains_key(&host.namespace)
        {
            let places: Vec<_> = kept.keys().filter(|(_, name)| name == NAME).collect();
            assert_eq!(
                places,
                [&(host.namespace.clone(), NAME.to_owned())],
                "{history:?}"
            );
        }
        if !self.hosts.contains_key(NAME) {
            assert!(kept.keys().all(|(_, name)| name != NAME), "{history:?}");
        }
    }
}

/// Routes without their versions.
fn bare(routes: &BTreeMap<Place, Live>) -> BTreeMap<Place, Live> {
    let bare = routes.iter().map(|(place, live)| {
        let mut live = live.clone();
        live.version = 0;
        (place.clone(), live)
    });
    bare.collect()
}

fn explore(world: &World, history: &mut Vec<Step>, leaves: &mut u32) {
    if history.len() as u32 == DEPTH {
        *leaves += 1;
        for last in [Step::Arrives, Step::Missed] {
            world.clone().judge(history, last);
        }
        return;
    }
    for step in STEPS {
        // Of these the second in a row changes nothing.
        let repeats = matches!(
            step,
            Step::Arrives | Step::ArrivesTwice | Step::Missed | Step::Works
        );
        if repeats && history.last() == Some(&step) {
            continue;
        }
        let mut next = world.clone();
        next.take(step);
        history.push(step);
        explore(&next, history, leaves);
        history.pop();
    }
}

#[test]
fn every_order_of_events_ends_as_a_fresh_start_would() {
    let mut leaves = 0;
    explore(&World::new(), &mut Vec::new(), &mut leaves);
    assert!(leaves > 10_000, "{leaves}");
}
