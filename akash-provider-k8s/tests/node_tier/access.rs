//! Logs, events and exec of real pods.

use crate::tenant::{Tenant, WAIT_LIMIT, next, run};
use akash_provider_core::cluster::{Cluster, EventOptions, ExecIo, ExecRequest, LogOptions};
use akash_provider_core::error::{Error, ErrorKind};
use futures::{FutureExt, StreamExt};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Prints a number five times a second, and ends on SIGTERM.
const CLOCK: &str = "trap 'exit 0' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.2 & wait $!; done";
/// Script that waits for the file `/tmp/eat`, and then uses all memory of the container. A restart removes
/// this file.
const HUNGRY: &str =
    "trap 'exit 0' TERM; while [ ! -e /tmp/eat ]; do sleep 0.2 & wait $!; done; exec tail /dev/zero";
const QUIET: &str = "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";

fn follow() -> LogOptions {
    let mut options = LogOptions::default();
    options.follow = true;
    options
}

/// A follower receives every line of every replica once and in order, even during a rollout.
#[test]
fn logs_are_followed_across_rollout_until_teardown() {
    run(CLOCK, |tenant| {
        async move {
            let mut lines = tenant.cluster.lease_logs(&tenant.lease, follow()).await.unwrap();
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
            timeout(WAIT_LIMIT, rolled).await.unwrap();
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
fn long_lines_are_split_without_loss_and_tail_returns_last_lines() {
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
                let lines: Vec<_> = timeout(WAIT_LIMIT, stream.collect()).await.unwrap();
                lines.into_iter().map(|l| l.unwrap().message).collect::<Vec<_>>()
            };
            let mut lines = all().await;
            let began = Instant::now();
            while lines.last().is_none_or(|l| l != "last") && began.elapsed() < WAIT_LIMIT {
                sleep(Duration::from_millis(200)).await;
                lines = all().await;
            }
            let rest = lines.split_off(lines.len() - 4);
            assert_eq!(rest, ["a", "b", "\u{fffd}", "last"]);
            let lengths: Vec<_> = lines.iter().map(String::len).collect();
            assert_eq!(lengths.iter().sum::<usize>(), 3_000_000, "{lengths:?}");
            assert!(lengths.iter().all(|l| *l <= 1 << 20), "{lengths:?}");
            let mut tail = LogOptions::default();
            tail.tail_lines = Some(2);
            let tail = tenant.cluster.lease_logs(&tenant.lease, tail).await.unwrap();
            let tail: Vec<_> = tail.map(|l| l.unwrap().message).collect().await;
            assert_eq!(tail, ["\u{fffd}", "last"]);
        }
        .boxed()
    });
}

#[test]
fn commands_have_input_output_and_exit_code() {
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
            // More than all buffers on the path hold, in both directions at once.
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
fn terminal_has_requested_size() {
    run(QUIET, |tenant| {
        async move {
            let sizes = futures::stream::iter([(80, 24), (132, 50)]).chain(futures::stream::pending());
            let script = "for i in 1 2 3 4 5 6 7 8 9 10; do stty size; sleep 0.2; done; exit 4";
            let command = ["sh", "-c", script];
            let (code, output, errors) = tenant.exec(&command, Some(Vec::new()), true, sizes.boxed()).await;
            assert_eq!(code.unwrap(), 4);
            let output = String::from_utf8(output).unwrap();
            assert!(output.contains("50 132\r\n"), "{output}");
            assert_eq!(errors, b"", "a terminal has no separate stderr");
        }
        .boxed()
    });
}

/// Returns the number of the tenant's processes with this command line.
async fn running(tenant: &Tenant, command: &str) -> usize {
    let (_, list, _) = tenant.sh("ps -o args").await;
    list.lines().filter(|line| line.trim() == command).count()
}

async fn runs(tenant: &Tenant, command: &str, wanted: usize) {
    let began = Instant::now();
    while running(tenant, command).await != wanted {
        assert!(
            began.elapsed() < WAIT_LIMIT,
            "{command}: the number of processes did not become {wanted} in time"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// Starts a command with open input that never receives data.
fn start_command(
    tenant: &Tenant,
    command: &str,
    tty: bool,
) -> (JoinHandle<Result<i32, Error>>, DuplexStream) {
    let mut request = ExecRequest::default();
    request.service = "web".to_owned();
    request.command = command.split(' ').map(str::to_owned).collect();
    request.tty = tty;
    let (ours, theirs) = tokio::io::duplex(64);
    let io = ExecIo {
        stdin: Some(Box::new(theirs)),
        stdout: Box::new(tokio::io::sink()),
        stderr: Box::new(tokio::io::sink()),
        resize: futures::stream::pending().boxed(),
    };
    let shell = tenant.cluster.shell().unwrap();
    let lease = tenant.lease.clone();
    (
        tokio::spawn(async move { shell.exec(&lease, request, io).await }),
        ours,
    )
}

#[test]
fn command_ends_when_its_client_disconnects() {
    run(QUIET, |tenant| {
        async move {
            for (tty, command) in [(true, "sleep 54321"), (false, "sleep 12345")] {
                let (client, _input) = start_command(tenant, command, tty);
                runs(tenant, command, 1).await;
                client.abort();
                runs(tenant, command, 0).await;
            }
        }
        .boxed()
    });
}

/// Starts three equal commands, and disconnects the client of one command.
#[test]
fn only_the_command_of_disconnected_client_ends() {
    run(QUIET, |tenant| {
        async move {
            for (tty, command) in [(true, "sleep 44444"), (false, "sleep 55555")] {
                let all: Vec<_> = (0..3).map(|_| start_command(tenant, command, tty)).collect();
                runs(tenant, command, 3).await;
                all[1].0.abort();
                runs(tenant, command, 2).await;
                // Ending a session takes a second, from the first signal to the last.
                sleep(Duration::from_secs(3)).await;
                assert_eq!(running(tenant, command).await, 2, "terminal: {tty}");
                assert!(!all[0].0.is_finished() && !all[2].0.is_finished());
                all[0].0.abort();
                all[2].0.abort();
                runs(tenant, command, 0).await;
            }
        }
        .boxed()
    });
}

/// The provider marks each command with an environment variable, without a wrapper program.
#[test]
fn command_runs_without_wrapper() {
    run(QUIET, |tenant| {
        async move {
            let none = || futures::stream::pending().boxed();
            let command = [
                "sh",
                "-c",
                "tr '\\0' '|' </proc/$$/cmdline; exit 127",
                "a b",
                "",
                "*",
            ];
            let (code, output, errors) = tenant.exec(&command, None, false, none()).await;
            assert_eq!(code.unwrap(), 127, "the exit code of the command");
            let output = String::from_utf8(output).unwrap();
            assert_eq!(output, "sh|-c|tr '\\0' '|' </proc/$$/cmdline; exit 127|a b||*|");
            assert_eq!(errors, b"");
            let (_, parent, _) = tenant.sh("set -- $(cat /proc/$$/stat); echo $4").await;
            assert_eq!(parent, "0\n", "the runtime is the parent process");
            for name in ["nosuch", "/no/such/command", "/no such"] {
                let unknown = tenant.exec(&[name], None, false, none()).await.0.unwrap_err();
                assert_eq!(unknown.kind(), ErrorKind::Invalid, "{name}: {unknown}");
            }
        }
        .boxed()
    });
}

#[test]
fn commands_run_in_image_without_shell() {
    run(QUIET, |tenant| {
        async move {
            tenant.deploy_bare().await;
            let none = || futures::stream::pending().boxed();
            let began = Instant::now();
            // The previous version, which has a shell, serves until the new version is ready. A command in a
            // container that is ending fails as unavailable, or as a missing file.
            loop {
                let unknown = tenant.exec(&["sh"], None, false, none()).await.0;
                if unknown.as_ref().is_err_and(|e| e.kind() == ErrorKind::Invalid) {
                    break;
                }
                let is_ending = unknown
                    .as_ref()
                    .map_or_else(|e| e.kind() == ErrorKind::Unavailable, |_| true);
                assert!(is_ending && began.elapsed() < WAIT_LIMIT, "{unknown:?}");
                sleep(Duration::from_millis(100)).await;
            }
            let busybox = async |args: &[&str]| {
                let command = [&["busybox"], args].concat();
                loop {
                    let input = Some(b"input".to_vec());
                    let (code, output, _) = tenant.exec(&command, input, false, none()).await;
                    let is_ending = code
                        .as_ref()
                        .is_err_and(|e| matches!(e.kind(), ErrorKind::Unavailable | ErrorKind::Invalid));
                    if !is_ending || began.elapsed() >= WAIT_LIMIT {
                        return (code.unwrap(), output);
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            };
            assert_eq!(busybox(&["cat"]).await, (0, b"input".to_vec()));
            assert_eq!(busybox(&["false"]).await.0, 1);
        }
        .boxed()
    });
}

#[test]
fn events_contain_service_reason_and_exit_code_of_an_oom_kill() {
    run(HUNGRY, |tenant| {
        async move {
            let mut web = EventOptions::default();
            web.services = vec!["web".to_owned()];
            web.follow = true;
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
            timeout(WAIT_LIMIT, started).await.unwrap();
            tenant.sh("touch /tmp/eat").await;
            let killed = async {
                while let Some(event) = events.next().await {
                    let event = event.unwrap();
                    if event.reason == "OOMKilled" {
                        return event.message;
                    }
                }
                panic!("the events ended");
            };
            let message = timeout(WAIT_LIMIT, killed).await.unwrap();
            assert!(message.ends_with("OOMKilled, exit code 137"), "{message}");
            tenant.remove().await;
            let end = async { while events.next().await.is_some() {} };
            timeout(Duration::from_secs(20), end).await.expect("an end");
        }
        .boxed()
    });
}
