//! Tests that each fault of the proxy has its documented effect. Without these tests, a campaign with a proxy
//! that injects no faults would pass.

use crate::chain_faults::world::{CHAIN, authority, chain, devnet, height, until, us};
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{EndpointLimits, Reader};
use akash_provider_core::chain::ChainQuery;
use fault_proxy::{Control, Faults, Proxy};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request on a new connection. Returns the response, possibly incomplete.
async fn raw(proxy: &Proxy, method: &str, params: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}).to_string();
    request(
        proxy.address(),
        &format!(
            "POST / HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    )
    .await
}

async fn request(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    drop(stream.write_all(request.as_bytes()).await);
    let mut response = Vec::new();
    drop(stream.read_to_end(&mut response).await);
    String::from_utf8_lossy(&response).into_owned()
}

fn number(response: &str, key: &str) -> u64 {
    let at = response
        .find(&format!("\"{key}\""))
        .unwrap_or_else(|| panic!("{key} in {response}"));
    let digits = response[at + key.len() + 2..]
        .chars()
        .skip_while(|c| !c.is_ascii_digit());
    digits
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_has_its_documented_effect() {
    let chain = chain();
    let net = devnet(&chain, None).await;
    for _ in 0..10 {
        net.make_block();
    }
    let newest = height(&chain);
    let proxy = Proxy::start(&authority(&net.rpc_url()), 3).await.unwrap();
    let none = Faults::default();
    let status = async || raw(&proxy, "status", json!({})).await;
    assert_eq!(number(&status().await, "latest_block_height"), newest);

    proxy.set(Faults { lag: 4, ..none });
    assert_eq!(number(&status().await, "latest_block_height"), newest - 4);
    let later = raw(&proxy, "block_results", json!({"height": newest.to_string()})).await;
    assert!(later.contains("must be less than or equal to"), "{later}");
    let reader = |url: String| Reader::new(Endpoints::new(&[url], CHAIN, EndpointLimits::default()).unwrap());
    let behind = reader(proxy.url()).snapshot(&us()).await.unwrap();
    assert_eq!(behind.height, newest - 4);

    proxy.set(Faults { scatter: 3, ..none });
    let mut heights = std::collections::BTreeSet::new();
    for _ in 0..40 {
        heights.insert(number(&status().await, "latest_block_height"));
    }
    assert_eq!(
        heights.into_iter().collect::<Vec<_>>(),
        (newest - 3..=newest).collect::<Vec<_>>()
    );

    proxy.set(Faults {
        keep_blocks: 2,
        ..none
    });
    let gone = raw(&proxy, "block_results", json!({"height": "3"})).await;
    assert!(gone.contains("is not available, lowest height is"), "{gone}");

    proxy.set(Faults {
        refused: true,
        ..none
    });
    assert!(status().await.starts_with("HTTP/1.1 502"));
    proxy.set(Faults {
        truncate: 100,
        ..none
    });
    let cut = status().await;
    assert!(cut.starts_with("HTTP/1.1 200") && !cut.ends_with('}'), "{cut}");
    proxy.set(Faults { swallow: 100, ..none });
    assert_eq!(status().await, "");
    proxy.set(Faults { down: true, ..none });
    assert_eq!(status().await, "");

    proxy.set(Faults { frozen: true, ..none });
    let waiting = tokio::time::timeout(Duration::from_millis(300), status()).await;
    assert!(waiting.is_err(), "a request passed");
    proxy.set(Faults {
        delay_ms: 200,
        ..none
    });
    let began = Instant::now();
    for _ in 0..10 {
        status().await;
    }
    assert!(
        began.elapsed() > Duration::from_millis(300),
        "ten responses, each delayed by up to 200 ms"
    );

    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_changes_what_node_reports_about_itself() {
    let net = devnet(&chain(), None).await;
    let proxy = Proxy::start(&authority(&net.rpc_url()), 3).await.unwrap();
    let none = Faults::default();
    let is_well = async || {
        let endpoints = Endpoints::new(&[proxy.url()], CHAIN, EndpointLimits::default()).unwrap();
        let asked = Reader::new(endpoints.clone()).params().await;
        (
            asked.is_ok(),
            endpoints.status()[0].fault.as_ref().map(ToString::to_string),
        )
    };
    proxy.set(Faults {
        catching_up: true,
        ..none
    });
    let (is_asked, fault) = is_well().await;
    assert!(!is_asked && fault.is_some_and(|f| f.contains("is catching up")));
    proxy.set(Faults {
        other_versions: true,
        ..none
    });
    let (is_asked, fault) = is_well().await;
    assert!(!is_asked && fault.is_some_and(|f| f.contains("offers the versions v9")));
    proxy.set(none);
    assert_eq!(is_well().await, (true, None));
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_switched_over_http() {
    let chain = chain();
    let net = devnet(&chain, None).await;
    for _ in 0..5 {
        net.make_block();
    }
    let newest = height(&chain);
    let proxy = Proxy::start(&authority(&net.rpc_url()), 3).await.unwrap();
    let control = Control::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), &[&proxy], &[])
        .await
        .unwrap();
    let put = |body: &str| {
        format!(
            "PUT /faults HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let response = request(control.address(), &put(r#"{"lag": 2}"#)).await;
    assert!(response.contains(r#""lag":2"#), "{response}");
    assert_eq!(
        number(&raw(&proxy, "status", json!({})).await, "latest_block_height"),
        newest - 2
    );
    assert!(
        request(control.address(), &put(r#"{"lagg": 2}"#))
            .await
            .starts_with("HTTP/1.1 400")
    );
    net.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushed_blocks_are_lost_duplicated_and_truncated() {
    let chain = chain();
    let net = devnet(&chain, None).await;
    let proxy = Proxy::start(&authority(&net.rpc_url()), 3).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let client =
        crate::chain_faults::world::start(crate::chain_faults::world::impatient(vec![proxy.url()]), &stop);
    tokio::spawn(crate::chain_faults::bidder::Bidder::new(client.clone()).run());
    let follower = || client.status().reader.follower;
    until("a subscription", || proxy.stats().subscriptions == 1).await;
    let at = net.make_block();
    until("a pushed block", || {
        follower().height == at && proxy.stats().pushed > 0
    })
    .await;

    let pushed = proxy.stats().pushed;
    proxy.set(Faults {
        lose_events: 100,
        ..Faults::default()
    });
    let lost = net.make_block();
    until("a lost block is fetched", || follower().height == lost).await;
    assert_eq!(proxy.stats().pushed, pushed);
    proxy.set(Faults {
        repeat_events: 100,
        ..Faults::default()
    });
    let mut last = 0;
    for _ in 0..4 {
        last = net.make_block();
    }
    until("duplicate blocks are reported once", || follower().height == last).await;
    assert_eq!(follower().resyncs, 1);
    let connections = follower().connections;
    proxy.set(Faults::default());
    proxy.cut();
    until("a new connection", || follower().connections > connections).await;
    stop.cancel();
    net.stop().await;
}
