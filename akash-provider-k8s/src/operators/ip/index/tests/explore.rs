//! Every order of what may happen, to a depth: records come, move, go and turn to garbage; events arrive, arrive twice or
//! are missed until the next list; the writer works in between, also on what is out of date.

use super::*;

/// Steps of a history; each leaf is judged.
const DEPTH: u32 = 4;

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The port is declared for a service of the tenant's first lease, or moves there.
    First,
    /// The same of its second lease.
    Second,
    /// It leads to another port of the first.
    Inside,
    /// Its record goes.
    Undeclared,
    /// Its record turns to garbage.
    Garbage,
    /// Another address is declared for the service of the first lease.
    Other,
    /// And goes.
    NoOther,
    /// Somebody takes the key off the Service.
    Edited,
    /// All that is waiting arrives, what was there last first.
    Arrives,
    /// It arrives twice.
    ArrivesTwice,
    /// It is missed, and everything is listed.
    Missed,
    /// The writer does what the index says.
    Works,
}

const STEPS: [Step; 12] = [
    Step::First,
    Step::Second,
    Step::Inside,
    Step::Undeclared,
    Step::Garbage,
    Step::Other,
    Step::NoOther,
    Step::Edited,
    Step::Arrives,
    Step::ArrivesTwice,
    Step::Missed,
    Step::Works,
];

/// The cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    records: BTreeMap<Name, Fact>,
    services: BTreeMap<Name, Live>,
    version: u64,
    waiting: Vec<Event>,
    index: Index,
    /// The names that the index says have to be looked at; the writer looks at no others.
    touched: BTreeSet<Name>,
    /// Writes and deletes of what nobody changed.
    strays: u32,
}

fn first() -> Leased {
    leased(&lease(1, 1), "front", "web")
}

fn bystander() -> Leased {
    leased(&lease(2, 3), "front", "web")
}

impl World {
    fn new() -> Self {
        let mut theirs = leased(&lease(3, 4), "front", "web");
        theirs.lease.provider = Address::from_bytes(&[7; 20]).unwrap();
        let mut world = Self {
            records: records(&[bystander()]),
            services: BTreeMap::from([(theirs.place(), service(&theirs, 1))]),
            version: 1,
            waiting: Vec::new(),
            index: Index::new(provider(), Mode::default()),
            touched: BTreeSet::new(),
            strays: 0,
        };
        world.list();
        world.works();
        world.waiting.clear();
        world.strays = 0;
        world
    }

    fn tell(&mut self, event: Event) {
        let touched = self.index.apply(event);
        self.touched.extend(touched);
    }

    fn list(&mut self) {
        self.waiting.clear();
        self.tell(Event::Services(Change::Listed(self.services.clone())));
        self.tell(Event::Records(Change::Listed(self.records.clone())));
        self.tell(Event::Manifests(Change::Listed(BTreeMap::new())));
    }

    fn declare(&mut self, record: Name, fact: Fact) {
        self.records.insert(record.clone(), fact.clone());
        self.waiting.push(Event::Records(Change::Put(record, fact)));
    }

    fn undeclare(&mut self, record: Name) {
        if let Some(fact) = self.records.remove(&record) {
            self.waiting.push(Event::Records(Change::Gone(record, fact)));
        }
    }

    fn take(&mut self, step: Step) {
        let seat = name(&first());
        let other = leased(&lease(1, 1), "back", "web");
        match step {
            Step::First => self.declare(seat, Ok(first())),
            Step::Second => self.declare(seat, Ok(leased(&lease(1, 2), "front", "web"))),
            Step::Inside => {
                let mut inside = first();
                inside.ip.port = 9090;
                self.declare(seat, Ok(inside));
            }
            Step::Garbage => self.declare(seat, bad(None)),
            Step::Undeclared => self.undeclare(seat),
            Step::Other => self.declare(name(&other), Ok(other)),
            Step::NoOther => self.undeclare(name(&other)),
            Step::Edited => self.edit(),
            Step::Arrives => self.arrive(1),
            Step::ArrivesTwice => self.arrive(2),
            Step::Missed => self.list(),
            Step::Works => self.works(),
        }
    }

    fn edit(&mut self) {
        let place = first().place();
        if !self.services.contains_key(&place) {
            return;
        }
        self.version += 1;
        let mut body = Mode::default().render(&first());
        body["metadata"]["annotations"] = json!({});
        let live = written(&body, self.version);
        self.services.insert(place.clone(), live.clone());
        self.waiting.push(Event::Services(Change::Put(place, live)));
    }

    fn arrive(&mut self, times: u32) {
        let waiting = std::mem::take(&mut self.waiting);
        for event in waiting {
            for _ in 0..times {
                self.tell(event.clone());
            }
        }
    }

    /// As the writer does it; the API server tells the index of what was done.
    ///
    /// It goes on until nothing is touched: what it wrote itself would else keep a name touched, and a list that forgets
    /// to touch it would not be noticed.
    fn works(&mut self) {
        for _ in 0..6 {
            for name in std::mem::take(&mut self.touched) {
                self.works_on(&name);
            }
        }
        assert!(self.touched.is_empty(), "the writer never comes to rest");
    }

    fn works_on(&mut self, place: &Name) {
        let work = self.index.work(place);
        assert!(
            work.write.is_none() || work.delete.is_none(),
            "both written and deleted"
        );
        let is_tenants = [1, 2]
            .iter()
            .any(|dseq| place.starts_with(&lease(1, *dseq).namespace()));
        self.strays += u32::from(!work.is_done() && !is_tenants);
        if let Some(uid) = work.delete {
            self.version += 1;
            if let Some(mut live) = self.services.remove(place) {
                live.version = self.version;
                self.waiting
                    .push(Event::Services(Change::Gone(place.clone(), live)));
            }
            self.tell(Event::Deleted(place.clone(), uid));
        }
        if let Some(write) = work.write {
            self.version += 1;
            let live = written(&write.body, self.version);
            self.services.insert(place.clone(), live.clone());
            self.waiting
                .push(Event::Services(Change::Put(place.clone(), live.clone())));
            self.tell(Event::Written(place.clone(), live));
        }
        let seat = name(&first());
        let taken = self
            .services
            .values()
            .filter(|live| live.seat().as_ref() == Some(&seat));
        assert!(taken.count() <= 1, "two Services have one port of an address");
    }

    /// What is waiting arrives, or is missed and listed, and the writer comes to rest; so it does when it starts anew.
    fn judge(mut self, history: &[Step], last: Step) {
        let mut anew = self.clone();
        anew.index = Index::new(provider(), Mode::default());
        anew.touched.clear();
        anew.list();
        anew.works();
        for _ in 0..3 {
            self.take(last);
            self.works();
        }
        let kept = bare(&self.services);
        assert_eq!(kept, bare(&anew.services), "{history:?}");
        for name in self.index.names() {
            assert!(
                self.index.work(&name).is_done(),
                "{history:?}: {name} is not at rest"
            );
        }
        assert_eq!(self.strays, 0, "{history:?}");
        let declared: Vec<&Leased> = self
            .records
            .values()
            .filter_map(|fact| fact.as_ref().ok())
            .collect();
        let places: BTreeSet<Name> = declared.iter().map(|leased| leased.place()).collect();
        let is_garbage = self.records.values().any(Result::is_err);
        // What is declared, and by one record alone, is there as it is declared.
        if places.len() == declared.len() {
            for one in &declared {
                let live = kept.get(&one.place());
                let is_wanted = live.is_some_and(|live| live.differs(&Mode::default().render(one)).is_none());
                assert!(is_wanted, "{history:?}");
            }
        }
        // And what is not declared is not there, but for what a record that makes no sense may speak of.
        if !is_garbage {
            let surplus = kept.iter().filter(|(place, live)| {
                !places.contains(*place) && live.lease.as_ref().is_some_and(|l| l.provider == provider())
            });
            assert_eq!(surplus.count(), 0, "{history:?}");
        }
    }
}

/// Services without their versions.
fn bare(services: &BTreeMap<Name, Live>) -> BTreeMap<Name, Live> {
    let bare = services.iter().map(|(place, live)| {
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
