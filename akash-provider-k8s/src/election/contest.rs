//! Who leads, as a pure machine: what was read and written goes in, what is to be done comes out. Times are those of our
//! own monotonic clock; a time that somebody else wrote is only compared for whether it changed, so that clocks which
//! disagree do no harm.

use std::time::Duration;

/// The longest time that a record may keep others waiting, whatever it says.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(600);

/// How long a leadership lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Others wait so long after a leader's last sign of life before they take over.
    pub lease: Duration,
    /// A leader that could not say that it lives for so long leads no more. Shorter than `lease`, which is what keeps
    /// two from leading at once.
    pub renew: Duration,
    /// Pause between two looks.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// The same, with what would let two lead at once, or nobody, put right.
    pub(super) fn sane(self) -> Self {
        let lease = self.lease.clamp(Duration::from_secs(1), DURATION_MAX);
        let renew = self.renew.min(lease * 2 / 3);
        let retry = self.retry.clamp(Duration::from_millis(10), renew / 2);
        Self { lease, renew, retry }
    }
}

/// What the shared record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Who leads; `None` once it has handed over.
    pub(super) holder: Option<String>,
    /// How long others wait for its next sign of life.
    pub(super) lease: Duration,
    /// Counts the leaderships.
    pub(super) term: u64,
    /// The sign of life: any text that is another one each time.
    pub(super) sign: String,
}

/// A record as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) record: Record,
    /// Which a write must name, and which is another one after each write.
    pub(super) version: String,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Read,
    /// Only where there is none.
    Create(Claim),
    /// Only over the version named.
    Replace(Claim, String),
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// `None` hands over.
    pub(super) holder: Option<String>,
    pub(super) term: u64,
    /// It begins a leadership, and does not go on with one.
    pub(super) begins: bool,
}

/// What is known of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// Nothing, or no longer.
    Unknown,
    Absent,
    There(Stored),
}

/// A leadership of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    term: u64,
    /// When we began to write our last sign of life that arrived.
    confirmed: Duration,
}

/// One contestant.
#[derive(Debug, Clone)]
pub(super) struct Contest {
    me: String,
    timing: Timing,
    known: Known,
    /// Since when the record says what it says, whichever version it has.
    unchanged: Option<(Record, Duration)>,
    held: Option<Held>,
    /// Whoever leads by a record that was deleted before we made ours has stopped by then.
    not_before: Duration,
    /// We began to make a record and do not know what came of it: it may still be made, however late.
    may_create: bool,
    highest_term: u64,
}

impl Contest {
    pub(super) fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing: timing.sane(),
            known: Known::Unknown,
            unchanged: None,
            held: None,
            not_before: Duration::ZERO,
            may_create: false,
            highest_term: 0,
        }
    }

    /// The term that we lead in, and until when we do without another sign of life.
    pub(super) fn leads(&self, now: Duration) -> Option<(u64, Duration)> {
        let held = self.held?;
        let until = held.confirmed + self.timing.renew;
        (self.not_before <= now && now < until).then_some((held.term, until))
    }

    /// Who leads, as far as we know.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.known {
            Known::There(stored) => stored.record.holder.as_deref(),
            Known::Unknown | Known::Absent => None,
        }
    }

    pub(super) fn plan(&mut self, now: Duration) -> Plan {
        if self
            .held
            .is_some_and(|held| now >= held.confirmed + self.timing.renew)
        {
            self.held = None;
        }
        match &self.known {
            Known::Unknown => Plan::Read,
            Known::Absent => {
                self.may_create = true;
                Plan::Create(self.claim(self.highest_term.saturating_add(1), true))
            }
            Known::There(Stored { record, version }) => {
                let (term, begins) = match (&record.holder, self.held) {
                    (Some(holder), Some(held)) if *holder == self.me => (held.term.max(record.term), false),
                    // A write of ours arrived, and its answer did not.
                    (Some(holder), None) if *holder == self.me => (record.term, false),
                    (None, _) => (record.term.saturating_add(1), true),
                    (Some(_), _) if self.is_over(record, now) => (record.term.saturating_add(1), true),
                    (Some(_), _) => return Plan::Read,
                };
                Plan::Replace(self.claim(term, begins), version.clone())
            }
        }
    }

    /// How long nothing need be done: at most until the next look.
    pub(super) fn pause(&self, now: Duration) -> Duration {
        let leads_later = self.held.is_some() && now < self.not_before;
        if leads_later {
            self.timing.retry.min(self.not_before - now)
        } else {
            self.timing.retry
        }
    }

    /// What would hand the leadership over; `None` where there is none to hand over.
    pub(super) fn release(&mut self) -> Option<Plan> {
        let held = self.held.take()?;
        let Known::There(Stored { record, version }) = &self.known else {
            return None;
        };
        if record.holder.as_ref() != Some(&self.me) {
            return None;
        }
        let claim = Claim {
            holder: None,
            term: held.term,
            begins: false,
        };
        Some(Plan::Replace(claim, version.clone()))
    }

    /// The record was read, or there is none.
    pub(super) fn saw(&mut self, stored: Option<Stored>, now: Duration) {
        let Some(stored) = stored else {
            (self.known, self.unchanged) = (Known::Absent, None);
            return;
        };
        if stored.record.holder.as_ref() != Some(&self.me) {
            self.held = None;
        } else if self.held.is_none() && self.may_create {
            // It may be the record that we made without knowing, in place of one that was deleted just before.
            self.wait_out(now);
        }
        self.keep(stored, now);
    }

    /// A claim of ours arrived; `begun` is when we began to write it.
    pub(super) fn wrote(&mut self, plan: &Plan, stored: Stored, begun: Duration, now: Duration) {
        if matches!(plan, Plan::Create(_)) {
            // Nobody else has led meanwhile where we have all the time.
            let goes_on = self
                .held
                .is_some_and(|held| now < held.confirmed + self.timing.renew);
            if !goes_on {
                self.wait_out(now);
            }
            self.may_create = false;
        }
        let ours = stored.record.holder.as_ref() == Some(&self.me);
        self.held = ours.then_some(Held {
            term: stored.record.term,
            confirmed: begun,
        });
        self.keep(stored, begun);
    }

    /// A read or a write failed, or somebody else wrote first: what is known has to be read again.
    pub(super) fn failed(&mut self) {
        self.known = Known::Unknown;
    }

    fn wait_out(&mut self, now: Duration) {
        self.may_create = false;
        self.not_before = now + self.timing.lease;
    }

    fn keep(&mut self, stored: Stored, now: Duration) {
        self.highest_term = self.highest_term.max(stored.record.term);
        // Another version with the same words is no sign of life: somebody touched its labels.
        if self
            .unchanged
            .as_ref()
            .is_none_or(|(record, _)| *record != stored.record)
        {
            self.unchanged = Some((stored.record.clone(), now));
        }
        self.known = Known::There(stored);
    }

    fn is_over(&self, record: &Record, now: Duration) -> bool {
        // A second at least, because a record can say zero.
        let lease = record.lease.clamp(Duration::from_secs(1), DURATION_MAX);
        let since = self.unchanged.as_ref().map(|(_, since)| *since);
        since.is_some_and(|since| now >= since + lease)
    }

    fn claim(&self, term: u64, begins: bool) -> Claim {
        Claim {
            holder: Some(self.me.clone()),
            term,
            begins,
        }
    }
}

#[cfg(test)]
mod tests;
