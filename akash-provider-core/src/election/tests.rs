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
    Election::start(store.clone(), ElectionConfig::new("test", me, Timing::of(LEASE)))
}

async fn leads(election: &Election, within: Duration) -> bool {
    let gate = election.gate();
    timeout(within, gate.begins()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_within_its_lease_and_a_pause() {
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
async fn one_that_hands_over_is_followed_at_the_next_look_and_what_it_kept_is_known_then() {
    let store = MemoryElection::new();
    let first = contend(&store, "first");
    assert!(leads(&first, LEASE * 2).await);
    let second = contend(&store, "second");
    first.keep("{\"breaker\":true}".to_owned()).unwrap();
    let long = "x".repeat(BESIDE_MAX / 2 + 1);
    assert!(first.keep(long).is_err(), "the stored state has a limit");
    sleep(Duration::from_millis(50)).await;
    first.hand_over().await;
    assert_eq!(first.gate().term(), None);
    assert!(leads(&second, Duration::from_secs(3)).await);
    assert_eq!(second.kept(), "{\"breaker\":true}");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_at_the_last_moment_is_handed_over_too() {
    let store = MemoryElection::new();
    let first = contend(&store, "first");
    assert!(leads(&first, LEASE * 2).await);
    first.keep("late".to_owned()).unwrap();
    first.hand_over().await;
    let stored = store.read().await.unwrap().unwrap();
    assert_eq!(
        (stored.record.holder, stored.record.beside.kept.as_str()),
        (None, "late")
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_ends_a_leadership_and_nobody_else_begins_one() {
    let store = MemoryElection::new();
    let (first, second) = (contend(&store, "first"), contend(&store, "second"));
    assert!(leads(&first, LEASE * 2).await);
    store.set_away(true);
    let gate = first.gate();
    let cut = Instant::now();
    timeout(LEASE, gate.ends()).await.unwrap();
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

/// Stores that violate one rule each.
#[cfg(feature = "conformance")]
mod liars {
    use super::*;
    use crate::conformance::verdict;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Lie {
        WritesOverAnything,
        MakesItTwice,
        ForgetsWhatLiesBeside,
        SameVersion,
    }

    #[derive(Debug)]
    struct Liar(MemoryElection, Lie);

    #[async_trait::async_trait]
    impl ElectionStore for Liar {
        fn place(&self) -> String {
            self.0.place()
        }

        async fn read(&self) -> Result<Option<Stored>, Error> {
            let mut stored = self.0.read().await?;
            if let (Lie::SameVersion, Some(stored)) = (self.1, &mut stored) {
                stored.record.sign = "1".to_owned();
            }
            Ok(stored)
        }

        async fn create(&self, claim: &Claim) -> Result<Stored, Error> {
            if self.1 == Lie::MakesItTwice {
                self.0.remove();
            }
            self.0.create(claim).await
        }

        async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
            let mut claim = claim.clone();
            let mut version = version.to_owned();
            match self.1 {
                Lie::ForgetsWhatLiesBeside => claim.beside.kept.clear(),
                Lie::WritesOverAnything => {
                    if let Some(stored) = self.0.read().await? {
                        version = stored.version;
                    }
                }
                _ => {}
            }
            let mut stored = self.0.replace(&claim, &version).await?;
            if self.1 == Lie::SameVersion {
                stored.record.sign = "1".to_owned();
            }
            Ok(stored)
        }
    }

    #[tokio::test]
    async fn the_suite_finds_a_store_that_lies() {
        for (lie, rule) in [
            (Lie::MakesItTwice, "a record is created once"),
            (
                Lie::ForgetsWhatLiesBeside,
                "all connections read the written record",
            ),
            (Lie::WritesOverAnything, "one of several writes wins"),
            (Lie::SameVersion, "every write is a new heartbeat"),
        ] {
            let store = MemoryElection::new();
            let (one, other) = (Liar(store.clone(), lie), Liar(store, lie));
            let said = verdict(conformance::suite(&one, &other, &conformance::Setup::default())).await;
            assert!(said.is_some_and(|said| said.contains(rule)), "{lie:?}");
        }
    }
}
