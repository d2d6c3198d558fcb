//! Logs, events and commands of real pods.

use crate::tenant::{PATIENCE, Tenant, next, run};
use akash_provider_core::cluster::{Cluster, EventOptions, ExecIo, ExecRequest, LogOptions};
use akash_provider_core::error::ErrorKind;
use futures::{FutureExt, StreamExt};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Counts five times a second and ends when asked to.
const CLOCK: &str = "trap 'exit 0' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.2 & wait $!; done";
const QUIET: &str = "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";

const FOLLOW: LogOptions = LogOptions {
    services: Vec::new(),
    follow: true,
    tail_lines: None,
};

/// A follower sees every line of every replica once, in order, over a rollout, until the lease is gone.
#[test]
fn logs_are_followed_over_a_rollout_until_the_teardown() {
    run(CLOCK, |tenant| {
        async move {
            let mut lines = tenant.cluster.lease_logs(&tenant.lease, FOLLOW).await.unwrap();
            let mut seen: BTreeMap<String, u32> = BTreeMap::new();
            let mut take = |line: akash_provider_core::cluster::LogLine| {
                let expected = seen.entry(line.name.clone()).or_insert(0);
                assert_eq!(line.message, expected.to_string(), "{}", line.name);
                *expected += 1;
                seen.len()
            };
            for _ in 0..5 {
                take(next(&mut lines).await);
            }
            tenant.deploy(&format!("{CLOCK} # again"), 1).await;
            let rolled = async { while take(next(&mut lines).await) < 2 {} };
            timeout(PATIENCE, rolled).await.unwrap();
            for _ in 0..5 {
                take(next(&mut lines).await);
            }
            tenant.remove().await;
            let end = async {
                while let Some(line) = lines.next().await {
                    take(line.unwrap());
                }
            };
            timeout(Duration::from_secs(20), end).await.expect("an end");
            assert_eq!(seen.len(), 2);
        }
        .boxed()
    });
}

#[test]
fn lines_are_cut_and_not_lost_and_the_tail_is_the_end() {
    let script =
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo a; echo b; printf '\\377\\n'; echo last; ";
    run(&format!("{script}{QUIET}"), |tenant| {
        async move {
            let all = || async {
                let stream = tenant
                    .cluster
                    .lease_logs(&tenant.lease, LogOptions::default())
                    .await
                    .unwrap();
                let lines: Vec<_> = timeout(PATIENCE, stream.collect()).await.unwrap();
                lines.into_iter().map(|l| l.unwrap().message).collect::<Vec<_>>()
            };
            let mut lines = all().await;
            let began = Instant::now();
            while lines.last().is_none_or(|l| l != "last") && began.elapsed() < PATIENCE {
                sleep(Duration::from_millis(200)).await;
                lines = all().await;
            }
            let rest = lines.split_off(lines.len() - 4);
            assert_eq!(rest, ["a", "b", "\u{fffd}", "last"]);
            let lengths: Vec<_> = lines.iter().map(String::len).collect();
            assert_eq!(lengths.iter().sum::<usize>(), 3_000_000, "{lengths:?}");
            assert!(lengths.iter().all(|l| *l <= 1 << 20), "{lengths:?}");
            let tail = LogOptions {
                tail_lines: Some(2),
                ..LogOptions::default()
            };
            let tail = tenant.cluster.lease_logs(&tenant.lease, tail).await.unwrap();
            let tail: Vec<_> = tail.map(|l| l.unwrap().message).collect().await;
            assert_eq!(tail, ["\u{fffd}", "last"]);
        }
        .boxed()
    });
}

#[test]
fn commands_have_input_output_and_the_exit_code_that_is_theirs() {
    run(QUIET, |tenant| {
        async move {
            let (code, stdout, stderr) = tenant.sh("echo out; echo err >&2; exit 3").await;
            assert_eq!((code, stdout.as_str(), stderr.as_str()), (3, "out\n", "err\n"));
            assert_eq!(tenant.sh("true").await.0, 0);
            assert_eq!(tenant.sh("kill -9 $$").await.0, 137);
            let none = || futures::stream::pending().boxed();
            let unknown = tenant
                .exec(&["/no/such/command"], None, false, none())
                .await
                .0
                .unwrap_err();
            assert_eq!(unknown.kind(), ErrorKind::Invalid, "{unknown}");
            let text =
                "remote command execute error: command could not be executed because it does not exist";
            assert_eq!(unknown.to_string(), text);
            // More than every buffer on the way holds, in both directions at once.
            let input: Vec<u8> = (0..16_u32 << 20).map(|n| (n % 251) as u8).collect();
            let (code, output, _) = tenant.exec(&["cat"], Some(input.clone()), false, none()).await;
            assert_eq!(code.unwrap(), 0);
            assert!(
                output == input,
                "{} of {} bytes came back",
                output.len(),
                input.len()
            );
        }
        .boxed()
    });
}

#[test]
fn a_terminal_has_the_size_it_is_given() {
    run(QUIET, |tenant| {
        async move {
            let sizes = futures::stream::iter([(80, 24), (132, 50)]).chain(futures::stream::pending());
            let script = "for i in 1 2 3 4 5 6 7 8 9 10; do stty size; sleep 0.2; done; exit 4";
            let command = ["sh", "-c", script];
            let (code, output, errors) = tenant.exec(&command, Some(Vec::new()), true, sizes.boxed()).await;
            assert_eq!(code.unwrap(), 4);
            let output = String::from_utf8(output).unwrap();
            assert!(output.contains("50 132\r\n"), "{output}");
            assert_eq!(errors, b"", "a terminal has one output");
        }
        .boxed()
    });
}

/// How many processes of a tenant run a command with this mark.
async fn running(tenant: &Tenant, mark: &str) -> usize {
    let (_, list, _) = tenant.sh("ps -o args").await;
    list.lines().filter(|l| l.contains(mark)).count()
}

#[test]
fn a_command_ends_when_nobody_waits_for_it() {
    run(QUIET, |tenant| {
        async move {
            for (tty, mark) in [(true, "54321"), (false, "12345")] {
                let request = ExecRequest {
                    service: "web".to_owned(),
                    replica: 0,
                    command: vec!["sleep".to_owned(), mark.to_owned()],
                    tty,
                };
                // Input that never comes and never ends.
                let (ours, theirs) = tokio::io::duplex(64);
                let io = ExecIo {
                    stdin: Some(Box::new(theirs)),
                    stdout: Box::new(tokio::io::sink()),
                    stderr: Box::new(tokio::io::sink()),
                    resize: futures::stream::pending().boxed(),
                };
                let shell = tenant.cluster.shell().unwrap();
                let lease = tenant.lease.clone();
                let task = tokio::spawn(async move { shell.exec(&lease, request, io).await });
                let began = Instant::now();
                while running(tenant, mark).await == 0 && began.elapsed() < PATIENCE {
                    sleep(Duration::from_millis(100)).await;
                }
                assert_eq!(running(tenant, mark).await, 1);
                task.abort();
                let _ = task.await;
                let began = Instant::now();
                while running(tenant, mark).await > 0 && began.elapsed() < Duration::from_secs(10) {
                    sleep(Duration::from_millis(100)).await;
                }
                assert_eq!(running(tenant, mark).await, 0, "terminal: {tty}");
                drop(ours);
            }
        }
        .boxed()
    });
}

#[test]
fn events_say_which_service_they_are_about() {
    run(QUIET, |tenant| {
        async move {
            let web = EventOptions {
                services: vec!["web".to_owned()],
                follow: true,
            };
            let mut events = tenant.cluster.lease_events(&tenant.lease, web).await.unwrap();
            let started = async {
                while let Some(event) = events.next().await {
                    let event = event.unwrap();
                    assert_eq!(event.service, "web", "{event:?}");
                    assert!(
                        event.time.0 > 0 && !event.reporting_controller.is_empty(),
                        "{event:?}"
                    );
                    if event.reason == "Started" && event.object.kind == "Pod" {
                        return;
                    }
                }
                panic!("the events ended");
            };
            timeout(PATIENCE, started).await.unwrap();
            tenant.remove().await;
            let end = async { while events.next().await.is_some() {} };
            timeout(Duration::from_secs(20), end).await.expect("an end");
        }
        .boxed()
    });
}
