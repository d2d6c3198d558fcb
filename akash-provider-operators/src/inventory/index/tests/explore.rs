//! Explores every sequence of steps, up to a depth. Nodes and classes are created, changed, replaced and
//! deleted. Another client removes labels. Events arrive once or twice, or are missed until the next list.
//! Between two steps the writer may reconcile, also from outdated state.

use super::*;
use crate::operator_state::names_to_reconcile;
use akash_provider_kube_model::inventory::Vendor;

/// Number of steps in each sequence.
const DEPTH: u32 = 4;
/// Name of the node that the steps change.
const ONE: &str = "one";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The node is cordoned or uncordoned.
    Cordoned,
    /// The node becomes unready, or ready again.
    Away,
    /// GPUs are added to the node, or all GPUs are removed.
    Devices,
    /// Another client removes the operator's labels from the node.
    Edited,
    /// The kubelet updates the node. The update does not affect the labels.
    Beat,
    /// A new node with the same name replaces the node.
    Anew,
    /// The node is deleted. If the node does not exist, the node is created.
    Gone,
    /// Toggles whether the storage class is offered to leases.
    Class,
    /// The index receives all pending events.
    Arrives,
    /// The index receives each pending event twice.
    ArrivesTwice,
    /// The index misses all pending events and receives a new list.
    Missed,
    /// The writer reconciles all names that the index returns.
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

/// Model of the cluster, and an index that follows it.
#[derive(Clone)]
struct World {
    nodes: BTreeMap<ClusterObjectName, NodeView>,
    is_offered: bool,
    version: u64,
    waiting: Vec<InventoryEvent>,
    index: LabelIndex,
    /// Names that the writer has to reconcile.
    touched: BTreeSet<ClusterObjectName>,
    writes: u32,
    /// Label rules, shared because their compilation is slow.
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
            index: LabelIndex::new(rules.clone()),
            touched: BTreeSet::new(),
            writes: 0,
            rules,
        };
        world.list();
        world.works();
        world.waiting.clear();
        world
    }

    fn tell(&mut self, event: InventoryEvent) {
        let touched = names_to_reconcile(
            &mut self.index,
            LabelIndex::is_known,
            |index| index.apply(event),
            LabelIndex::names,
        );
        self.touched.extend(touched);
    }

    fn list(&mut self) {
        self.waiting.clear();
        self.tell(InventoryEvent::Nodes(ObjectChange::Listed(self.nodes.clone())));
        self.tell(classes(self.is_offered));
    }

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
            let gone = ObjectChange::Gone(ONE.to_owned(), node);
            self.waiting.push(InventoryEvent::Nodes(gone));
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
                let change = ObjectChange::Put("beta2".to_owned(), self.is_offered);
                self.waiting.push(InventoryEvent::Classes(change));
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

    /// Reconciles all touched nodes, as the writer does.
    fn works(&mut self) {
        for _ in 0..3 {
            for name in std::mem::take(&mut self.touched) {
                self.works_on(&name);
            }
        }
        assert!(self.touched.is_empty(), "the writer always has further work");
    }

    fn works_on(&mut self, name: &ClusterObjectName) {
        let Some(mut write) = self.index.work(name).write else {
            return;
        };
        if self.answer(name, &write) {
            return;
        }
        // On a conflict the node is read again, and written once more if the patch is the same.
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        self.tell(InventoryEvent::Answered(name.clone(), Box::new(meta(node))));
        if let Some(now) = self.index.work(name).write
            && now.patch == write.patch
        {
            write = now;
            self.answer(name, &write);
        }
    }

    fn answer(&mut self, name: &ClusterObjectName, write: &LabelWrite) -> bool {
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
        self.tell(InventoryEvent::Answered(name.clone(), Box::new(meta(&after))));
        true
    }

    /// Asserts that a new operator would write the same labels after the step `last`, and that no work
    /// remains.
    fn judge(mut self, history: &[Step], last: Step) {
        let mut anew = self.clone();
        anew.index = LabelIndex::new(anew.rules.clone());
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
            assert_eq!(work, None, "{history:?}: {name} is not settled");
        }
        // The next leader has nothing to write.
        let before = self.writes;
        self.index = LabelIndex::new(self.rules.clone());
        self.list();
        self.works();
        assert_eq!(self.writes, before, "{history:?}");
        let master = &self.nodes["master"];
        assert_eq!(master.version, 1, "{history:?}: an excluded node was written");
        let two = &self.nodes["two"];
        assert_eq!(two.labels.contains_key(CLASS), self.is_offered, "{history:?}");
    }
}

fn bare(nodes: &BTreeMap<ClusterObjectName, NodeView>) -> BTreeMap<ClusterObjectName, NodeView> {
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
        // Steps without an effect are skipped.
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
fn every_sequence_of_node_events_ends_in_the_state_of_a_fresh_start() {
    let mut leaves = 0;
    explore(&World::new(), &mut Vec::new(), &mut leaves);
    assert!(leaves > 5_000, "{leaves}");
}
