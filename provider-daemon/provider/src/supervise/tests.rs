//! Tests of parts that panic, fail, end or stall.

use super::*;
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Fault = fn() -> PartFuture;

fn ended() -> PartFuture {
    async { Ok(()) }.boxed()
}

fn failed() -> PartFuture {
    async { Err("no sequence".to_owned()) }.boxed()
}

fn panicked() -> PartFuture {
    async { panic!("no {}", "sequence") }.boxed()
}

const FAULTS: [(Fault, &str); 3] = [
    (ended, "ended unexpectedly"),
    (failed, "no sequence"),
    (panicked, "no sequence"),
];

#[tokio::test(start_paused = true)]
async fn failing_part_is_restarted_or_ends_the_process_with_its_code() {
    // A part with unlimited restarts never ends the process.
    let limited = |part: &Part| part.policy() != RestartPolicy::UNLIMITED;
    for part in Part::ALL.into_iter().filter(limited) {
        for (fault, why) in FAULTS {
            let mut parts = Supervisor::new(CancellationToken::new());
            let begun = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&begun);
            parts.again(part, move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                fault()
            });
            let failure = parts.failure().await;
            assert_eq!(failure.part(), part);
            assert_eq!(
                begun.load(Ordering::SeqCst),
                1 + part.policy().restarts,
                "{part:?}"
            );
            let words = failure.to_string();
            assert!(
                words.starts_with(&format!("the {} failed", part.name())),
                "{words}"
            );
            assert!(words.contains(why), "{words}");
            assert!(words.contains(&format!("exit code {}", part.code())), "{words}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn part_continues_after_one_failure() {
    let draining = CancellationToken::new();
    let mut parts = Supervisor::new(draining.clone());
    let (begun, until) = (Arc::new(AtomicU32::new(0)), draining.clone());
    let count = Arc::clone(&begun);
    parts.again(Part::Gateway, move |_| {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => panicked(),
            _ => until.clone().cancelled_owned().map(Ok).boxed(),
        }
    });
    let failure = tokio::time::timeout(Duration::from_secs(3600), parts.failure()).await;
    assert!(failure.is_err(), "{failure:?}");
    assert_eq!(begun.load(Ordering::SeqCst), 2);
    let status = parts.pulses().status();
    assert!(status[0].is_running && status[0].restarts == 1, "{status:?}");
    draining.cancel();
    assert_eq!(parts.end().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn no_part_is_restarted_during_a_drain_and_failures_are_reported() {
    let draining = CancellationToken::new();
    let mut parts = Supervisor::new(draining.clone());
    let until = draining.clone();
    parts.again(Part::Gateway, move |_| {
        let until = until.clone();
        async move {
            until.cancelled().await;
            Err("too late".to_owned())
        }
        .boxed()
    });
    parts.once(Part::Writer, |_| {
        draining.clone().cancelled_owned().map(Ok).boxed()
    });
    draining.cancel();
    let failure = parts.end().await.unwrap_err();
    assert_eq!((failure.part(), failure.restarts()), (Part::Gateway, 0));
}

#[test]
fn exit_codes_and_names_are_unique() {
    for part in Part::ALL {
        let same = |other: &&Part| other.code() == part.code() || other.name() == part.name();
        assert_eq!(Part::ALL.iter().filter(same).count(), 1, "{part:?}");
        // 1 and 2 are in use, and higher codes belong to sysexits, shells and systemd.
        assert!((40..64).contains(&part.code()), "{part:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_part_is_reported_by_name() {
    for part in Part::ALL {
        let mut parts = Supervisor::new(CancellationToken::new());
        parts.once(part, |pulse| {
            pulse.beat(Duration::from_millis(10));
            std::future::pending().boxed()
        });
        let hangs = || parts.pulses.all().iter().find_map(Pulse::standstill);
        while hangs().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(hangs().unwrap().part, part);
    }
}

#[test]
fn exit_code_of_a_part_is_found_below_other_causes() {
    use std::process::ExitCode;
    let text = |code: ExitCode| format!("{code:?}");
    for part in Part::ALL {
        let error = anyhow::Error::new(PartFailed::new(part, "why".to_owned(), 0)).context("the provider");
        let code = text(PartFailed::exit_code(&error));
        assert_eq!(code, text(ExitCode::from(part.code())), "{part:?}");
        assert_ne!(code, text(ExitCode::FAILURE));
    }
    let other = anyhow::anyhow!("a setting");
    assert_eq!(text(PartFailed::exit_code(&other)), text(ExitCode::FAILURE));
}
