//! Cached status, rebuilt on request after a change.
//!
//! The status of a thousand leases has a megabyte, and usually only the height has changed since the last
//! request. All callers therefore share one status. The values that change often are replaced in the shared
//! status.

use super::state_machine::StateMachine;
use crate::engine::{Lifecycle, Status};
use crate::types::{Mono, Now};
use std::sync::Arc;
use std::time::Duration;

/// Maximum age of a cached status if its values change with time.
const AGE_MAX: Duration = Duration::from_secs(1);

/// The last returned status of the engine.
#[derive(Debug, Default)]
pub(super) struct StatusCache {
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    status: Arc<Status>,
    changes: u64,
    at: Mono,
    ages: bool,
}

impl StatusCache {
    pub(super) fn status(
        &mut self,
        brain: &impl StateMachine,
        now: Now,
        lifecycle: Lifecycle,
    ) -> Arc<Status> {
        let changes = brain.changes();
        let is_fresh = |last: &Last| {
            let is_old = last.ages && now.mono.since(last.at) >= AGE_MAX;
            last.changes == changes && last.status.lifecycle == lifecycle && !is_old
        };
        if let Some(last) = self.last.as_mut().filter(|last| is_fresh(last)) {
            let pulse = brain.pulse();
            if last.status.pulse() != pulse {
                // Copied only if another caller still holds the status.
                Arc::make_mut(&mut last.status).set_pulse(pulse);
            }
            return Arc::clone(&last.status);
        }
        let mut status = brain.status(now);
        status.lifecycle = lifecycle;
        let (ages, status) = (status.is_time_dependent(), Arc::new(status));
        self.last = Some(Last {
            status: Arc::clone(&status),
            changes,
            at: now.mono,
            ages,
        });
        status
    }

    /// Returns whether the status may have changed since the last returned status.
    pub(super) fn may_differ(&self, brain: &impl StateMachine) -> bool {
        let last = self.last.as_ref();
        last.is_none_or(|last| last.ages || last.changes != brain.changes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Health;
    use crate::engine::status::LeaseInfo;
    use crate::engine::{Input, Leadership, LeasePhase};
    use crate::runtime::fakes::{Memory, ScriptedMachine, lease};
    use crate::types::{BlockTime, ChainEvent, DecCoin};
    use std::sync::Mutex;

    fn brain(health: Health) -> ScriptedMachine {
        let info = |number| LeaseInfo {
            lease: lease(number),
            price: DecCoin::new(&"uact".into(), "1".parse().unwrap()),
            phase: LeasePhase::Running,
            health,
            known_unhealthy_ms: 0,
            unhealthy_limit_ms: None,
            generation: Some(1),
            last_error: None,
            ending: None,
            waiting_for: None,
            record_problem: None,
            payout_error: None,
        };
        let status = Status {
            leases: (0..1000).map(info).collect(),
            ..Status::default()
        };
        let memory = Memory {
            status,
            ..Memory::default()
        };
        ScriptedMachine {
            memory: Arc::new(Mutex::new(memory)),
            reaction: Box::new(|_, _| Vec::new()),
        }
    }

    fn at(milliseconds: u64) -> Now {
        Now {
            mono: Mono(milliseconds),
            ..Now::default()
        }
    }

    fn block(brain: &mut ScriptedMachine, height: u64) {
        let time = BlockTime(0);
        brain.step(at(0), Input::Chain(ChainEvent::Block { height, time }));
    }

    fn made(brain: &ScriptedMachine) -> usize {
        brain.memory.lock().unwrap().statuses
    }

    #[test]
    fn an_unchanged_status_of_a_thousand_leases_is_built_once() {
        let (mut brain, mut cache) = (brain(Health::Good), StatusCache::default());
        let first = cache.status(&brain, at(0), Lifecycle::Running);
        // Over one hour with two requests per second and a block every six seconds.
        let looking = allocation_counter::measure(|| {
            for look in 0..7200 {
                let status = cache.status(&brain, at(500 * look), Lifecycle::Running);
                assert!(Arc::ptr_eq(&status, &first));
            }
        });
        assert_eq!((looking.count_total, made(&brain)), (0, 1));
        drop(first);
        for height in 1..=600 {
            block(&mut brain, height);
            assert!(!cache.may_differ(&brain));
            let mut status = None;
            let looking = allocation_counter::measure(|| {
                status = Some(cache.status(&brain, at(0), Lifecycle::Running))
            });
            assert_eq!(looking.count_total, 0, "block {height}");
            assert_eq!(status.unwrap().unexpected_inputs, height);
        }
        assert_eq!(made(&brain), 1);
    }

    #[test]
    fn a_changed_status_is_rebuilt_and_shared_copies_stay_unchanged() {
        let (mut brain, mut cache) = (brain(Health::Good), StatusCache::default());
        let before = cache.status(&brain, at(0), Lifecycle::Running);
        block(&mut brain, 1);
        let after = cache.status(&brain, at(0), Lifecycle::Running);
        assert_eq!((before.unexpected_inputs, after.unexpected_inputs), (0, 1));
        brain.memory.lock().unwrap().status.leases.pop();
        brain.step(at(0), Input::Leadership(Leadership::Standby));
        assert!(cache.may_differ(&brain));
        assert_eq!(cache.status(&brain, at(0), Lifecycle::Running).leases.len(), 999);
        assert_eq!(
            cache.status(&brain, at(0), Lifecycle::Shutdown).lifecycle,
            Lifecycle::Shutdown
        );
        assert_eq!((made(&brain), after.leases.len()), (3, 1000));
    }

    #[test]
    fn a_missing_version_serializes_as_zero() {
        let (brain, mut cache) = (brain(Health::Good), StatusCache::default());
        brain.memory.lock().unwrap().status.leases[0].generation = None;
        let status = cache.status(&brain, at(0), Lifecycle::Running);
        let written = serde_json::to_value(&*status).unwrap();
        assert_eq!(written["lifecycle"], "running");
        assert_eq!(written["leases"][0]["phase"], "running");
        let versions = [0, 1].map(|n| written["leases"][n]["generation"].as_u64());
        assert_eq!(versions, [Some(0), Some(1)]);
    }

    #[test]
    fn unhealthy_time_in_the_status_is_at_most_one_second_old() {
        let (brain, mut cache) = (brain(Health::Bad), StatusCache::default());
        for look in 0..20 {
            cache.status(&brain, at(100 * look), Lifecycle::Running);
        }
        assert_eq!(made(&brain), 2);
        assert!(cache.may_differ(&brain));
    }
}
