//! Entries of the audit log around the calls.

use super::*;
use crate::audit::{AuditEntry, AuditLog, RECORD_TIMEOUT};
use crate::runtime::audit_trail::AuditTrail;
use crate::types::{Agreement, Lease, LeaseRecord, LeaseState, Observed};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Audit log in memory. Stores each entry with the number of earlier port calls.
#[derive(Debug, Default)]
struct FakeLog {
    script: Arc<Script>,
    entries: Mutex<Vec<(usize, AuditEntry)>>,
    fails: AtomicBool,
    hangs: AtomicBool,
}

impl FakeLog {
    fn push(&self, entry: AuditEntry) {
        let calls = self.script.log().len();
        self.entries.lock().unwrap().push((calls, entry));
    }

    /// Returns three values for each entry: the number of earlier port calls, the kind and the result.
    fn lines(&self) -> Vec<(usize, &'static str, &'static str)> {
        let entries = self.entries.lock().unwrap();
        let line = |(calls, entry): &(usize, AuditEntry)| {
            let result = entry.outcome.as_ref().map_or("intent", |outcome| outcome.result);
            (*calls, entry.act.kind.name(), result)
        };
        entries.iter().map(line).collect()
    }
}

#[async_trait::async_trait]
impl AuditLog for Arc<FakeLog> {
    async fn record(&self, entry: AuditEntry) -> Result<(), Error> {
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Internal, "audit log", "no space left"));
        }
        self.push(entry);
        Ok(())
    }

    fn submit(&self, entry: AuditEntry) {
        self.push(entry);
    }
}

fn world() -> (Arc<Script>, Arc<FakeLog>, AuditTrail) {
    let script = Arc::new(Script::default());
    let log = Arc::new(FakeLog {
        script: Arc::clone(&script),
        ..FakeLog::default()
    });
    let trail = AuditTrail::new(Some(Arc::new(Arc::clone(&log))));
    (script, log, trail)
}

fn start(executor: &mut Executor, trail: &mut AuditTrail, id: u64, call: Call) {
    let act = trail.act(&call, || fakes::audited(&call));
    executor.start(EffectId(id), call, act);
}

fn withdrawal() -> Call {
    Call::Broadcast(Msg::WithdrawLease { id: lease(1) })
}

#[tokio::test(start_paused = true)]
async fn an_intent_precedes_each_act_and_an_outcome_follows() {
    let (script, log, mut trail) = world();
    let mut executor = with_facets(&script, Vec::new());
    let calls = [Call::Teardown(lease(1)), broadcast(), withdrawal()];
    for call in calls.into_iter().chain([Call::FetchProvider]) {
        start(&mut executor, &mut trail, 1, call);
        executor.next(&BlockTime(0)).await.unwrap();
    }
    let expected = [
        (0, "teardown", "intent"),
        (3, "teardown", "done"),
        (3, "lease_close", "intent"),
        (4, "lease_close", "committed"),
        (4, "withdrawal", "intent"),
        (5, "withdrawal", "committed"),
    ];
    assert_eq!(log.lines(), expected);
    let entries = log.entries.lock().unwrap();
    let numbers: Vec<u64> = entries.iter().map(|(_, entry)| entry.number).collect();
    assert_eq!(numbers[0], numbers[1]);
    assert_ne!(numbers[1], numbers[2]);
    let outcome = entries[3].1.outcome.as_ref();
    assert_eq!(outcome.and_then(|outcome| outcome.height), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_fails_delays_only_acts_that_destroy() {
    for log_hangs in [false, true] {
        let (script, log, mut trail) = world();
        log.fails.store(!log_hangs, Ordering::SeqCst);
        log.hangs.store(log_hangs, Ordering::SeqCst);
        let mut executor = with_facets(&script, Vec::new());
        // More than the permits of the class, so that waiting acts would delay the deploy.
        for number in 0..CLUSTER_CALLS as u64 {
            start(&mut executor, &mut trail, number, Call::Teardown(lease(number)));
        }
        start(&mut executor, &mut trail, 100, broadcast());
        start(&mut executor, &mut trail, 101, withdrawal());
        start(&mut executor, &mut trail, 102, Call::ListWorkloads);
        let begun = Instant::now();
        for _ in 0..2 {
            let (EffectId(id), _) = executor.next(&BlockTime(0)).await.unwrap();
            assert!((101..=102).contains(&id), "{id}");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let waiting = tokio::time::timeout(Duration::from_secs(30), executor.next(&BlockTime(0))).await;
        assert!(waiting.is_err(), "{waiting:?}");
        let called = script.log();
        assert!(
            !called.iter().any(|call| call.starts_with("teardown")),
            "{called:?}"
        );
        log.fails.store(false, Ordering::SeqCst);
        log.hangs.store(false, Ordering::SeqCst);
        let begun = Instant::now();
        for _ in 0..=CLUSTER_CALLS {
            let (_, completion) = executor.next(&BlockTime(0)).await.unwrap();
            let is_done = matches!(
                completion,
                Completion::Teardown(Ok(Teardown::Done)) | Completion::Tx(Ok(TxOutcome::Committed { .. }))
            );
            assert!(is_done, "{completion:?}");
        }
        let limit = if log_hangs { RECORD_TIMEOUT } else { Duration::ZERO } + AUDIT_RETRY;
        assert!(begun.elapsed() <= limit, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_act_without_an_entry_fails_as_not_made_after_the_wait_or_at_a_shutdown() {
    for is_shutdown in [false, true] {
        let (script, log, mut trail) = world();
        log.fails.store(true, Ordering::SeqCst);
        let mut executor = with_facets(&script, Vec::new());
        start(&mut executor, &mut trail, 1, Call::Teardown(lease(1)));
        start(&mut executor, &mut trail, 2, broadcast());
        if is_shutdown {
            executor.drain();
        }
        let begun = Instant::now();
        for _ in 0..2 {
            let (_, completion) = executor.next(&BlockTime(0)).await.unwrap();
            let (Completion::Teardown(Err(failure)) | Completion::Tx(Err(failure))) = completion else {
                panic!("{completion:?}")
            };
            assert!(failure.transient, "{failure:?}");
            assert_eq!(failure.message, "audit log: no space left");
        }
        let expected = if is_shutdown { Duration::ZERO } else { AUDIT_WAIT };
        assert_eq!(begun.elapsed().as_secs(), expected.as_secs());
        assert_eq!(script.log(), Vec::<String>::new());
        assert_eq!(log.lines(), [], "an outcome without an intent");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_teardown_is_one_act_with_the_record_that_proves_the_close() {
    let (script, log, mut trail) = world();
    let mut executor = with_facets(&script, Vec::new());
    let record = |state| {
        let value = Some(LeaseRecord {
            lease: Lease {
                id: lease(1),
                price: fakes::price(),
                state,
                created_at: 1,
                closed_on: 0,
                reason: Some(CloseReason::Owner),
                reclamation: None,
            },
            payment: None,
        });
        Completion::Lease(Ok(Observed::new(value, 9, Agreement::Confirmed)))
    };
    trail.observe(&record(LeaseState::Closed));
    script.set("teardown", Does::NotYet);
    for _ in 0..3 {
        start(&mut executor, &mut trail, 1, Call::Teardown(lease(1)));
        executor.next(&BlockTime(0)).await.unwrap();
    }
    script.set("teardown", Does::Answer);
    for _ in 0..2 {
        start(&mut executor, &mut trail, 1, Call::Teardown(lease(1)));
        executor.next(&BlockTime(0)).await.unwrap();
    }
    let results: Vec<_> = log.lines().into_iter().map(|(_, _, result)| result).collect();
    assert_eq!(results, ["intent", "in_progress", "done", "intent", "done"]);
    let evidence = |at: usize| log.entries.lock().unwrap()[at].1.act.evidence.record;
    let proof = evidence(0).unwrap();
    assert_eq!(
        (proof.height, proof.state, proof.agreement, proof.reason),
        (
            9,
            LeaseState::Closed,
            Agreement::Confirmed,
            Some(CloseReason::Owner)
        )
    );
    // The second teardown has no new record, and an active lease is no evidence.
    assert_eq!(evidence(3), None);
    trail.observe(&record(LeaseState::Active));
    let act = trail.act(&Call::Teardown(lease(1)), || {
        fakes::audited(&Call::Teardown(lease(1)))
    });
    act.unwrap().record_intent().await.unwrap();
    assert_eq!(evidence(5), None);
}
