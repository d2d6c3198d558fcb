//! Every order of what may happen, to a depth: nodes come, change, are made anew and go, classes come and go, somebody
//! takes labels off; events arrive, arrive twice or are missed until the next list; the writer works in between, also on
//! what is out of date.

use super::*;
use crate::inventory::Vendor;
use crate::operators::board::turns;

/// Steps of a history; each leaf is judged.
const DEPTH: u32 = 4;
/// The node that all of it happens to.
const ONE: &str = "one";

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The node is cordoned, or no longer.
    Cordoned,
    /// It is not ready, or is again.
    Away,
    /// It has devices, or no longer.
    Devices,
    /// Somebody takes the labels off.
    Edited,
    /// Its kubelet writes it, and nothing of it changes.
    Beat,
    /// It is deleted and made anew under its name.
    Anew,
    /// It goes, or comes back.
    Gone,
    /// The class is offered, or no longer.
    Class,
    /// All that is waiting arrives.
    Arrives,
    /// It arrives twice.
    ArrivesTwice,
    /// It is missed, and everything is listed.
    Missed,
    /// The writer does what the index says.
    Works,
}

const STEPS: [Step; 12] = [
    Step::Cordoned,
    Step::Away,
    Step::Devices,
    Step::Edited,
    Step::Beat,
    Step::Anew,
    Step::Gone,
    Step::Class,
    Step::Arrives,
    Step::ArrivesTwice,
    Step::Missed,
    Step::Works,
];

/// The cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    nodes: BTreeMap<Name, NodeView>,
    is_offered: bool,
    version: u64,
    waiting: Vec<Event>,
    index: Index,
    /// The names that the index says have to be looked at; the writer looks at no others.
    touched: BTreeSet<Name>,
    writes: u32,
    /// Made once: to compile an expression takes longer than everything else here.
    rules: Rules,
}

impl World {
    fn new() -> Self {
        let mut rules = rules();
        rules.exclude(Pattern::new("^master").unwrap()).unwrap();
        let mut master = view("master", 1);
        master
            .labels
            .insert("akash.network/team".to_owned(), "blue".to_owned());
        let mut world = Self {
            nodes: by_name(&[view(ONE, 1), view("two", 1), master]),
            is_offered: true,
            version: 1,
            waiting: Vec::new(),
            index: Index::new(rules.clone()),
            touched: BTreeSet::new(),
            writes: 0,
            rules,
        };
        world.list();
        world.works();
        world.waiting.clear();
        world
    }

    fn tell(&mut self, event: Event) {
        let touched = turns(
            &mut self.index,
            Index::is_known,
            |index| index.apply(event),
            Index::names,
        );
        self.touched.extend(touched);
    }

    fn list(&mut self) {
        self.waiting.clear();
        self.tell(Event::Nodes(Change::Listed(self.nodes.clone())));
        self.tell(classes(self.is_offered));
    }

    /// Changes the node where it is there, and lets its watch tell of it later.
    fn change(&mut self, change: impl FnOnce(&mut NodeView)) {
        if let Some(node) = self.nodes.get_mut(ONE) {
            self.version += 1;
            change(node);
            node.version = self.version;
            self.waiting.push(put(node.clone()));
        }
    }

    fn gone(&mut self) {
        if let Some(mut node) = self.nodes.remove(ONE) {
            self.version += 1;
            node.version = self.version;
            let gone = Change::Gone(ONE.to_owned(), node);
            self.waiting.push(Event::Nodes(gone));
        }
    }

    fn made(&mut self) {
        self.version += 1;
        let mut node = view(ONE, self.version);
        node.uid = format!("uid-{}", self.version);
        self.nodes.insert(ONE.to_owned(), node.clone());
        self.waiting.push(put(node));
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Cordoned => self.change(|node| node.is_cordoned = !node.is_cordoned),
            Step::Away => self.change(|node| node.is_ready = !node.is_ready),
            Step::Devices => self.change(|node| {
                let devices = &mut node.devices[Vendor::Nvidia as usize];
                *devices = if devices.is_none() { Some(2) } else { None };
            }),
            Step::Edited => self.change(|node| {
                node.labels = Labels::from([("nvidia.com/gpu.product".to_owned(), "NVIDIA-L4".to_owned())]);
                node.gpu_present_is_ours = false;
            }),
            Step::Beat => self.change(|_| ()),
            Step::Anew => {
                self.gone();
                self.made();
            }
            Step::Gone if self.nodes.contains_key(ONE) => self.gone(),
            Step::Gone => self.made(),
            Step::Class => {
                self.is_offered = !self.is_offered;
                let change = Change::Put("beta2".to_owned(), self.is_offered);
                self.waiting.push(Event::Classes(change));
            }
            Step::Arrives => self.arrive(1),
            Step::ArrivesTwice => self.arrive(2),
            Step::Missed => self.list(),
            Step::Works => self.works(),
        }
    }

    fn arrive(&mut self, times: u32) {
        for event in std::mem::take(&mut self.waiting) {
            for _ in 0..times {
                self.tell(event.clone());
            }
        }
    }

    /// As the writer does it, and the API server: what was decided by an old version is refused.
    fn works(&mut self) {
        for _ in 0..3 {
            for name in std::mem::take(&mut self.touched) {
                self.works_on(&name);
            }
        }
        assert!(self.touched.is_empty(), "the writer never comes to rest");
    }

    fn works_on(&mut self, name: &Name) {
        let Some(mut write) = self.index.work(name).write else {
            return;
        };
        if self.answer(name, &write) {
            return;
        }
        // A conflict: it is read again, and tried once more where the same is to be written.
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        self.tell(Event::Answered(name.clone(), Box::new(meta(node))));
        if let Some(now) = self.index.work(name).write
            && now.patch == write.patch
        {
            write = now;
            self.answer(name, &write);
        }
    }

    fn answer(&mut self, name: &Name, write: &Write) -> bool {
        let node = self.nodes.get(name);
        let Some(node) = node.filter(|node| {
            node.version == write.version && write.patch["metadata"]["uid"] == node.uid.as_str()
        }) else {
            return false;
        };
        self.version += 1;
        self.writes += 1;
        let mut after = patched(node, &write.patch);
        after.version = self.version;
        self.nodes.insert(name.clone(), after.clone());
        self.waiting.push(put(after.clone()));
        self.tell(Event::Answered(name.clone(), Box::new(meta(&after))));
        true
    }

    /// What is waiting arrives, or is missed and listed, and the writer comes to rest; so it does when it starts anew.
    fn judge(mut self, history: &[Step], last: Step) {
        let mut anew = self.clone();
        anew.index = Index::new(anew.rules.clone());
        anew.touched.clear();
        anew.list();
        anew.works();
        for _ in 0..2 {
            self.take(last);
            self.works();
        }
        assert_eq!(bare(&self.nodes), bare(&anew.nodes), "{history:?}");
        for name in self.index.names() {
            let work = self.index.work(&name).write;
            assert_eq!(work, None, "{history:?}: {name} is not at rest");
        }
        // Whoever leads next finds nothing to write.
        let before = self.writes;
        self.index = Index::new(self.rules.clone());
        self.list();
        self.works();
        assert_eq!(self.writes, before, "{history:?}");
        let master = &self.nodes["master"];
        assert_eq!(master.version, 1, "{history:?}: one that is left out was written");
        let two = &self.nodes["two"];
        assert_eq!(two.labels.contains_key(CLASS), self.is_offered, "{history:?}");
    }
}

/// Nodes without their versions.
fn bare(nodes: &BTreeMap<Name, NodeView>) -> BTreeMap<Name, NodeView> {
    let bare = nodes.iter().map(|(name, node)| {
        let mut node = node.clone();
        node.version = 0;
        (name.clone(), node)
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
        // What changes nothing makes no other history.
        let is_idle = match step {
            Step::Arrives | Step::ArrivesTwice => world.waiting.is_empty(),
            Step::Works => world.touched.is_empty(),
            Step::Missed => world.waiting.is_empty() && world.touched.is_empty(),
            _ => false,
        };
        if is_idle {
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
    assert!(leaves > 5_000, "{leaves}");
}
