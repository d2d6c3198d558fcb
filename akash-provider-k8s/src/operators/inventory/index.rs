//! The pure index: what the watches say, the rules and the list of GPUs go in, what is to be written to each node comes
//! out. It has no clock and no network.
//!
//! A list counts when it is complete. Until nodes and storage classes were listed once, nothing is to be done: labels that
//! say half of what a node has would be written twice, and believed in between.

use super::database::Database;
use super::discovery::{Cards, Machine, Processor, Processors};
use super::node::NodeView;
use super::rules::Rules;
use super::wanted::{self, Wanted};
use crate::operators::change::{Change, changed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of a node or of a class.
type Name = String;

/// What a watch or somebody else says.
#[derive(Debug, Clone)]
pub enum Event {
    /// Of the nodes, by their names.
    Nodes(Change<Name, NodeView>),
    /// Of the storage classes: whether they have the network's label.
    Classes(Change<Name, bool>),
    /// Who and how a node is by the API server's own answer: to a write, or to a question.
    Answered(Name, Box<ObjectMeta>),
    /// What a pod of ours has seen on a machine.
    Found(Name, Machine, Cards),
    /// Which processors a machine has that was just found.
    Processors(Name, Vec<Processor>),
    /// Other rules.
    Rules(Rules),
    /// Another list of GPUs.
    List(Database),
}

/// What the cluster has, what is chosen of it, and which labels come of that.
#[derive(Debug, Clone)]
pub struct Index {
    nodes: Option<BTreeMap<Name, NodeView>>,
    classes: Option<BTreeMap<Name, bool>>,
    /// Those of them that have the network's label.
    offered: BTreeSet<Name>,
    rules: Arc<Rules>,
    list: Arc<Database>,
    /// What was seen on machines. It counts for the machine that it was seen on, as that was then.
    found: BTreeMap<Name, (Machine, Cards)>,
    /// Of the same machines, those that said it.
    processors: Arc<Processors>,
}

/// What is to be done about a node. Nothing where it has its labels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// The labels that are to be written.
    pub write: Option<Write>,
    /// What could not be said in labels, and why.
    pub problem: Option<String>,
}

/// Labels that are to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The keys that differ, with the identity of the node.
    pub patch: Value,
    /// The version of the node that they were compared with.
    pub version: u64,
    /// All that the node is to have: of two that write against each other each sees that it wrote this before.
    pub wanted: Value,
}

impl Index {
    /// An index that knows nothing yet, and of which nothing is to be done.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            nodes: None,
            classes: None,
            offered: BTreeSet::new(),
            rules: Arc::new(rules),
            list: Arc::default(),
            found: BTreeMap::new(),
            processors: Arc::default(),
        }
    }

    /// True once everything was listed that decides about labels.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.nodes.is_some() && self.classes.is_some()
    }

    /// Takes an event; the nodes that may have to be written, once everything is known.
    pub fn apply(&mut self, event: Event) -> BTreeSet<Name> {
        match event {
            Event::Nodes(change) => self.apply_nodes(change),
            Event::Classes(change) => self.apply_classes(change),
            Event::Answered(name, meta) => self.apply_answer(name, &meta),
            Event::Found(name, machine, cards) => {
                self.found.insert(name.clone(), (machine, cards));
                BTreeSet::from([name])
            }
            Event::Processors(name, processors) => {
                self.set_processors(name, processors);
                BTreeSet::new()
            }
            Event::Rules(rules) => {
                self.rules = Arc::new(rules);
                self.names()
            }
            Event::List(list) => {
                self.list = Arc::new(list);
                self.names()
            }
        }
    }

    /// All nodes.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        self.nodes().map(|(name, _)| name.clone()).collect()
    }

    /// All nodes, as they are.
    pub fn nodes(&self) -> impl Iterator<Item = (&Name, &NodeView)> {
        self.nodes.iter().flatten()
    }

    /// All storage classes, and whether they have the network's label; `None` before they were listed.
    #[must_use]
    pub const fn classes(&self) -> Option<&BTreeMap<Name, bool>> {
        self.classes.as_ref()
    }

    /// Which nodes and storage classes are offered.
    #[must_use]
    pub const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Which model a device is.
    #[must_use]
    pub const fn list(&self) -> &Arc<Database> {
        &self.list
    }

    /// The labels that a node is to have, by what is known so far.
    #[must_use]
    pub fn wanted(&self, node: &NodeView) -> Wanted {
        wanted::wanted(node, &self.rules, &self.offered, &self.list, self.found(node))
    }

    /// What was seen on the machine that a node is.
    #[must_use]
    pub fn found(&self, node: &NodeView) -> Option<&Cards> {
        let (machine, cards) = self.found.get(&node.name)?;
        (*machine == Machine::of(node)).then_some(cards)
    }

    /// Which processors machines have that were looked at.
    #[must_use]
    pub const fn processors(&self) -> &Arc<Processors> {
        &self.processors
    }

    /// Machines of whose devices neither labels nor we know the models.
    #[must_use]
    pub fn unseen(&self) -> BTreeMap<Name, Machine> {
        if !self.is_known() {
            return BTreeMap::new();
        }
        let unsaid = self.nodes().filter(|(_, node)| {
            self.found(node).is_none() && wanted::is_unsaid(node, &self.rules, &self.list)
        });
        unsaid
            .map(|(name, node)| (name.clone(), Machine::of(node)))
            .collect()
    }

    /// Forgets what was seen on machines that are gone.
    pub fn forget_gone(&mut self) {
        if let Some(nodes) = &self.nodes {
            self.found.retain(|name, _| nodes.contains_key(name));
        }
    }

    /// What is to be done about a node.
    #[must_use]
    pub fn work(&self, name: &str) -> Work {
        let node = self.nodes.as_ref().and_then(|nodes| nodes.get(name));
        let Some(node) = node.filter(|_| self.is_known()) else {
            return Work::default();
        };
        let wanted = self.wanted(node);
        let write = wanted::patch(node, &wanted).map(|patch| Write {
            patch,
            version: node.version,
            wanted: json!({"uid": node.uid, "labels": wanted.labels}),
        });
        let problem = (!wanted.notes.is_empty()).then(|| wanted.notes.join("; "));
        Work { write, problem }
    }

    fn set_processors(&mut self, name: Name, processors: Vec<Processor>) {
        let node = self.nodes.as_ref().and_then(|nodes| nodes.get(&name));
        // Another machine may have got the name while it was asked.
        if processors.is_empty() || !node.is_some_and(|node| self.is_found(node)) {
            return;
        }
        Arc::make_mut(&mut self.processors).insert(name, processors);
    }

    /// True where this machine was looked at, whatever it had then.
    fn is_found(&self, node: &NodeView) -> bool {
        self.found
            .get(&node.name)
            .is_some_and(|(machine, _)| machine.is(node))
    }

    /// What was said of the processors of machines that are gone is not said of those that have their names.
    fn drop_processors(&mut self, touched: &BTreeSet<Name>) {
        for name in touched {
            let node = self.nodes.as_ref().and_then(|nodes| nodes.get(name));
            if self.processors.contains_key(name) && !node.is_some_and(|node| self.is_found(node)) {
                Arc::make_mut(&mut self.processors).remove(name);
            }
        }
    }

    fn apply_nodes(&mut self, change: Change<Name, NodeView>) -> BTreeSet<Name> {
        let touched = self.change_nodes(change);
        self.drop_processors(&touched);
        touched
    }

    fn change_nodes(&mut self, change: Change<Name, NodeView>) -> BTreeSet<Name> {
        match change {
            Change::Listed(all) => {
                let before = self.nodes.take().unwrap_or_default();
                let newest = all.into_iter().map(|(name, view)| {
                    let known = before.get(&name).filter(|known| is_older(&view, known));
                    let view = known.cloned().unwrap_or(view);
                    (name, view)
                });
                let after: BTreeMap<_, _> = newest.collect();
                let names = before.keys().chain(after.keys());
                let differ = |name: &&Name| !same(before.get(*name), after.get(*name));
                let touched = names.filter(differ).cloned().collect();
                self.nodes = Some(after);
                touched
            }
            Change::Put(name, view) => self.put(name, view),
            Change::Gone(name, last) => {
                let Some(nodes) = &mut self.nodes else {
                    return BTreeSet::new();
                };
                // It came back under its name, which was told already.
                if nodes.get(&name).is_some_and(|known| last.version < known.version) {
                    return BTreeSet::new();
                }
                nodes.remove(&name);
                BTreeSet::from([name])
            }
        }
    }

    /// A kubelet writes its node all the time: a node of which only the version is new is not looked at.
    fn put(&mut self, name: Name, view: NodeView) -> BTreeSet<Name> {
        let Some(nodes) = &mut self.nodes else {
            // Before the first list nothing counts, and that list has it too.
            return BTreeSet::new();
        };
        if nodes.get(&name).is_some_and(|known| is_older(&view, known)) {
            return BTreeSet::new();
        }
        let before = nodes.insert(name.clone(), view);
        if same(before.as_ref(), nodes.get(&name)) {
            return BTreeSet::new();
        }
        BTreeSet::from([name])
    }

    fn apply_answer(&mut self, name: Name, meta: &ObjectMeta) -> BTreeSet<Name> {
        let known = self.nodes.as_ref().and_then(|nodes| nodes.get(&name));
        // Gone meanwhile, or another machine of the name: the watch tells of it.
        let Some(known) = known.filter(|known| meta.uid.as_deref() == Some(&known.uid)) else {
            return BTreeSet::new();
        };
        let mut view = known.clone();
        view.set_meta(meta);
        self.put(name, view)
    }

    fn apply_classes(&mut self, change: Change<Name, bool>) -> BTreeSet<Name> {
        changed(&mut self.classes, change);
        let classes = self.classes.iter().flatten();
        let offered = classes.filter(|(_, offered)| **offered);
        let offered: BTreeSet<_> = offered.map(|(name, _)| name.clone()).collect();
        if std::mem::replace(&mut self.offered, offered) == self.offered {
            return BTreeSet::new();
        }
        self.names()
    }
}

/// What our own write answered is newer than what a watch is still telling.
fn is_older(view: &NodeView, known: &NodeView) -> bool {
    view.uid == known.uid && view.version < known.version
}

fn same(one: Option<&NodeView>, other: Option<&NodeView>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.is_as(other),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
