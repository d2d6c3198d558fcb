use super::*;
use futures::stream;
use std::process::Command;

fn rule() -> Rule {
    Rule::new("a rule", Duration::from_millis(50))
}

#[tokio::test]
#[should_panic(expected = "a rule: `ask` was expected to respond within 50ms and did not")]
async fn a_pending_call_fails_by_name() {
    rule().answer("ask", std::future::pending::<()>()).await;
}

#[tokio::test]
async fn an_endless_stream_is_not_read_forever() {
    let mut endless = stream::repeat(1).boxed();
    let found = rule().find("listen", &mut endless, |_| None::<()>).await;
    assert_eq!(found, SearchResult::Late);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "`listen` returned 100000 items without a pause")]
async fn an_endless_stream_is_bounded_with_paused_time() {
    let mut endless = stream::repeat(1).boxed();
    rule().find("listen", &mut endless, |_| None::<()>).await;
}

#[tokio::test]
#[should_panic(expected = "`ask` was expected to be refused with Conflict, because it is late; it succeeded")]
async fn a_missing_refusal_names_the_reason() {
    let done = async { Ok(()) };
    rule()
        .refused("ask", ErrorKind::Conflict, "it is late", done)
        .await;
}

/// Environment variable that makes the child process block.
const BLOCKS: &str = "CONFORMANCE_BLOCKS";

#[test]
fn a_call_that_blocks_its_thread_exits_the_process_with_its_name() {
    if std::env::var_os(BLOCKS).is_some() {
        rule().at_once("ask", || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "conformance::tests::a_call_that_blocks_its_thread_exits_the_process_with_its_name",
        ])
        .env(BLOCKS, "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(101), "{stderr}");
    assert!(
        stderr.contains("a rule: `ask` was expected to release its thread"),
        "{stderr}"
    );
}
