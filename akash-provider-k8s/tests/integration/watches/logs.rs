//! Logs, events and exec with a misbehaving API server.

use super::objects::{lease, manifest, namespace, pod, settings};
use super::server::{Part, Reply, Request, Server, event};
use super::{ms, one_lease, until, watch_config};
use akash_provider_core::cluster::{EventOptions, ExecIo, ExecRequest, LogLine, LogOptions};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_k8s::access::Access;
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_k8s::state::ObjectCache;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

type Lines = BoxStream<'static, Result<LogLine, Error>>;

async fn ready(server: &Server) -> Access {
    ready_with(server, settings()).await
}

async fn ready_with(server: &Server, mut settings: KubeSettings) -> Access {
    settings.call_timeout = ms(1000);
    settings.command_start_timeout = ms(1500);
    let state = Arc::new(ObjectCache::start_with(
        &server.client(),
        &settings,
        watch_config(),
    ));
    timeout(Duration::from_secs(20), state.ready()).await.unwrap();
    until("events are listed", || state.sees_events()).await;
    Access::new(server.client(), state, &settings)
}

fn one_pod(request: &Request) -> Option<Reply> {
    if request.resource == "pods" && !request.is_watch() {
        return Some(Reply::list("10", vec![pod(1, "web-1", "1")]));
    }
    one_lease(request)
}

fn line(second: u32, text: &str) -> Vec<u8> {
    format!("2026-11-21T10:20:{second:02}.5Z {text}\n").into_bytes()
}

fn stream(parts: Vec<Vec<u8>>, then: Option<Part>) -> Option<Reply> {
    Some(Reply::Stream(
        parts.into_iter().map(Part::Bytes).chain(then).collect(),
    ))
}

fn follow() -> LogOptions {
    let mut options = LogOptions::default();
    options.follow = true;
    options
}

async fn next(lines: &mut Lines) -> (String, String) {
    let next = timeout(Duration::from_secs(10), lines.next()).await;
    let line = next
        .expect("a line within 10 s")
        .expect("the stream ended")
        .expect("the stream failed");
    (line.name, line.message)
}

async fn all(lines: Lines) -> Vec<String> {
    let all = timeout(Duration::from_secs(10), lines.collect::<Vec<_>>()).await;
    let all = all.expect("an end within 10 s").into_iter();
    all.map(|line| line.map_or_else(|e| e.to_string(), |l| l.message))
        .collect()
}

#[tokio::test]
async fn existing_log_is_read_to_its_end() {
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => stream(vec![line(1, "a"), b"2026-11-21T10:20:02Z no end".to_vec()], None),
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let mut options = LogOptions::default();
    options.services = vec!["web".to_owned()];
    options.tail_lines = Some(7);
    assert_eq!(
        all(access.logs(&lease(1), options).unwrap()).await,
        ["a", "no end"]
    );
    let calls = server.calls("log", false);
    assert_eq!(calls.len(), 1);
    let call = &calls[0];
    let asked = (
        call.get("container"),
        call.get("tailLines"),
        call.get("timestamps"),
        call.get("follow"),
    );
    assert_eq!(asked, ("web", "7", "true", ""), "{}", call.path);
}

#[tokio::test]
async fn interrupted_stream_resumes_without_gap_or_repetition() {
    let server = Server::start(|request, nth| match (request.resource.as_str(), nth) {
        ("log", 0) => stream(
            vec![line(1, "a"), line(2, "b"), b"2026-11-21T10:20:03Z half".to_vec()],
            Some(Part::Cut),
        ),
        ("log", 1) => Some(Reply::status(500, "InternalError")),
        ("log", 2) => Some(Reply::Nothing),
        // The last second is sent again.
        ("log", _) => stream(
            vec![line(2, "b"), line(3, "half a line"), line(4, "c")],
            Some(Part::Stall),
        ),
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let mut lines = access.logs(&lease(1), follow()).unwrap();
    for wanted in ["a", "b", "half a line", "c"] {
        assert_eq!(next(&mut lines).await, ("web-1".to_owned(), wanted.to_owned()));
    }
    assert!(timeout(ms(200), lines.next()).await.is_err());
    let calls = server.calls("log", false);
    assert_eq!(calls.len(), 4);
    assert_eq!(calls[0].get("sinceTime"), "");
    assert!(
        calls[3].get("sinceTime").starts_with("2026-11-21T10%3A20%3A02"),
        "{}",
        calls[3].get("sinceTime")
    );
}

#[tokio::test]
async fn lines_of_any_length_are_delivered() {
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => {
            let mut long = b"2026-11-21T10:20:01Z ".to_vec();
            long.extend(vec![b'x'; 3 << 20]);
            long.push(b'\n');
            stream(vec![long, line(2, "after")], None)
        }
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let found = all(access.logs(&lease(1), LogOptions::default()).unwrap()).await;
    let lengths: Vec<_> = found.iter().map(String::len).collect();
    assert_eq!(lengths, [1 << 20, 1 << 20, 1 << 20, 5]);
}

#[tokio::test]
async fn log_memory_limit_of_tenant_refuses_further_streams() {
    const LINE: usize = 700 << 10;
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => {
            let mut endless = b"2026-11-21T10:20:01Z ".to_vec();
            endless.extend(vec![b'x'; LINE]);
            stream(vec![line(1, "first"), endless], Some(Part::Stall))
        }
        _ => one_pod(request),
    })
    .await;
    let mut settings = settings();
    // An unfinished line takes up to twice its length, so two of them exceed the limit.
    settings.log_memory_per_tenant = 2 * LINE;
    let access = ready_with(&server, settings).await;
    let open = || access.logs(&lease(1), follow()).unwrap();
    let mut both = futures::stream::select(open(), open());
    let refused = timeout(Duration::from_secs(10), async {
        loop {
            if let Err(error) = both.next().await.expect("the stream ended") {
                return error.to_string();
            }
        }
    });
    let refused = refused.await.expect("a refusal");
    assert!(refused.contains("of this tenant exceed 1 MiB"), "{refused}");
    // Dropping the streams releases their memory.
    drop(both);
    let mut again = open();
    next(&mut again).await;
    assert!(
        timeout(ms(300), again.next()).await.is_err(),
        "the stream goes on"
    );
}

#[tokio::test]
async fn follower_includes_new_replicas_and_ends_at_teardown() {
    let server = Server::start(|request, nth| {
        let then = |delay, event_object: serde_json::Value| {
            let line = format!("{event_object}\n").into_bytes();
            [Part::Pause(ms(delay)), Part::Bytes(line)]
        };
        let (old, new) = (pod(1, "web-1", "12"), pod(1, "web-2", "11"));
        match (request.resource.as_str(), request.is_watch(), nth) {
            ("pods", true, 0) => {
                let rollout = then(300, event("ADDED", &new))
                    .into_iter()
                    .chain(then(0, event("DELETED", &old)));
                let end = then(600, event("DELETED", &pod(1, "web-2", "13")));
                Some(Reply::Stream(rollout.chain(end).chain([Part::Stall]).collect()))
            }
            ("namespaces", true, 0) => {
                let end = then(1200, event("DELETED", &namespace(1, "13")));
                Some(Reply::Stream(end.into_iter().chain([Part::Stall]).collect()))
            }
            ("log", ..) if request.path.contains("/web-1/") => stream(vec![line(1, "old")], None),
            ("log", ..) => stream(vec![line(2, "new")], None),
            _ => one_pod(request),
        }
    })
    .await;
    let access = ready(&server).await;
    let mut lines = access.logs(&lease(1), follow()).unwrap();
    assert_eq!(next(&mut lines).await, ("web-1".to_owned(), "old".to_owned()));
    assert_eq!(next(&mut lines).await, ("web-2".to_owned(), "new".to_owned()));
    let end = timeout(Duration::from_secs(20), lines.next()).await.unwrap();
    assert!(end.is_none(), "{end:?}");
    let calls = server.calls("log", false).len();
    assert!(calls < 20, "{calls}");
}

#[tokio::test]
async fn dropped_stream_ends_its_calls() {
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => stream(vec![line(1, "a")], Some(Part::Stall)),
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let mut lines = access.logs(&lease(1), follow()).unwrap();
    next(&mut lines).await;
    until("all streams wait", || server.stalled() == 15).await;
    drop(lines);
    until("the call is closed", || server.stalled() == 14).await;
}

#[tokio::test]
async fn slow_reader_applies_back_pressure() {
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => {
            let block: Vec<u8> = (0..1000).flat_map(|_| line(1, &"x".repeat(100))).collect();
            stream(vec![block; 1000], None)
        }
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let mut lines = access.logs(&lease(1), follow()).unwrap();
    next(&mut lines).await;
    sleep(ms(500)).await;
    let sent = server.parts_sent();
    assert!(sent < 200, "{sent} of 1000 blocks of 125 kB went out unread");
}

#[tokio::test]
async fn unavailable_server_is_an_error_in_time() {
    let server = Server::start(|request, _| match request.resource.as_str() {
        "log" => Some(Reply::Nothing),
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    let started = Instant::now();
    let lines = access.logs(&lease(1), LogOptions::default()).unwrap();
    let found: Vec<_> = timeout(Duration::from_secs(20), lines.collect()).await.unwrap();
    let [Err(error)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(started.elapsed() < Duration::from_secs(15));
    let calls = server.calls("log", false).len();
    assert!((2..10).contains(&calls), "{calls}");
}

#[tokio::test]
async fn only_followers_wait_for_a_container_to_start() {
    let server = Server::start(|request, nth| match (request.resource.as_str(), nth) {
        ("log", 0 | 1) => Some(Reply::status(400, "BadRequest")),
        ("log", _) => stream(vec![line(1, "at last")], Some(Part::Stall)),
        _ => one_pod(request),
    })
    .await;
    let access = ready(&server).await;
    assert_eq!(
        all(access.logs(&lease(1), LogOptions::default()).unwrap()).await,
        [] as [&str; 0]
    );
    let mut lines = access.logs(&lease(1), follow()).unwrap();
    assert_eq!(next(&mut lines).await.1, "at last");
}

#[tokio::test]
async fn unknown_objects_are_not_found() {
    let server = Server::start(|request, _| one_pod(request)).await;
    let access = ready(&server).await;
    let mut unknown = LogOptions::default();
    unknown.services = vec!["nobody".to_owned()];
    let errors = [
        access.logs(&lease(2), follow()).err(),
        access.logs(&lease(1), unknown).err(),
        access.events(&lease(2), EventOptions::default()).err(),
        exec(&access, 2, "web", 0).await.err(),
        exec(&access, 1, "nobody", 0).await.err(),
        exec(&access, 1, "web", 1).await.err(),
    ];
    for error in errors {
        assert_eq!(error.unwrap().kind(), ErrorKind::NotFound);
    }
    assert_eq!(server.calls("exec", false).len(), 0, "no request to the server");
}

async fn exec(access: &Access, dseq: u64, service: &str, replica: u32) -> Result<i32, Error> {
    let mut request = ExecRequest::default();
    request.service = service.to_owned();
    request.replica = replica;
    request.command = vec!["true".to_owned()];
    let io = ExecIo {
        stdin: None,
        stdout: Box::new(tokio::io::sink()),
        stderr: Box::new(tokio::io::sink()),
        resize: futures::stream::pending().boxed(),
    };
    timeout(Duration::from_secs(20), access.exec(&lease(dseq), request, io))
        .await
        .unwrap()
}

/// An exit code of 0 would look like success.
#[tokio::test]
async fn command_that_cannot_start_has_no_exit_code() {
    let cases = [
        (Reply::status(404, "NotFound"), ErrorKind::Unavailable),
        (Reply::status(403, "Forbidden"), ErrorKind::Denied),
        (Reply::status(500, "InternalError"), ErrorKind::Unavailable),
        (Reply::Nothing, ErrorKind::Unavailable),
        (Reply::Silence, ErrorKind::Timeout),
        (
            Reply::Text(200, Vec::new(), "no websocket"),
            ErrorKind::Unavailable,
        ),
        (Reply::Stream(vec![Part::Stall]), ErrorKind::Unavailable),
    ];
    for (reply, kind) in cases {
        let answer = reply.clone();
        let server = Server::start(move |request, _| match request.resource.as_str() {
            "exec" => Some(answer.clone()),
            _ => one_pod(request),
        })
        .await;
        let access = ready(&server).await;
        let started = Instant::now();
        let error = exec(&access, 1, "web", 0).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{reply:?}: {error}");
        if kind == ErrorKind::Timeout {
            // Exec has its own time limit, which is longer than that of other calls.
            assert!(started.elapsed() >= ms(1500), "{:?}", started.elapsed());
            assert!(error.message().contains("did not start within 1.5s"), "{error}");
        }
    }
}

fn event_object(uid: &str, version: &str, reason: &str, about: &str) -> serde_json::Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {
            "name": uid, "namespace": lease(1).namespace(), "uid": uid, "resourceVersion": version,
        },
        "eventTime": null, "deprecatedLastTimestamp": k8s_openapi::jiff::Timestamp::now().to_string(),
        "reason": reason, "note": "text", "type": "Normal", "reportingController": "kubelet",
        "regarding": {"kind": "Pod", "namespace": lease(1).namespace(), "name": about},
    })
}

#[tokio::test]
async fn events_are_filtered_by_service_and_retained_after_server_removes_them() {
    let server = Server::start(
        |request, nth| match (request.resource.as_str(), request.is_watch(), nth) {
            ("manifests", false, _) => {
                let mut two = manifest(1, 1);
                let mut db = two["spec"]["group"]["services"][0].clone();
                db["name"] = json!("db");
                two["spec"]["group"]["services"]
                    .as_array_mut()
                    .unwrap()
                    .insert(0, db);
                Some(Reply::list("10", vec![two]))
            }
            ("events", false, _) => Some(Reply::list("10", vec![event_object("a", "1", "Pulled", "web-1")])),
            ("events", true, 0) => {
                let later = [
                    event("DELETED", &event_object("a", "11", "Pulled", "web-1")),
                    event("ADDED", &event_object("b", "12", "Started", "db-0")),
                    event("ADDED", &event_object("c", "13", "Killing", "web-1")),
                ];
                let lines = later.iter().map(|e| Part::Bytes(format!("{e}\n").into_bytes()));
                Some(Reply::Stream(
                    [Part::Pause(ms(400))]
                        .into_iter()
                        .chain(lines)
                        .chain([Part::Stall])
                        .collect(),
                ))
            }
            _ => one_pod(request),
        },
    )
    .await;
    let access = ready(&server).await;
    let of = |service: &str, follow| {
        let mut options = EventOptions::default();
        options.services = vec![service.to_owned()];
        options.follow = follow;
        options
    };
    let mut web = access.events(&lease(1), of("web", true)).unwrap();
    for wanted in ["Pulled", "Killing"] {
        let next = timeout(Duration::from_secs(20), web.next()).await.unwrap();
        let event = next.unwrap().unwrap();
        assert_eq!((event.reason.as_str(), event.service.as_str()), (wanted, "web"));
        assert_eq!(
            (event.object.kind.as_str(), event.reporting_controller.as_str()),
            ("Pod", "kubelet")
        );
    }
    let reasons = |options| {
        let events = access.events(&lease(1), options).unwrap();
        events.map(|e| e.unwrap().reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(of("db", false)).await, ["Started"]);
    assert_eq!(
        reasons(EventOptions::default()).await,
        ["Pulled", "Started", "Killing"],
        "removed on the server, retained in the cache"
    );
}
