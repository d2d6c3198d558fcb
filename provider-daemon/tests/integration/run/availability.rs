//! Requests during start and stop of the provider: each request gets a response with a clear text, no request
//! hangs, and streams end with a close reason.

use crate::http::{curl, token_within};
use crate::run::served::Served;
use crate::run::websocket::Websocket;
use crate::stage::until;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_gateway::descriptors;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const FAST: Option<Duration> = Some(Duration::from_millis(250));

/// Request (method, path, body) and response (status, part of the text).
type Row<'a> = (&'a str, &'a str, &'a str, u16, &'a str);

const MOVE_HOSTNAMES: &str =
    r#"{"hostnames_to_migrate":["a.example.com"],"destination_dseq":9,"destination_gseq":1}"#;
const MOVE_ENDPOINTS: &str = r#"{"endpoints_to_migrate":["ep"],"destination_dseq":9,"destination_gseq":1}"#;
const LOGS: &str = "/lease/9/1/1/logs?follow=true";
const EVENTS: &str = "/lease/9/1/1/kubeevents?follow=true";
const SHELL: &str = "/lease/9/1/1/shell?cmd0=cat&tty=0&stdin=0&service=web&podIndex=0";

/// Requests with the same responses during start, operation and stop.
const ALWAYS: [Row<'_>; 5] = [
    ("GET", "/healthz", "", 200, "ok"),
    ("GET", "/status", "", 200, "\"address\""),
    ("GET", "/version", "", 200, "provider-services"),
    ("GET", "/address", "", 200, "akash1"),
    ("GET", "/openapi.json", "", 200, "\"paths\""),
];

/// Sends all requests. Returns `false` without curl.
fn serves(served: &Served, rows: &[Row<'_>]) -> bool {
    let bearer = format!("Authorization: Bearer {}", served.token());
    for (method, path, body, status, words) in ALWAYS.iter().chain(rows) {
        let url = format!("{}{path}", served.url);
        let asked = [
            "--request",
            method,
            "--header",
            &bearer,
            "--data-binary",
            body,
            &url,
        ];
        let Some((got, text)) = curl(&asked) else {
            return false;
        };
        let dump = || served.provider.dump();
        assert!(
            got == *status && text.contains(words),
            "{method} {path}: {got} {text}\n{}",
            dump()
        );
    }
    true
}

fn manifest(served: &Served) -> String {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let (code, manifest, err) = served.stage.ran(&["sdl", "manifest", sample]);
    assert_eq!(code, 0, "{err}");
    manifest
}

#[test]
fn every_request_gets_a_response_during_drain_and_streams_get_a_close_reason() {
    // The bid waits in the node for a block that does not come, and the provider waits for the bid's outcome.
    let flags = [
        "--shutdown-grace=1h",
        "--log-level=warn,akash_provider_chain::tx=debug",
    ];
    let mut served = Served::start("drain", None, &flags);
    let manifest = manifest(&served);
    let open = |path| Websocket::open(&served.url, path, &served.token());
    let streams = [LOGS, EVENTS].map(|path| open(path).ok().unwrap());
    let sent = || served.provider.dump().matches("sending transaction").count();
    let before = sent();
    served.stage.order(77);
    served.stage.make_block();
    until("the bid is sent", || served.provider.dump(), || sent() > before);
    served.provider.signal(Signal::SIGTERM);
    for stream in streams {
        let frames = stream.received();
        assert_eq!(frames.close, Some((1001, "the provider is stopping".to_owned())));
    }
    let rows: [Row<'_>; 7] = [
        ("GET", "/readyz", "", 503, "the provider is stopping"),
        (
            "PUT",
            "/deployment/9/manifest",
            &manifest,
            503,
            "the provider is stopping",
        ),
        // A running workload continues and its status is available.
        ("GET", "/lease/9/1/1/status", "", 200, "\"web\""),
        ("GET", "/lease/9/1/1/service/web/status", "", 200, "\"web\""),
        ("GET", "/lease/9/1/1/manifest", "", 200, "nginx"),
        (
            "POST",
            "/hostname/migrate",
            MOVE_HOSTNAMES,
            503,
            "the provider is stopping",
        ),
        (
            "POST",
            "/endpoint/migrate",
            MOVE_ENDPOINTS,
            503,
            "the provider is stopping",
        ),
    ];
    serves(&served, &rows);
    for path in [LOGS, EVENTS, SHELL] {
        assert_eq!(open(path).err(), Some(503), "{path}");
    }
    assert!(
        served.provider.has_ended().is_none(),
        "{}",
        served.provider.dump()
    );
    let (stage, provider) = (&served.stage, &mut served.provider);
    let mut code = None;
    until("the end", String::new, || {
        stage.make_block();
        code = provider.has_ended().map(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(Some(0)), "{}", provider.dump());
    assert!(!provider.dump().contains("panicked"), "{}", provider.dump());
}

#[test]
fn requests_before_first_snapshot_report_the_awaited_part() {
    let limited = ["--gateway-token-lifetime-max=2h"];
    let mut served = Served::start("begin", FAST, &limited);
    let manifest = manifest(&served);
    let too_long = served.token_for(Duration::from_secs(3 * 3600));
    let refused = Websocket::open(&served.url, LOGS, &too_long).err();
    assert_eq!(
        refused,
        Some(400),
        "the gateway accepted a token valid for three hours"
    );
    served.provider.signal(Signal::SIGTERM);
    assert_eq!(served.provider.ended(), Some(0), "{}", served.provider.dump());
    served.stage.stop_node();
    // The tenant's key is stored from before the restart, so the token is accepted.
    served.replace(&limited);
    let why = "the chain is not known yet";
    let rows: [Row<'_>; 7] = [
        ("GET", "/readyz", "", 503, why),
        ("PUT", "/deployment/9/manifest", &manifest, 503, "the chain"),
        ("GET", "/lease/9/1/1/status", "", 503, why),
        ("GET", "/lease/9/1/1/service/web/status", "", 503, why),
        ("GET", "/lease/9/1/1/manifest", "", 503, why),
        ("POST", "/hostname/migrate", MOVE_HOSTNAMES, 503, why),
        ("POST", "/endpoint/migrate", MOVE_ENDPOINTS, 503, why),
    ];
    if !serves(&served, &rows) {
        return;
    }
    let transcript_of = |path| {
        let stream = Websocket::open(&served.url, path, &served.token());
        stream.ok().unwrap().received()
    };
    for path in [LOGS, EVENTS] {
        let end = transcript_of(path);
        assert_eq!(end.close.map(|(code, _)| code), Some(4002), "{path}");
        assert!(end.data.is_empty());
    }
    let shell = transcript_of(SHELL);
    let [result] = shell.data.as_slice() else {
        panic!("{shell:?}");
    };
    let result = String::from_utf8_lossy(result);
    assert!(
        result.contains(why) && result.contains("\"exit_code\":1"),
        "{result}"
    );
    // The key of another account is on the chain, so it is unknown whether its token is valid.
    let stranger = token_within(&PrivateKey::from_bytes(&[45; 32]).unwrap(), 5, 3600);
    assert_eq!(Websocket::open(&served.url, LOGS, &stranger).err(), Some(503));
    served.stage.start_node(FAST);
    let is_ready = || curl(&[&format!("{}/readyz", served.url)]).is_some_and(|(status, _)| status == 200);
    until("the provider is ready", || served.provider.dump(), is_ready);
    // From now on "no such workload" is a valid response, because the memory cluster lost it.
    let rows: [Row<'_>; 2] = [
        ("GET", "/lease/9/1/1/manifest", "", 404, "lease not found"),
        ("PUT", "/deployment/9/manifest", &manifest, 200, ""),
    ];
    serves(&served, &rows);
    assert!(
        !served.provider.dump().contains("panicked"),
        "{}",
        served.provider.dump()
    );
}

/// Sends an HTTP request. Returns the status with the body, and the duration.
fn probe(address: SocketAddr, path: &str) -> (String, Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (format!("{status} {}", body.trim()), began.elapsed())
}

#[test]
fn probe_port_responds_while_clients_hold_all_other_connections() {
    descriptors::raise().unwrap();
    let served = Served::start("probes", None, &["--gateway-health-listen-address=127.0.0.1:0"]);
    let printed_lines = served.provider.output();
    let mut events = printed_lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let started = events.find(|event| event["event"] == "health");
    let url = started.unwrap()["url"].clone();
    let health: SocketAddr = url
        .as_str()
        .unwrap()
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    let gateway: SocketAddr = served.url.trim_start_matches("https://").parse().unwrap();
    // More connections than either port accepts. The connections to the probe port are slow, too.
    let open = |address, count: usize| (0..count).map(move |_| TcpStream::connect(address).unwrap());
    let mut connections: Vec<_> = open(gateway, 1_000).chain(open(health, 200)).collect();
    for slow in &mut connections[1_000..] {
        slow.write_all(b"GET /readyz HTTP/1.1\r\n").unwrap_or(());
    }
    for path in ["/readyz", "/healthz"] {
        let tries: Vec<_> = (0..5).map(|_| probe(health, path)).collect();
        assert!(
            tries.iter().all(|(reply, _)| reply.starts_with("200 ok")),
            "{tries:?}"
        );
        let fastest = tries.iter().map(|(_, took)| *took).min().unwrap();
        println!("{path} in {fastest:?}");
        assert!(fastest <= Duration::from_millis(100), "{fastest:?}");
    }
    assert!(probe(health, "/status").0.starts_with("404"));
    drop(connections);
}
