//! Restart policy: a pure state machine that gets the time as an argument.
//!
//! | state | failed, restarts left | failed, none left | due |
//! |---|---|---|---|
//! | running | waiting, with the duration | over | running |
//! | waiting | waiting | waiting | running |
//! | over | over | over | over |
//!
//! A restart is counted until it is as old as the window. The wait before a restart doubles with each counted
//! restart.

use std::collections::VecDeque;
use std::time::Duration;

/// Limits of the restarts of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Maximum number of restarts within the window.
    pub restarts: u32,
    /// Length of the window: older restarts are not counted.
    pub window: Duration,
    /// Pause before the first counted restart, doubled for each further one.
    pub first: Duration,
    /// Maximum wait before a restart.
    pub longest: Duration,
}

impl RestartPolicy {
    /// Policy of a part that is never restarted.
    pub const NEVER: Self = Self {
        restarts: 0,
        window: Duration::ZERO,
        first: Duration::ZERO,
        longest: Duration::ZERO,
    };
    /// Policy of most parts: five restarts within ten minutes.
    pub const USUAL: Self = Self {
        restarts: 5,
        window: Duration::from_secs(600),
        first: Duration::from_secs(1),
        longest: Duration::from_secs(30),
    };
    /// Policy that permits any number of restarts, for parts that no lease depends on.
    pub const UNLIMITED: Self = Self {
        restarts: u32::MAX,
        ..Self::USUAL
    };
}

/// State of a supervised part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PartState {
    /// Running.
    Running,
    /// Failed, with a pending restart.
    Waiting,
    /// Failed permanently.
    Over,
}

/// Event of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartInput {
    /// The part returned or panicked.
    Failed,
    /// The pause before the restart has ended.
    Due,
}

/// Action that the supervisor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartAction {
    /// No action.
    Nothing,
    /// Restart after this time.
    Wait(Duration),
    /// End the process.
    End,
}

/// State machine of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestartMachine {
    policy: RestartPolicy,
    state: PartState,
    /// Times of the restarts within the policy's window.
    restarts: VecDeque<Duration>,
}

impl RestartMachine {
    /// Creates the state machine of a newly started part.
    #[must_use]
    pub(crate) const fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            state: PartState::Running,
            restarts: VecDeque::new(),
        }
    }

    /// Returns the state.
    #[cfg(test)]
    pub(crate) const fn state(&self) -> PartState {
        self.state
    }

    /// Returns the number of restarts within the policy's window.
    #[must_use]
    pub(crate) fn restarts(&self) -> u32 {
        u32::try_from(self.restarts.len()).unwrap_or(u32::MAX)
    }

    /// Processes an event and returns the action to take. `now` must not decrease between calls.
    pub(crate) fn step(&mut self, now: Duration, input: RestartInput) -> RestartAction {
        let (state, action) = match (self.state, input) {
            (PartState::Running, RestartInput::Failed) => self.failed(now),
            (PartState::Waiting, RestartInput::Due) => (PartState::Running, RestartAction::Nothing),
            (state, RestartInput::Failed | RestartInput::Due) => (state, RestartAction::Nothing),
        };
        self.state = state;
        action
    }

    fn failed(&mut self, now: Duration) -> (PartState, RestartAction) {
        let window = self.policy.window;
        while self
            .restarts
            .front()
            .is_some_and(|at| now.saturating_sub(*at) >= window)
        {
            self.restarts.pop_front();
        }
        if self.restarts() >= self.policy.restarts {
            return (PartState::Over, RestartAction::End);
        }
        let doubled = 2u32.saturating_pow(self.restarts());
        let wait = self.policy.first.saturating_mul(doubled);
        self.restarts.push_back(now);
        (
            PartState::Waiting,
            RestartAction::Wait(wait.min(self.policy.longest)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const POLICY: RestartPolicy = RestartPolicy {
        restarts: 2,
        window: Duration::from_secs(60),
        first: SECOND,
        longest: Duration::from_secs(30),
    };

    fn at(state: PartState, restarts: &[u64]) -> RestartMachine {
        RestartMachine {
            policy: POLICY,
            state,
            restarts: restarts.iter().map(|at| Duration::from_secs(*at)).collect(),
        }
    }

    #[test]
    fn handles_every_input_in_every_state() {
        use PartState::{Over, Running, Waiting};
        use RestartAction::{End, Nothing, Wait};
        use RestartInput::{Due, Failed};
        let now = Duration::from_secs(59);
        for (from, restarts, input, to, action) in [
            (Running, &[][..], Failed, Waiting, Wait(SECOND)),
            (Running, &[50], Failed, Waiting, Wait(2 * SECOND)),
            (Running, &[0, 50], Failed, Over, End),
            (Running, &[], Due, Running, Nothing),
            (Waiting, &[50], Failed, Waiting, Nothing),
            (Waiting, &[50], Due, Running, Nothing),
            (Over, &[], Failed, Over, Nothing),
            (Over, &[], Due, Over, Nothing),
        ] {
            let mut machine = at(from, restarts);
            let done = machine.step(now, input);
            assert_eq!(
                (machine.state(), done),
                (to, action),
                "{from:?} {restarts:?} {input:?}"
            );
        }
        // A restart counts until the end of the window.
        let mut machine = at(Running, &[0, 50]);
        assert_eq!(machine.step(Duration::from_secs(60), Failed), Wait(2 * SECOND));
        assert_eq!(RestartMachine::new(RestartPolicy::NEVER).step(now, Failed), End);
    }

    fn policies() -> impl Strategy<Value = RestartPolicy> {
        (0u32..6, 1u64..1_000, 1u64..50, 1u64..200).prop_map(|(restarts, window, first, longest)| {
            RestartPolicy {
                restarts,
                window: Duration::from_secs(window),
                first: Duration::from_secs(first),
                longest: Duration::from_secs(first + longest),
            }
        })
    }

    proptest! {
        #[test]
        fn no_window_has_more_restarts_than_allowed_and_no_wait_is_out_of_bounds(
            policy in policies(),
            lives in prop::collection::vec(0u64..300, 1..60),
        ) {
            let (mut machine, mut now) = (RestartMachine::new(policy), Duration::ZERO);
            let mut restarts: Vec<Duration> = Vec::new();
            for life in lives {
                now += Duration::from_secs(life);
                let within = restarts.iter().filter(|at| now - **at < policy.window).count();
                match machine.step(now, RestartInput::Failed) {
                    RestartAction::Wait(wait) => {
                        prop_assert!(within < policy.restarts as usize, "{within} within the window");
                        prop_assert!(wait >= policy.first && wait <= policy.longest, "{wait:?}");
                        restarts.push(now);
                        now += wait;
                        machine.step(now, RestartInput::Due);
                        prop_assert_eq!(machine.state(), PartState::Running);
                    }
                    RestartAction::End => {
                        prop_assert_eq!(within, policy.restarts as usize, "ended too early");
                        prop_assert_eq!(machine.step(now, RestartInput::Due), RestartAction::Nothing);
                        prop_assert_eq!(machine.state(), PartState::Over);
                        return Ok(());
                    }
                    RestartAction::Nothing => prop_assert!(false, "the failure of a running part has no effect"),
                }
            }
        }

        #[test]
        fn waits_grow_while_failures_follow_each_other(policy in policies()) {
            let (mut machine, mut last) = (RestartMachine::new(policy), Duration::ZERO);
            while let RestartAction::Wait(wait) = machine.step(Duration::ZERO, RestartInput::Failed) {
                prop_assert!(wait >= last);
                last = wait;
                machine.step(Duration::ZERO, RestartInput::Due);
            }
            prop_assert_eq!(machine.restarts(), policy.restarts);
        }
    }
}
