//! Pure index of the inventory operator: receives watch events, rules and the GPU list, and returns the labels to write
//! for each node.
//!
//! A list is used only when it is complete. No work is done before nodes and storage classes were listed, because the
//! operator would first write incomplete labels, and the provider would use them.

use super::database::Database;
use super::discovery::{Cards, NodeIdentity, Processor, Processors};
use super::node::NodeView;
use super::rules::Rules;
use super::wanted::{self, DesiredLabels};
use crate::change::{ObjectChange, changed};
use crate::operator_state::{OperatorIndex, Work};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Name of a node or of a storage class.
type ClusterObjectName = String;

/// Change from a watch, the writer, discovery or the configuration.
#[derive(Debug, Clone)]
pub(crate) enum InventoryEvent {
    /// Change of nodes. The key is the name.
    Nodes(ObjectChange<ClusterObjectName, NodeView>),
    /// Change of storage classes. The value is true if the class has the label `akash.network=true`.
    Classes(ObjectChange<ClusterObjectName, bool>),
    /// Metadata of a node from a response of the API server.
    Answered(ClusterObjectName, Box<ObjectMeta>),
    /// Discovered cards of a node.
    Found(ClusterObjectName, NodeIdentity, Cards),
    /// Discovered processors of a node.
    Processors(ClusterObjectName, Vec<Processor>),
    /// New rules for nodes and storage classes.
    Rules(Rules),
    /// New list of GPUs.
    List(Database),
}

/// Data from which the labels of nodes are computed.
#[derive(Debug, Clone, Default)]
pub(crate) struct LabelIndex {
    nodes: Option<BTreeMap<ClusterObjectName, NodeView>>,
    classes: Option<BTreeMap<ClusterObjectName, bool>>,
    /// Storage classes with the label `akash.network=true`.
    offered: BTreeSet<ClusterObjectName>,
    rules: Arc<Rules>,
    list: Arc<Database>,
    /// Discovered cards by node name, and the identity of the node at the time of discovery.
    found: BTreeMap<ClusterObjectName, (NodeIdentity, Cards)>,
    processors: Arc<Processors>,
}

/// Labels to write to a node, and the problem of the node. Empty if the labels of the node are in the desired
/// state.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct InventoryWork {
    /// Labels to write.
    pub write: Option<LabelWrite>,
    /// Devices and storage classes that the labels omit, each with the reason.
    pub problem: Option<String>,
}

/// Labels to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelWrite {
    /// Patch of the labels that must change, with the UID of the node.
    pub patch: Value,
    /// Resource version of the node when the patch was computed.
    pub version: u64,
    /// All desired labels. Used to detect that another client reverts the labels.
    pub wanted: Value,
}

impl LabelIndex {
    /// Creates an index without state. No work is done before the initial lists.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            ..Self::default()
        }
    }

    /// Returns all nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&ClusterObjectName, &NodeView)> {
        self.nodes.iter().flatten()
    }

    /// Returns the storage classes by name, or `None` before the first list. The value is true for a class
    /// with the label `akash.network=true`.
    pub(crate) const fn classes(&self) -> Option<&BTreeMap<ClusterObjectName, bool>> {
        self.classes.as_ref()
    }

    /// Returns the rules for nodes and storage classes.
    pub(crate) const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Returns the list of GPUs.
    pub(crate) const fn list(&self) -> &Arc<Database> {
        &self.list
    }

    /// Returns the desired labels of a node.
    pub(crate) fn wanted(&self, node: &NodeView) -> DesiredLabels {
        wanted::wanted(node, &self.rules, &self.offered, &self.list, self.found(node))
    }

    /// Returns the discovered cards of a node. Returns `None` if the node was replaced or rebooted, or if its
    /// devices changed.
    pub(crate) fn found(&self, node: &NodeView) -> Option<&Cards> {
        let (machine, cards) = self.found.get(&node.name)?;
        (*machine == NodeIdentity::from_node(node)).then_some(cards)
    }

    /// Returns the discovered processors.
    pub(crate) const fn processors(&self) -> &Arc<Processors> {
        &self.processors
    }

    /// Returns the nodes that require discovery.
    pub(crate) fn unseen(&self) -> BTreeMap<ClusterObjectName, NodeIdentity> {
        if !self.is_known() {
            return BTreeMap::new();
        }
        let unsaid = self.nodes().filter(|(_, node)| {
            self.found(node).is_none() && wanted::needs_discovery(node, &self.rules, &self.list)
        });
        unsaid
            .map(|(name, node)| (name.clone(), NodeIdentity::from_node(node)))
            .collect()
    }

    fn set_processors(&mut self, name: ClusterObjectName, processors: Vec<Processor>) {
        let node = self.nodes.as_ref().and_then(|nodes| nodes.get(&name));
        // Another node may have the name by now.
        if processors.is_empty() || !node.is_some_and(|node| self.is_found(node)) {
            return;
        }
        Arc::make_mut(&mut self.processors).insert(name, processors);
    }

    /// Returns true if the node with this UID was discovered, even if its devices have changed.
    fn is_found(&self, node: &NodeView) -> bool {
        self.found
            .get(&node.name)
            .is_some_and(|(machine, _)| machine.is(node))
    }

    /// Removes the processors of deleted or replaced nodes.
    fn drop_processors(&mut self, touched: &BTreeSet<ClusterObjectName>) {
        for name in touched {
            let node = self.nodes.as_ref().and_then(|nodes| nodes.get(name));
            if self.processors.contains_key(name) && !node.is_some_and(|node| self.is_found(node)) {
                Arc::make_mut(&mut self.processors).remove(name);
            }
        }
    }

    fn apply_nodes(
        &mut self,
        change: ObjectChange<ClusterObjectName, NodeView>,
    ) -> BTreeSet<ClusterObjectName> {
        let touched = self.change_nodes(change);
        self.drop_processors(&touched);
        touched
    }

    fn change_nodes(
        &mut self,
        change: ObjectChange<ClusterObjectName, NodeView>,
    ) -> BTreeSet<ClusterObjectName> {
        match change {
            ObjectChange::Listed(all) => {
                let before = self.nodes.take().unwrap_or_default();
                let newest = all.into_iter().map(|(name, view)| {
                    let current = before.get(&name).filter(|current| is_older(&view, current));
                    let view = current.cloned().unwrap_or(view);
                    (name, view)
                });
                let after: BTreeMap<_, _> = newest.collect();
                let names = before.keys().chain(after.keys());
                let differ = |name: &&ClusterObjectName| !same(before.get(*name), after.get(*name));
                let touched = names.filter(differ).cloned().collect();
                self.nodes = Some(after);
                touched
            }
            ObjectChange::Put(name, view) => self.put(name, view),
            ObjectChange::Gone(name, last) => {
                let Some(nodes) = &mut self.nodes else {
                    return BTreeSet::new();
                };
                // The event of a replacement under the same name was applied already.
                if nodes
                    .get(&name)
                    .is_some_and(|current| last.version < current.version)
                {
                    return BTreeSet::new();
                }
                nodes.remove(&name);
                BTreeSet::from([name])
            }
        }
    }

    /// Applies a new version of a node, and returns the changed name. Returns no name for a kubelet update
    /// without relevant changes.
    fn put(&mut self, name: ClusterObjectName, view: NodeView) -> BTreeSet<ClusterObjectName> {
        let Some(nodes) = &mut self.nodes else {
            // The first list contains this node too.
            return BTreeSet::new();
        };
        if nodes.get(&name).is_some_and(|current| is_older(&view, current)) {
            return BTreeSet::new();
        }
        let before = nodes.insert(name.clone(), view);
        if same(before.as_ref(), nodes.get(&name)) {
            return BTreeSet::new();
        }
        BTreeSet::from([name])
    }

    fn apply_answer(&mut self, name: ClusterObjectName, meta: &ObjectMeta) -> BTreeSet<ClusterObjectName> {
        let current = self.nodes.as_ref().and_then(|nodes| nodes.get(&name));
        // A deleted or replaced node is reported by the watch.
        let Some(current) = current.filter(|current| meta.uid.as_deref() == Some(&current.uid)) else {
            return BTreeSet::new();
        };
        let mut view = current.clone();
        view.set_meta(meta);
        self.put(name, view)
    }

    fn apply_classes(
        &mut self,
        change: ObjectChange<ClusterObjectName, bool>,
    ) -> BTreeSet<ClusterObjectName> {
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

impl OperatorIndex for LabelIndex {
    type Event = InventoryEvent;
    type Work = InventoryWork;
    const PROBLEM: &'static str = "node labels incomplete";
    const SHARES_PROBLEMS: bool = true;

    /// Applies an event and returns the nodes to reconcile.
    fn apply(&mut self, event: InventoryEvent) -> BTreeSet<ClusterObjectName> {
        match event {
            InventoryEvent::Nodes(change) => self.apply_nodes(change),
            InventoryEvent::Classes(change) => self.apply_classes(change),
            InventoryEvent::Answered(name, meta) => self.apply_answer(name, &meta),
            InventoryEvent::Found(name, machine, cards) => {
                self.found.insert(name.clone(), (machine, cards));
                BTreeSet::from([name])
            }
            InventoryEvent::Processors(name, processors) => {
                self.set_processors(name, processors);
                BTreeSet::new()
            }
            InventoryEvent::Rules(rules) => {
                self.rules = Arc::new(rules);
                self.names()
            }
            InventoryEvent::List(list) => {
                self.list = Arc::new(list);
                self.names()
            }
        }
    }

    /// Returns true after nodes and storage classes were listed.
    fn is_known(&self) -> bool {
        self.nodes.is_some() && self.classes.is_some()
    }

    /// Returns the names of all nodes.
    fn names(&self) -> BTreeSet<ClusterObjectName> {
        self.nodes().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the work for a node.
    fn work(&self, name: &str) -> InventoryWork {
        let node = self.nodes.as_ref().and_then(|nodes| nodes.get(name));
        let Some(node) = node.filter(|_| self.is_known()) else {
            return InventoryWork::default();
        };
        let wanted = self.wanted(node);
        let write = wanted::patch(node, &wanted).map(|patch| LabelWrite {
            patch,
            version: node.version,
            wanted: json!({"uid": node.uid, "labels": wanted.labels}),
        });
        let problem = (!wanted.notes.is_empty()).then(|| wanted.notes.join("; "));
        InventoryWork { write, problem }
    }

    /// Removes the discovered cards of deleted nodes.
    fn prune(&mut self) {
        if let Some(nodes) = &self.nodes {
            self.found.retain(|name, _| nodes.contains_key(name));
        }
    }
}

impl Work for InventoryWork {
    fn is_done(&self) -> bool {
        self.write.is_none()
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn bodies(&self) -> Vec<&Value> {
        self.write.iter().map(|write| &write.wanted).collect()
    }
}

/// Returns true if `view` is older than `current`. An event can be older than the response to a write.
fn is_older(view: &NodeView, current: &NodeView) -> bool {
    view.uid == current.uid && view.version < current.version
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
