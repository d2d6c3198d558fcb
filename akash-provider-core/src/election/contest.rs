//! Leader election as a pure state machine. The inputs are results of reads and writes, and the output is the
//! next action. All times are of the monotonic clock of this instance. The election record contains no times
//! to compare, so the clocks of the instances may differ.

use super::store::{
    Claim, ElectionRecord, LEASE_DURATION_MAX, RecordPayload, Stored, TERM_LEAP, TERM_MAX, Timing,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// One instance that takes part in the election.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Candidate {
    /// Unique name of the instance in logs and in the election record.
    pub identity: String,
    /// Address at which clients reach this instance when it is the leader; may be empty.
    pub address: String,
    /// Settings that must be equal on all instances, by name. Each value is a short hash of the setting.
    pub settings: BTreeMap<String, String>,
    /// Names of the settings that identify the election. A candidate with another value of such a setting
    /// never leads.
    pub fixed: &'static [&'static str],
    /// Whether this candidate may immediately replace a leader that has other settings. If false, the
    /// candidate waits one more lease duration. During this time, an instance with the leader's settings can
    /// take over.
    pub brings_settings: bool,
}

/// Delay after which a candidate may replace a leader that has other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakeoverDelay {
    AtOnce,
    /// The candidate waits, so that a candidate with the leader's settings can take over first.
    Later,
    Never,
}

impl Candidate {
    /// Creates a candidate with this unique name, without an address and without settings to compare.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            ..Self::default()
        }
    }

    fn stance(&self, differing: &[String]) -> TakeoverDelay {
        match differing {
            [] => TakeoverDelay::AtOnce,
            names if names.iter().any(|name| self.fixed.contains(&name.as_str())) => TakeoverDelay::Never,
            _ if self.brings_settings => TakeoverDelay::AtOnce,
            _ => TakeoverDelay::Later,
        }
    }
}

/// Next action of the candidate on the election record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ElectionStep {
    Read,
    /// Create the missing election record.
    Create(Claim),
    /// Replace the given version of the election record.
    Replace(Claim, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CachedRecord {
    /// The election record must be read.
    Unknown,
    Absent,
    There(Stored),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnTerm {
    term: u64,
    /// Start time of the last successful heartbeat call.
    confirmed: Duration,
}

/// State machine of one candidate.
#[derive(Debug, Clone)]
pub(super) struct Contest {
    me: Candidate,
    /// Changed settings of this instance, each with the previous value and the time of the change.
    changed: BTreeMap<String, (String, Duration)>,
    timing: Timing,
    /// Timeout of the next call to the election store.
    call_limit: Duration,
    /// Number of consecutive calls without a response, and the duration of the last call.
    failures: (u32, Duration),
    cached_record: CachedRecord,
    /// Last content of the election record, and the time at which this content was first observed.
    unchanged: Option<(ElectionRecord, Duration)>,
    own_term: Option<OwnTerm>,
    /// Earliest time at which this instance may lead after a deletion of the election record. Until this
    /// time, the previous leader may still lead.
    not_before: Duration,
    /// Whether a `create` call without a response can still create the record.
    may_create: bool,
    highest_term: u64,
    /// Last term in the record if this term is implausible, otherwise `None`.
    implausible: Option<u64>,
    /// State for the next leader. A standby stores the state that it last read.
    state: String,
}

impl Contest {
    /// Creates a candidate. `state` applies only if the election record contains no state.
    pub(super) fn new(me: Candidate, state: String, timing: Timing) -> Self {
        let timing = timing.sane();
        Self {
            me,
            changed: BTreeMap::new(),
            timing,
            call_limit: timing.first_limit(),
            failures: (0, Duration::ZERO),
            cached_record: CachedRecord::Unknown,
            unchanged: None,
            own_term: None,
            not_before: Duration::ZERO,
            may_create: false,
            highest_term: 0,
            implausible: None,
            state,
        }
    }

    /// Sets the highest known term.
    pub(super) const fn after_term(mut self, term: u64) -> Self {
        if term <= TERM_MAX {
            self.highest_term = term;
        } else {
            self.implausible = Some(term);
        }
        self
    }

    /// Returns the last term in the record if this term is implausible, otherwise `None`.
    pub(super) const fn implausible(&self) -> Option<u64> {
        self.implausible
    }

    pub(super) const fn highest_term(&self) -> u64 {
        self.highest_term
    }

    /// Returns the term in which this instance leads. Also returns the time at which the leadership ends if
    /// no further heartbeat succeeds.
    pub(super) fn leads(&self, now: Duration) -> Option<(u64, Duration)> {
        let own_term = self.own_term?;
        let until = own_term.confirmed + self.timing.renew;
        (self.not_before <= now && now < until).then_some((own_term.term, until))
    }

    /// Returns the election record that was last read or written.
    pub(super) const fn record(&self) -> Option<&ElectionRecord> {
        match &self.cached_record {
            CachedRecord::There(stored) => Some(&stored.record),
            CachedRecord::Unknown | CachedRecord::Absent => None,
        }
    }

    pub(super) fn other_settings(&self) -> Vec<String> {
        self.record()
            .map_or_else(Vec::new, |record| self.differing(&record.payload))
    }

    /// Returns the names of settings with different values in this instance and in the record. Settings that
    /// exist only on one side are ignored.
    ///
    /// After a setting changed on this instance, its old value in the record is not a difference for a short
    /// time. The holder may have made the same change and not written it yet.
    fn differing(&self, theirs: &RecordPayload) -> Vec<String> {
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

    /// Replaces the settings. Returns whether any value changed.
    pub(super) fn set_settings(&mut self, settings: BTreeMap<String, String>, now: Duration) -> bool {
        let before = std::mem::replace(&mut self.me.settings, settings);
        let changed = |(name, value): &(String, String)| self.me.settings.get(name) != Some(value);
        let changed: Vec<(String, String)> = before.into_iter().filter(changed).collect();
        let is_changed = !changed.is_empty();
        let changed = changed.into_iter().map(|(name, value)| (name, (value, now)));
        self.changed.extend(changed);
        is_changed
    }

    /// Returns the timeout of the next call. The timeout is short while the store responds.
    pub(super) const fn call_limit(&self) -> Duration {
        self.call_limit
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }

    /// Sets the state for the next leader. The next heartbeat writes this state. Returns false if this
    /// instance does not lead.
    pub(super) fn set_state(&mut self, state: String) -> bool {
        let leads = self.own_term.is_some();
        if leads {
            self.state = state;
        }
        leads
    }

    pub(super) fn plan(&mut self, now: Duration) -> ElectionStep {
        if self
            .own_term
            .is_some_and(|own_term| now >= own_term.confirmed + self.timing.renew)
        {
            self.own_term = None;
        }
        match &self.cached_record {
            CachedRecord::Unknown => ElectionStep::Read,
            CachedRecord::Absent => {
                self.may_create = true;
                ElectionStep::Create(self.claim(self.next_term(), true))
            }
            CachedRecord::There(Stored { record, version }) => {
                let (term, begins) = match (&record.holder, self.own_term) {
                    (Some(holder), Some(own_term)) if *holder == self.me.identity => {
                        (own_term.term.max(self.term_of(record)), false)
                    }
                    // The write of this instance took effect and its response was lost. A record with an
                    // earlier term of this instance, from a store that lost later writes, is treated like a
                    // record of another holder: a later leader may still lead.
                    (Some(holder), None)
                        if *holder == self.me.identity
                            && record.term >= self.highest_term
                            && self.is_plausible(record.term) =>
                    {
                        (record.term, false)
                    }
                    _ if self.may_begin(record, now) => (self.next_term(), true),
                    _ => return ElectionStep::Read,
                };
                ElectionStep::Replace(self.claim(term, begins), version.clone())
            }
        }
    }

    /// Returns the delay until the next call.
    pub(super) fn pause(&self, now: Duration) -> Duration {
        if let (failures @ 1.., took) = self.failures {
            // A short delay initially, because the failed call may be the call that takes over.
            return (self.timing.retry / (8 >> failures.min(3))).saturating_sub(took);
        }
        let leads_later = self.own_term.is_some() && now < self.not_before;
        if leads_later {
            return self.timing.retry.min(self.not_before - now);
        }
        // The next call must not come a whole interval after the record becomes free.
        let free = self
            .record()
            .filter(|_| self.own_term.is_none())
            .and_then(|record| self.free_from(record));
        match free.map(|free| free.saturating_sub(now)) {
            Some(wait) if !wait.is_zero() => self.timing.retry.min(wait),
            _ => self.timing.retry,
        }
    }

    /// Returns the action that releases the leadership, or `None` if this instance does not lead.
    pub(super) fn release(&mut self) -> Option<ElectionStep> {
        let own_term = self.own_term.take()?;
        let CachedRecord::There(Stored { record, version }) = &self.cached_record else {
            return None;
        };
        if record.holder.as_ref() != Some(&self.me.identity) {
            return None;
        }
        let claim = Claim {
            holder: None,
            ..self.claim(own_term.term, false)
        };
        Some(ElectionStep::Replace(claim, version.clone()))
    }

    /// Applies a read election record.
    pub(super) fn saw(&mut self, stored: Option<Stored>, now: Duration) {
        let Some(stored) = stored else {
            (self.cached_record, self.unchanged) = (CachedRecord::Absent, None);
            return;
        };
        if stored.record.holder.as_ref() != Some(&self.me.identity) {
            self.own_term = None;
        } else if self.own_term.is_none() && self.may_create {
            // The record may result from a `create` without a known result, in place of a record deleted just
            // before.
            self.wait_out(now);
        }
        self.cache(stored, now);
    }

    /// Processes the election record at shutdown. Returns true if this instance is still the holder.
    pub(super) fn still_holds(&mut self, stored: Option<Stored>) -> bool {
        let ours = stored.filter(|stored| stored.record.holder.as_ref() == Some(&self.me.identity));
        self.own_term = ours.as_ref().map(|stored| OwnTerm {
            term: self.term_of(&stored.record),
            confirmed: Duration::ZERO,
        });
        self.cached_record = ours.map_or(CachedRecord::Unknown, CachedRecord::There);
        self.own_term.is_some()
    }

    /// Returns true if this instance is the holder, even if its last heartbeat is too old to lead.
    pub(super) const fn holds(&self) -> bool {
        self.own_term.is_some()
    }

    /// Records a successful write of this instance. `begun` is the start of the call.
    pub(super) fn wrote(&mut self, plan: &ElectionStep, stored: Stored, begun: Duration, now: Duration) {
        if matches!(plan, ElectionStep::Create(_)) {
            // No other instance has led in the meantime if the record was held continuously.
            let goes_on = self
                .own_term
                .is_some_and(|own_term| now < own_term.confirmed + self.timing.renew);
            if !goes_on {
                self.wait_out(now);
            }
            self.may_create = false;
        }
        let ours = stored.record.holder.as_ref() == Some(&self.me.identity);
        let claimed = match plan {
            ElectionStep::Create(claim) | ElectionStep::Replace(claim, _) => claim.term,
            ElectionStep::Read => self.highest_term,
        };
        let given = stored.record.term;
        self.own_term = ours.then_some(OwnTerm {
            term: if self.is_plausible(given) { given } else { claimed },
            confirmed: begun,
        });
        self.cache(stored, begun);
    }

    /// Marks the cached election record as outdated, so that it is read again.
    pub(super) fn failed(&mut self) {
        self.cached_record = CachedRecord::Unknown;
    }

    /// Records a call that failed or had no response. `took` is the duration of the call.
    pub(super) fn got_no_response(&mut self, took: Duration) {
        self.failures = (self.failures.0.saturating_add(1), took);
        self.call_limit = self.timing.longest_limit();
        self.failed();
    }

    pub(super) fn got_response(&mut self, took: Duration) {
        self.failures = (0, Duration::ZERO);
        let (least, most) = (self.timing.first_limit(), self.timing.longest_limit());
        self.call_limit = (took * 2).clamp(least, most);
    }

    fn wait_out(&mut self, now: Duration) {
        self.may_create = false;
        self.not_before = now + self.timing.lease;
    }

    fn cache(&mut self, stored: Stored, now: Duration) {
        let term = stored.record.term;
        self.implausible = (!self.is_plausible(term)).then_some(term);
        self.highest_term = self.highest_term.max(self.term_of(&stored.record));
        if self.own_term.is_none() && !stored.record.payload.state.is_empty() {
            self.state.clone_from(&stored.record.payload.state);
        }
        // A new version with the same content is no heartbeat, for example after a change of labels.
        if self
            .unchanged
            .as_ref()
            .is_none_or(|(record, _)| *record != stored.record)
        {
            self.unchanged = Some((stored.record.clone(), now));
        }
        self.cached_record = CachedRecord::There(stored);
    }

    fn may_begin(&self, record: &ElectionRecord, now: Duration) -> bool {
        self.free_from(record).is_some_and(|free| free <= now)
    }

    /// Returns the earliest time at which this candidate may replace the holder, or `None` for never.
    fn free_from(&self, record: &ElectionRecord) -> Option<Duration> {
        let since = self.unchanged.as_ref().map(|(_, since)| *since)?;
        // At least one second, because a record can contain zero.
        let lease = record.lease.clamp(Duration::from_secs(1), LEASE_DURATION_MAX);
        let over = match record.holder {
            Some(_) => since + lease,
            None => since,
        };
        match self.me.stance(&self.differing(&record.payload)) {
            TakeoverDelay::AtOnce => Some(over),
            TakeoverDelay::Later => Some(over + self.timing.lease),
            TakeoverDelay::Never => None,
        }
    }

    /// Returns false for a term that is too high to be genuine. If such a term were used, later leaders could
    /// not exceed it.
    const fn is_plausible(&self, term: u64) -> bool {
        let leap = self.highest_term.saturating_add(TERM_LEAP);
        // The next term of this instance is always plausible.
        term <= self.next_term() || (term <= leap && term <= TERM_MAX)
    }

    /// Returns the term of a record or, if this term is implausible, the highest known term.
    const fn term_of(&self, record: &ElectionRecord) -> u64 {
        if self.is_plausible(record.term) {
            record.term
        } else {
            self.highest_term
        }
    }

    /// Returns the term for a new leadership, higher than the highest known term.
    const fn next_term(&self) -> u64 {
        self.highest_term.saturating_add(1)
    }

    fn claim(&self, term: u64, is_new_term: bool) -> Claim {
        Claim {
            holder: Some(self.me.identity.clone()),
            term,
            is_new_term,
            lease: self.timing.lease,
            payload: RecordPayload {
                address: self.me.address.clone(),
                settings: self.me.settings.clone(),
                state: self.state.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
