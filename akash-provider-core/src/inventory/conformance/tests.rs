use super::*;
use crate::inventory::node_inventory::MemoryInventorySource;
use crate::inventory::{Explanation, InsufficientCapacity, Metrics, NodeInventory};
use futures::stream::{self, StreamExt};
use std::panic::AssertUnwindSafe;

/// Deviation of a test inventory from the usual behavior. The suite must accept some deviations, and report
/// all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deviation {
    /// Fills the last node first.
    LastFirst,
    /// Returns all details of a GPU, and no scheduler parameters.
    OtherWords,
    LeavesATrace,
    DryRunTakes,
    CopyIsTheSame,
    ReleasesNothing,
    ExplainsNothing,
    ModelsAreVague,
    ClosedIsOpen,
    TakesTooMuch,
    ForgetsTheLost,
}

use Deviation as O;

#[derive(Debug)]
struct DeviatingInventory {
    truth: NodeInventory,
    way: Deviation,
}

fn make(way: Deviation) -> impl Fn(&ClusterSpec) -> Box<dyn Inventory> {
    move |spec| {
        let mut spec = spec.clone();
        match way {
            O::LastFirst => spec.nodes.reverse(),
            O::ClosedIsOpen => spec.nodes[0].closed = None,
            _ => {}
        }
        let truth = NodeInventory::new(&spec);
        Box::new(DeviatingInventory { truth, way })
    }
}

impl Inventory for DeviatingInventory {
    fn adjust(
        &mut self,
        units: &[ResourceUnit],
        options: AdjustOptions,
    ) -> Result<Allocation, InsufficientCapacity> {
        if self.way == O::TakesTooMuch && units.iter().any(|unit| unit.resources.cpu.units == u64::MAX) {
            return Ok(Allocation::default());
        }
        let options = AdjustOptions {
            dry_run: options.dry_run && self.way != O::DryRunTakes,
        };
        let mut taken = self.truth.adjust(units, options);
        if taken.is_err() && self.way == O::LeavesATrace {
            let small = unit(1, 10, 1 << 20, 0, 1);
            let _ = self.truth.adjust(&[small], AdjustOptions::default());
        }
        if let Ok(allocation) = &mut taken {
            for (unit, asked) in allocation.units.iter_mut().zip(units) {
                for attribute in &mut unit.resources.gpu.attributes {
                    if self.way == O::OtherWords {
                        attribute.key.push_str("/ram/80Gi");
                    }
                }
                if self.way == O::ModelsAreVague {
                    unit.resources.gpu = asked.resources.gpu.clone();
                }
            }
            if self.way == O::OtherWords {
                allocation.params.clear();
            }
        }
        taken
    }

    fn restore(&mut self, allocation: &Allocation) {
        let is_there = |place: &ReplicaGroup| place.node.starts_with('n');
        if self.way == O::ForgetsTheLost && !allocation.places.iter().all(is_there) {
            return;
        }
        self.truth.restore(&self.plain(allocation));
    }

    fn release(&mut self, allocation: &Allocation) {
        if self.way != O::ReleasesNothing {
            self.truth.release(&self.plain(allocation));
        }
    }

    fn explain(&self, units: &[ResourceUnit]) -> Explanation {
        let mut explanation = self.truth.explain(units);
        if self.way == O::ExplainsNothing {
            explanation.nodes.iter_mut().for_each(|v| v.missing.clear());
        }
        explanation
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.truth.metrics();
        metrics.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        metrics
    }

    fn dup(&self) -> Box<dyn Inventory> {
        if self.way == O::CopyIsTheSame {
            return make(self.way)(&ClusterSpec::null(&["elsewhere"]));
        }
        Box::new(Self {
            truth: self.truth.clone(),
            way: self.way,
        })
    }
}

impl DeviatingInventory {
    /// Restores the allocation that the inner inventory returned.
    fn plain(&self, allocation: &Allocation) -> Allocation {
        let mut plain = allocation.clone();
        for attribute in plain
            .units
            .iter_mut()
            .flat_map(|u| &mut u.resources.gpu.attributes)
        {
            attribute.key = attribute.key.replace("/ram/80Gi", "");
        }
        plain
    }
}

fn verdict(way: Deviation) -> Option<String> {
    let run = std::panic::catch_unwind(AssertUnwindSafe(|| suite(make(way))));
    let panic = run.err()?;
    Some(crate::conformance::panic_text(&*panic).to_owned())
}

#[test]
fn the_suite_accepts_allowed_deviations() {
    for way in [O::LastFirst, O::OtherWords] {
        assert_eq!(verdict(way), None, "{way:?}");
    }
}

#[test]
fn every_mistake_is_detected() {
    for (way, rule, expected) in [
        (
            O::LeavesATrace,
            "all or nothing",
            "a failed adjust changed the inventory",
        ),
        (
            O::DryRunTakes,
            "a dry run reserves nothing",
            "a dry run reserved capacity",
        ),
        (
            O::CopyIsTheSame,
            "a copy is independent",
            "a copy differs from the original",
        ),
        (
            O::ReleasesNothing,
            "release undoes adjust",
            "`release` was expected to undo",
        ),
        (
            O::ExplainsNothing,
            "explain agrees with adjust",
            "`explain` was expected to name the missing capacity",
        ),
        (
            O::ModelsAreVague,
            "GPU models are made concrete",
            "`adjust` was expected to return the reserved model",
        ),
        (
            O::ClosedIsOpen,
            "a closed node keeps its replicas",
            "a closed node was expected to take no new replicas",
        ),
        (
            O::TakesTooMuch,
            "extreme amounts are safe",
            "`adjust` was expected to fail for",
        ),
        (
            O::ForgetsTheLost,
            "a lost node is counted",
            "replicas without a node",
        ),
    ] {
        let failure = verdict(way).unwrap_or_else(|| panic!("{way:?} is not detected"));
        let is_named = failure.starts_with(&format!("{rule}: ")) && failure.contains(expected);
        assert!(is_named, "{way:?} is detected with another message: {failure}");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nothing,
    EarlyOnly,
    ErrorsAndRepeats,
    ErrorsForEver,
}

#[derive(Debug)]
struct Source {
    truth: MemoryInventorySource,
    reports: Tells,
    watchers: std::sync::atomic::AtomicU32,
}

impl InventorySource for Source {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        let number = self.watchers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let away = || Error::new(crate::error::ErrorKind::Unavailable, "watch", "away");
        match self.reports {
            Tells::Nothing => stream::pending().boxed(),
            Tells::EarlyOnly if number > 0 => stream::pending().boxed(),
            Tells::EarlyOnly => self.truth.watch(),
            Tells::ErrorsForEver => stream::repeat_with(move || Err(away())).boxed(),
            Tells::ErrorsAndRepeats => {
                let each = self.truth.watch().flat_map(move |update| {
                    let again = update.as_ref().ok().cloned().map(Ok);
                    stream::iter([Err(away()), update].into_iter().chain(again))
                });
                each.boxed()
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_may_repeat_updates_and_errors_and_must_report_changes() {
    for (reports, expected) in [
        (Tells::ErrorsAndRepeats, None),
        (
            Tells::Nothing,
            Some("the first update arrives as soon as capacity is known: `watch` was expected to return 2"),
        ),
        (
            Tells::EarlyOnly,
            Some("a late watcher receives the known capacity: `watch` was expected"),
        ),
        (
            Tells::ErrorsForEver,
            Some("`watch` returned 100000 items without a pause"),
        ),
    ] {
        let source = Source {
            truth: MemoryInventorySource::new(),
            reports,
            watchers: Default::default(),
        };
        let run = source_suite(source, |source, update| source.truth.push(update));
        let failure = crate::conformance::verdict(run).await;
        match expected {
            None => assert_eq!(failure, None, "{reports:?}"),
            Some(expected) => assert!(
                failure.as_ref().is_some_and(|s| s.contains(expected)),
                "{reports:?}: {failure:?}"
            ),
        }
    }
}
