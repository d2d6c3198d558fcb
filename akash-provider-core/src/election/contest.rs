//! Who leads, as a pure machine: what was read and written goes in, what is to be done comes out. Times are those of our
//! own monotonic clock; a time that somebody else wrote is only compared for whether it changed, so that clocks which
//! disagree do no harm.

use super::store::{Beside, Claim, DURATION_MAX, Record, Stored, TERM_LEAP, TERM_MAX, Timing};
use std::collections::BTreeMap;
use std::time::Duration;

/// One who contends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Who it is, for people and to tell it from the others: no two may have the same.
    pub identity: String,
    /// Where others ask it while it leads; may be empty.
    pub address: String,
    /// The settings that all must have alike, each as a short hash.
    pub settings: BTreeMap<String, String>,
    /// Those of them that say whose election it is: who has another one there never leads.
    pub fixed: &'static [&'static str],
    /// With other settings than the leader before it does not wait for one that has the same as that.
    pub brings_settings: bool,
}

/// Whether a candidate may lead after a leader with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    AtOnce,
    /// Once there was time for those who have the same settings as the leader before.
    Later,
    Never,
}

impl Candidate {
    fn stance(&self, differing: &[String]) -> Stance {
        match differing {
            [] => Stance::AtOnce,
            names if names.iter().any(|name| self.fixed.contains(&name.as_str())) => Stance::Never,
            _ if self.brings_settings => Stance::AtOnce,
            _ => Stance::Later,
        }
    }
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
    me: Candidate,
    /// Settings before their last change, and the time of that change.
    changed: BTreeMap<String, (String, Duration)>,
    timing: Timing,
    /// Limit of the next call.
    call_limit: Duration,
    /// Calls without a response since the last response, and the duration of the last of them.
    failures: (u32, Duration),
    known: Known,
    /// Since when the record says what it says, whichever version it has.
    unchanged: Option<(Record, Duration)>,
    held: Option<Held>,
    /// Whoever leads by a record that was deleted before we made ours has stopped by then.
    not_before: Duration,
    /// We began to make a record and do not know what came of it: it may still be made, however late.
    may_create: bool,
    highest_term: u64,
    /// The term that was read last, where no leadership can have it.
    implausible: Option<u64>,
    /// What the next leader must know: ours while we lead, and what was read last while we do not.
    kept: String,
}

impl Contest {
    /// `kept` is for a record that says nothing of what was kept, or is not there.
    pub(super) fn new(me: Candidate, kept: String, timing: Timing) -> Self {
        let timing = timing.sane();
        Self {
            me,
            changed: BTreeMap::new(),
            timing,
            call_limit: timing.first_limit(),
            failures: (0, Duration::ZERO),
            known: Known::Unknown,
            unchanged: None,
            held: None,
            not_before: Duration::ZERO,
            may_create: false,
            highest_term: 0,
            implausible: None,
            kept,
        }
    }

    /// One that knows of leaderships up to this term.
    pub(super) const fn after_term(mut self, term: u64) -> Self {
        if term <= TERM_MAX {
            self.highest_term = term;
        } else {
            self.implausible = Some(term);
        }
        self
    }

    /// Returns the term that was read last if no leadership can have it.
    pub(super) const fn implausible(&self) -> Option<u64> {
        self.implausible
    }

    /// The highest term that was ever seen.
    pub(super) const fn highest_term(&self) -> u64 {
        self.highest_term
    }

    /// The term that we lead in, and until when we do without another sign of life.
    pub(super) fn leads(&self, now: Duration) -> Option<(u64, Duration)> {
        let held = self.held?;
        let until = held.confirmed + self.timing.renew;
        (self.not_before <= now && now < until).then_some((held.term, until))
    }

    /// The record, as far as we know.
    pub(super) const fn record(&self) -> Option<&Record> {
        match &self.known {
            Known::There(stored) => Some(&stored.record),
            Known::Unknown | Known::Absent => None,
        }
    }

    /// The settings that the record has otherwise than we.
    pub(super) fn other_settings(&self) -> Vec<String> {
        self.record()
            .map_or_else(Vec::new, |record| self.differing(&record.beside))
    }

    /// Returns the names of settings with another value in the record. A setting that only one of the two has does not
    /// count. A record from before our last change of a setting may show the value from before it: the holder may have
    /// changed the setting too and stopped before its next heartbeat.
    fn differing(&self, theirs: &Beside) -> Vec<String> {
        let seen = self
            .unchanged
            .as_ref()
            .map_or(Duration::ZERO, |(_, since)| *since);
        let is_outdated = |name: &String, their: &String| {
            let before = self.changed.get(name);
            before.is_some_and(|(value, at)| value == their && seen <= *at + self.timing.retry * 2)
        };
        let other = |(name, ours): &(&String, &String)| {
            let their = theirs.settings.get(*name);
            their.is_some_and(|their| their != *ours && !is_outdated(name, their))
        };
        let differing = self.me.settings.iter().filter(other);
        differing.map(|(name, _)| name.clone()).collect()
    }

    /// Replaces our settings. Returns true if one of them changed.
    pub(super) fn set_settings(&mut self, settings: BTreeMap<String, String>, now: Duration) -> bool {
        let before = std::mem::replace(&mut self.me.settings, settings);
        let changed = |(name, value): &(String, String)| self.me.settings.get(name) != Some(value);
        let changed: Vec<(String, String)> = before.into_iter().filter(changed).collect();
        let is_changed = !changed.is_empty();
        let changed = changed.into_iter().map(|(name, value)| (name, (value, now)));
        self.changed.extend(changed);
        is_changed
    }

    /// Returns the limit of the next call. The limit is short while the store responds, so that one lost call does not
    /// delay a take-over.
    pub(super) const fn call_limit(&self) -> Duration {
        self.call_limit
    }

    /// What the next leader must know.
    pub(super) fn kept(&self) -> &str {
        &self.kept
    }

    /// Keeps it for the next leader from the next sign of life on; false where we do not lead.
    pub(super) fn keep_for_the_next(&mut self, kept: String) -> bool {
        let leads = self.held.is_some();
        if leads {
            self.kept = kept;
        }
        leads
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
                Plan::Create(self.claim(self.next_term(), true))
            }
            Known::There(Stored { record, version }) => {
                let (term, begins) = match (&record.holder, self.held) {
                    (Some(holder), Some(held)) if *holder == self.me.identity => {
                        (held.term.max(self.term_of(record)), false)
                    }
                    // A write of ours arrived, and its answer did not. A record of an earlier term of ours, as a store
                    // has it that lost the later ones, is as good as anybody's: whoever led after us may still lead.
                    (Some(holder), None)
                        if *holder == self.me.identity
                            && record.term >= self.highest_term
                            && self.is_plausible(record.term) =>
                    {
                        (record.term, false)
                    }
                    _ if self.may_begin(record, now) => (self.next_term(), true),
                    _ => return Plan::Read,
                };
                Plan::Replace(self.claim(term, begins), version.clone())
            }
        }
    }

    /// How long nothing need be done: at most until the next look.
    pub(super) fn pause(&self, now: Duration) -> Duration {
        if let (failures @ 1.., took) = self.failures {
            // A short pause initially: the failed call may be the one that takes over.
            return (self.timing.retry / (8 >> failures.min(3))).saturating_sub(took);
        }
        let leads_later = self.held.is_some() && now < self.not_before;
        if leads_later {
            return self.timing.retry.min(self.not_before - now);
        }
        // Not a whole pause behind the moment from which it is free.
        let free = self
            .record()
            .filter(|_| self.held.is_none())
            .and_then(|record| self.free_from(record));
        match free.map(|free| free.saturating_sub(now)) {
            Some(wait) if !wait.is_zero() => self.timing.retry.min(wait),
            _ => self.timing.retry,
        }
    }

    /// What would hand the leadership over; `None` where there is none to hand over.
    pub(super) fn release(&mut self) -> Option<Plan> {
        let held = self.held.take()?;
        let Known::There(Stored { record, version }) = &self.known else {
            return None;
        };
        if record.holder.as_ref() != Some(&self.me.identity) {
            return None;
        }
        let claim = Claim {
            holder: None,
            ..self.claim(held.term, false)
        };
        Some(Plan::Replace(claim, version.clone()))
    }

    /// The record was read, or there is none.
    pub(super) fn saw(&mut self, stored: Option<Stored>, now: Duration) {
        let Some(stored) = stored else {
            (self.known, self.unchanged) = (Known::Absent, None);
            return;
        };
        if stored.record.holder.as_ref() != Some(&self.me.identity) {
            self.held = None;
        } else if self.held.is_none() && self.may_create {
            // It may be the record that we made without knowing, in place of one that was deleted just before.
            self.wait_out(now);
        }
        self.keep(stored, now);
    }

    /// The record was read at the end; true where it still says that we lead, so that it can be handed over.
    pub(super) fn still_holds(&mut self, stored: Option<Stored>) -> bool {
        let ours = stored.filter(|stored| stored.record.holder.as_ref() == Some(&self.me.identity));
        self.held = ours.as_ref().map(|stored| Held {
            term: self.term_of(&stored.record),
            confirmed: Duration::ZERO,
        });
        self.known = ours.map_or(Known::Unknown, Known::There);
        self.held.is_some()
    }

    /// We lead, or led a moment ago.
    pub(super) const fn holds(&self) -> bool {
        self.held.is_some()
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
        let ours = stored.record.holder.as_ref() == Some(&self.me.identity);
        let claimed = match plan {
            Plan::Create(claim) | Plan::Replace(claim, _) => claim.term,
            Plan::Read => self.highest_term,
        };
        let given = stored.record.term;
        self.held = ours.then_some(Held {
            term: if self.is_plausible(given) { given } else { claimed },
            confirmed: begun,
        });
        self.keep(stored, begun);
    }

    /// A read or a write failed, or somebody else wrote first: what is known has to be read again.
    pub(super) fn failed(&mut self) {
        self.known = Known::Unknown;
    }

    /// Records a call that got no response, or an error, after this time.
    pub(super) fn got_no_response(&mut self, took: Duration) {
        self.failures = (self.failures.0.saturating_add(1), took);
        self.call_limit = self.timing.longest_limit();
        self.failed();
    }

    /// Records a call that got its response after this time.
    pub(super) fn got_response(&mut self, took: Duration) {
        self.failures = (0, Duration::ZERO);
        let (least, most) = (self.timing.first_limit(), self.timing.longest_limit());
        self.call_limit = (took * 2).clamp(least, most);
    }

    fn wait_out(&mut self, now: Duration) {
        self.may_create = false;
        self.not_before = now + self.timing.lease;
    }

    fn keep(&mut self, stored: Stored, now: Duration) {
        let term = stored.record.term;
        self.implausible = (!self.is_plausible(term)).then_some(term);
        self.highest_term = self.highest_term.max(self.term_of(&stored.record));
        if self.held.is_none() && !stored.record.beside.kept.is_empty() {
            self.kept.clone_from(&stored.record.beside.kept);
        }
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

    fn may_begin(&self, record: &Record, now: Duration) -> bool {
        self.free_from(record).is_some_and(|free| free <= now)
    }

    /// From when on the record keeps us from nothing; `None` where it always does.
    fn free_from(&self, record: &Record) -> Option<Duration> {
        let since = self.unchanged.as_ref().map(|(_, since)| *since)?;
        // A second at least, because a record can say zero.
        let lease = record.lease.clamp(Duration::from_secs(1), DURATION_MAX);
        let over = match record.holder {
            Some(_) => since + lease,
            None => since,
        };
        match self.me.stance(&self.differing(&record.beside)) {
            Stance::AtOnce => Some(over),
            Stance::Later => Some(over + self.timing.lease),
            Stance::Never => None,
        }
    }

    /// False for a term that no leadership can have. A forged term must not use up all later ones.
    const fn is_plausible(&self, term: u64) -> bool {
        let leap = self.highest_term.saturating_add(TERM_LEAP);
        // Our own next term is always one of them.
        term <= self.next_term() || (term <= leap && term <= TERM_MAX)
    }

    /// The term of a record, or the highest known one where the record's is implausible.
    const fn term_of(&self, record: &Record) -> u64 {
        if self.is_plausible(record.term) {
            record.term
        } else {
            self.highest_term
        }
    }

    /// Above every term that was ever seen, also where the record is an older one again.
    const fn next_term(&self) -> u64 {
        self.highest_term.saturating_add(1)
    }

    fn claim(&self, term: u64, begins: bool) -> Claim {
        Claim {
            holder: Some(self.me.identity.clone()),
            term,
            begins,
            lease: self.timing.lease,
            beside: Beside {
                address: self.me.address.clone(),
                settings: self.me.settings.clone(),
                kept: self.kept.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
