//! Each part panics, fails, ends and hangs.

use super::*;
use futures::FutureExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Fault = fn() -> Work;

fn ended() -> Work {
    async { Ok(()) }.boxed()
}

fn failed() -> Work {
    async { Err("no sequence".to_owned()) }.boxed()
}

fn panicked() -> Work {
    async { panic!("no {}", "sequence") }.boxed()
}

const FAULTS: [(Fault, &str); 3] = [
    (ended, "it ended by itself"),
    (failed, "no sequence"),
    (panicked, "no sequence"),
];

#[tokio::test(start_paused = true)]
async fn every_part_that_fails_ends_the_process_by_its_name_and_code_or_is_begun_anew_first() {
    for part in Part::ALL {
        for (fault, why) in FAULTS {
            let mut parts = Supervisor::new(CancellationToken::new());
            let begun = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&begun);
            parts.again(part, move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                fault()
            });
            let told = parts.failure().await;
            assert_eq!(told.part(), part);
            assert_eq!(
                begun.load(Ordering::SeqCst),
                1 + part.policy().restarts,
                "{part:?}"
            );
            let words = told.to_string();
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
async fn a_part_that_fails_once_goes_on() {
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
    draining.cancel();
    assert_eq!(parts.end().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_anew_while_the_provider_drains_and_a_failure_is_told() {
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
    let told = parts.end().await.unwrap_err();
    assert_eq!((told.part(), told.restarts()), (Part::Gateway, 0));
}

#[test]
fn codes_and_names_are_each_of_one_part() {
    for part in Part::ALL {
        let same = |other: &&Part| other.code() == part.code() || other.name() == part.name();
        assert_eq!(Part::ALL.iter().filter(same).count(), 1, "{part:?}");
        // 1 and 2 are ours already, and what lies above belongs to sysexits, shells and systemd.
        assert!((40..64).contains(&part.code()), "{part:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_that_hangs_is_told_by_its_name() {
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
fn the_process_ends_with_the_code_of_the_part_also_below_other_causes() {
    use std::process::ExitCode;
    let shown = |code: ExitCode| format!("{code:?}");
    for part in Part::ALL {
        let error = anyhow::Error::new(PartFailed::new(part, "why".to_owned(), 0)).context("the provider");
        let code = shown(PartFailed::exit_code(&error));
        assert_eq!(code, shown(ExitCode::from(part.code())), "{part:?}");
        assert_ne!(code, shown(ExitCode::FAILURE));
    }
    let other = anyhow::anyhow!("a setting");
    assert_eq!(shown(PartFailed::exit_code(&other)), shown(ExitCode::FAILURE));
}
