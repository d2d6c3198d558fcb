//! Elections with a record in memory.

use super::*;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(12);

fn contend(store: &MemoryElection, identity: &str) -> Election {
    let me = Candidate {
        identity: identity.to_owned(),
        address: format!("{identity}.example.com:8443"),
        ..Candidate::default()
    };
    Election::start(
        store.clone(),
        ElectionConfig::new("test", me, Timing::for_lease(LEASE)),
    )
}

async fn leads(election: &Election, within: Duration) -> bool {
    let gate = election.gate();
    timeout(within, gate.opened()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_replaced_after_its_lease() {
    let store = MemoryElection::new();
    let first = contend(&store, "first");
    assert!(
        leads(&first, LEASE + LEASE / 4).await,
        "after a new record was created"
    );
    let second = contend(&store, "second");
    assert!(!leads(&second, LEASE * 10).await);
    let status = second.status();
    assert_eq!(status.holder.as_deref(), Some("first"));
    assert_eq!(status.holder_address.as_deref(), Some("first.example.com:8443"));
    drop(first);
    let died = Instant::now();
    assert!(leads(&second, LEASE * 2).await);
    assert!(
        died.elapsed() <= LEASE + Duration::from_secs(2),
        "{:?}",
        died.elapsed()
    );
    assert_eq!(second.status().term, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_released_leadership_is_taken_over_at_the_next_read_with_its_state() {
    let store = MemoryElection::new();
    let first = contend(&store, "first");
    assert!(leads(&first, LEASE * 2).await);
    let second = contend(&store, "second");
    first.store_state("{\"breaker\":true}".to_owned()).unwrap();
    let long = "x".repeat(PAYLOAD_MAX / 2 + 1);
    assert!(first.store_state(long).is_err(), "the stored state has a limit");
    sleep(Duration::from_millis(50)).await;
    first.release().await;
    assert_eq!(first.gate().term(), None);
    assert!(leads(&second, Duration::from_secs(3)).await);
    assert_eq!(second.state(), "{\"breaker\":true}");
}

#[tokio::test(start_paused = true)]
async fn state_stored_just_before_a_release_reaches_the_next_leader() {
    let store = MemoryElection::new();
    let first = contend(&store, "first");
    assert!(leads(&first, LEASE * 2).await);
    first.store_state("late".to_owned()).unwrap();
    first.release().await;
    let stored = store.read().await.unwrap().unwrap();
    assert_eq!(
        (stored.record.holder, stored.record.payload.state.as_str()),
        (None, "late")
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_store_ends_a_leadership_and_starts_no_other() {
    let store = MemoryElection::new();
    let (first, second) = (contend(&store, "first"), contend(&store, "second"));
    assert!(leads(&first, LEASE * 2).await);
    store.set_away(true);
    let gate = first.gate();
    let cut = Instant::now();
    timeout(LEASE, gate.closed()).await.unwrap();
    assert!(cut.elapsed() <= LEASE * 2 / 3);
    assert!(first.status().error.is_some());
    assert!(!leads(&first, LEASE * 10).await && !leads(&second, LEASE * 10).await);
    store.set_away(false);
    sleep(LEASE * 2).await;
    let terms = [first.status().term, second.status().term];
    assert_eq!(terms.iter().flatten().count(), 1, "{terms:?}");
}

#[cfg(feature = "conformance")]
#[tokio::test]
async fn the_record_in_memory_conforms() {
    let store = MemoryElection::new();
    conformance::suite(&store, &store.clone(), &conformance::Setup::default()).await;
}

/// Election stores that each violate one rule of `ElectionStore`.
#[cfg(feature = "conformance")]
mod faulty_stores {
    use super::*;
    use crate::conformance::verdict;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Violation {
        WritesOverAnything,
        MakesItTwice,
        ForgetsWhatLiesBeside,
        SameVersion,
    }

    #[derive(Debug)]
    struct FaultyStore(MemoryElection, Violation);

    #[async_trait::async_trait]
    impl ElectionStore for FaultyStore {
        fn place(&self) -> String {
            self.0.place()
        }

        async fn read(&self) -> Result<Option<Stored>, Error> {
            let mut stored = self.0.read().await?;
            if let (Violation::SameVersion, Some(stored)) = (self.1, &mut stored) {
                stored.record.sign = "1".to_owned();
            }
            Ok(stored)
        }

        async fn create(&self, claim: &Claim) -> Result<Stored, Error> {
            if self.1 == Violation::MakesItTwice {
                self.0.remove();
            }
            self.0.create(claim).await
        }

        async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
            let mut claim = claim.clone();
            let mut version = version.to_owned();
            match self.1 {
                Violation::ForgetsWhatLiesBeside => claim.payload.state.clear(),
                Violation::WritesOverAnything => {
                    if let Some(stored) = self.0.read().await? {
                        version = stored.version;
                    }
                }
                _ => {}
            }
            let mut stored = self.0.replace(&claim, &version).await?;
            if self.1 == Violation::SameVersion {
                stored.record.sign = "1".to_owned();
            }
            Ok(stored)
        }
    }

    #[tokio::test]
    async fn the_suite_detects_a_faulty_store() {
        for (lie, rule) in [
            (Violation::MakesItTwice, "a record is created once"),
            (
                Violation::ForgetsWhatLiesBeside,
                "all connections read the written record",
            ),
            (Violation::WritesOverAnything, "one of several writes wins"),
            (Violation::SameVersion, "every write is a new heartbeat"),
        ] {
            let store = MemoryElection::new();
            let (one, other) = (FaultyStore(store.clone(), lie), FaultyStore(store, lie));
            let failure = verdict(conformance::suite(&one, &other, &conformance::Setup::default())).await;
            assert!(failure.is_some_and(|failure| failure.contains(rule)), "{lie:?}");
        }
    }
}
