//! Explores every sequence of steps, up to a depth. Records are created, moved, removed and become invalid.
//! Events arrive once or twice, or are missed until the next list. Between two steps the writer may
//! reconcile, also from outdated state.

use super::*;
use crate::explore::{PendingEvents, World as Explored, explore};
use crate::operator_state::names_to_reconcile;
use std::hash::{DefaultHasher, Hash};

/// Number of steps in each sequence.
const DEPTH: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// A record declares the port for the first lease of the tenant.
    First,
    /// A record declares the port for the second lease of the tenant.
    Second,
    /// The record for the first lease changes to another container port.
    Inside,
    /// The record of the port is removed.
    Undeclared,
    /// The record of the port becomes invalid.
    Garbage,
    /// A record declares another IP address for the first lease.
    Other,
    /// The record that declares another IP address is removed.
    NoOther,
    /// Another client removes the sharing key from the Service.
    Edited,
    /// The index receives all pending events in order.
    Arrives,
    /// The index receives each pending event twice.
    ArrivesTwice,
    /// The index misses all pending events and receives a new list.
    Missed,
    /// The writer reconciles all names that the index returns.
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

/// Model of the cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    records: BTreeMap<ObjectName, DecodedRecord>,
    services: BTreeMap<ObjectName, LiveService>,
    version: u64,
    pending: PendingEvents<IpEvent>,
    index: IpIndex,
    /// True after the initial writes. From then on, a write to an unchanged Service fails the test.
    others_are_written: bool,
}

fn first() -> LeasedPort {
    leased(&lease(1, 1), "front", "web")
}

fn bystander() -> LeasedPort {
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
            pending: PendingEvents::default(),
            index: IpIndex::new(provider(), Mode::default()),
            others_are_written: false,
        };
        world.list();
        world.works();
        world.pending.waiting.clear();
        world.others_are_written = true;
        world
    }

    fn list(&mut self) {
        self.pending.waiting.clear();
        self.receive(IpEvent::Services(ObjectChange::Listed(self.services.clone())));
        self.receive(IpEvent::Records(ObjectChange::Listed(self.records.clone())));
        self.receive(IpEvent::Manifests(ObjectChange::Listed(BTreeMap::new())));
    }

    fn declare(&mut self, record: ObjectName, fact: DecodedRecord) {
        self.records.insert(record.clone(), fact.clone());
        self.pending
            .waiting
            .push(IpEvent::Records(ObjectChange::Put(record, fact)));
    }

    fn undeclare(&mut self, record: ObjectName) {
        if let Some(fact) = self.records.remove(&record) {
            self.pending
                .waiting
                .push(IpEvent::Records(ObjectChange::Gone(record, fact)));
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
        self.pending
            .waiting
            .push(IpEvent::Services(ObjectChange::Put(place, live)));
    }
}

impl Explored for World {
    type Step = Step;
    type Event = IpEvent;
    type Outcome = BTreeMap<ObjectName, LiveService>;
    const STEPS: &'static [Step] = &STEPS;
    const ENDS: &'static [Step] = &[Step::Arrives, Step::Missed];

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

    fn pending(&mut self) -> &mut PendingEvents<IpEvent> {
        &mut self.pending
    }

    fn apply(&mut self, event: IpEvent) -> BTreeSet<ObjectName> {
        names_to_reconcile(
            &mut self.index,
            IpIndex::is_known,
            |index| index.apply(event),
            IpIndex::names,
        )
    }

    fn works_on(&mut self, place: &str) {
        let mut work = self.index.work(place);
        // The guard lists the records before a deletion.
        if work
            .missing
            .as_ref()
            .is_some_and(|record| self.records.contains_key(&record.key))
        {
            work.delete = None;
        }
        assert!(
            work.write.is_none() || work.delete.is_none(),
            "the same Service is written and deleted"
        );
        let is_tenants = [1, 2]
            .iter()
            .any(|dseq| place.starts_with(&lease(1, *dseq).namespace()));
        let is_stray = self.others_are_written && !work.is_done() && !is_tenants;
        assert!(!is_stray, "{place} is written without a change");
        if let Some(uid) = work.delete {
            self.version += 1;
            if let Some(mut live) = self.services.remove(place) {
                live.version = self.version;
                self.pending
                    .waiting
                    .push(IpEvent::Services(ObjectChange::Gone(place.to_owned(), live)));
            }
            self.receive(IpEvent::Deleted(place.to_owned(), uid));
        }
        if let Some(write) = work.write {
            self.version += 1;
            let live = written(&write.body, self.version);
            self.services.insert(place.to_owned(), live.clone());
            self.pending.waiting.push(IpEvent::Services(ObjectChange::Put(
                place.to_owned(),
                live.clone(),
            )));
            self.receive(IpEvent::Written(place.to_owned(), live));
        }
        let seat = name(&first());
        let taken = self
            .services
            .values()
            .filter(|live| live.seat().as_ref() == Some(&seat));
        assert!(taken.count() <= 1, "two Services have one port of an address");
    }

    fn identify(&self, state: &mut DefaultHasher) {
        (&self.records, &self.services, &self.pending).hash(state);
        let index = &self.index;
        (&index.records, &index.claims, &index.manifests, &index.services).hash(state);
        (&index.seats, &index.pools, index.has_records).hash(state);
    }

    fn versions(&mut self) -> Vec<&mut u64> {
        let pending_versions = self.pending.waiting.iter_mut().filter_map(version_in);
        let services = self.index.services.iter_mut().flat_map(BTreeMap::values_mut);
        let lives = services.chain(self.services.values_mut());
        let lives = lives.map(|live| &mut live.version);
        [&mut self.version]
            .into_iter()
            .chain(pending_versions)
            .chain(lives)
            .collect()
    }

    fn restarted(&self) -> Self {
        let mut restarted = self.clone();
        restarted.index = IpIndex::new(provider(), Mode::default());
        restarted.pending.touched.clear();
        restarted.list();
        restarted.works();
        restarted
    }

    fn made(&self) -> BTreeMap<ObjectName, LiveService> {
        let mut made = self.services.clone();
        made.values_mut().for_each(|live| live.version = 0);
        made
    }

    fn check(&self) {
        for name in self.index.names() {
            assert!(self.index.work(&name).is_done(), "{name} is not settled");
        }
        let declared: Vec<&LeasedPort> = self
            .records
            .values()
            .filter_map(|fact| fact.as_ref().ok())
            .collect();
        let places: BTreeSet<ObjectName> = declared.iter().map(|leased| leased.place()).collect();
        let is_garbage = self.records.values().any(Result::is_err);
        // A Service with exactly one declaration is in its declared state.
        if places.len() == declared.len() {
            for one in &declared {
                let live = self.services.get(&one.place());
                let is_wanted = live.is_some_and(|live| live.differs(&Mode::default().render(one)).is_none());
                assert!(is_wanted);
            }
        }
        // A Service without a declaration does not exist, unless an invalid record may declare it.
        if !is_garbage {
            let surplus = self.services.iter().filter(|(place, live)| {
                !places.contains(*place) && live.lease.as_ref().is_some_and(|l| l.provider == provider())
            });
            assert_eq!(surplus.count(), 0);
        }
    }
}

fn version_in(event: &mut IpEvent) -> Option<&mut u64> {
    match event {
        IpEvent::Services(ObjectChange::Put(_, live) | ObjectChange::Gone(_, live))
        | IpEvent::Written(_, live) => Some(&mut live.version),
        _ => None,
    }
}

#[test]
fn every_sequence_of_ip_events_ends_in_the_state_of_a_fresh_start() {
    let states = explore(World::new(), DEPTH);
    assert!(states > 1_000, "{states}");
}
