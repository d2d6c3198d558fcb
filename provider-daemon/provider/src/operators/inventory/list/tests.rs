//! Tests of the list of GPUs with failing servers.

use super::super::tests::silent;
use super::*;
use crate::download::onward;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::inventory::InventoryOperatorOptions;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LIST: &str = r#"{"10de": {"devices": {"20b5": {"name": "a100"}}}}"#;

async fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/devices/gpus", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let path = String::from_utf8_lossy(&head[..read])
                .split(' ')
                .nth(1)
                .unwrap_or_default()
                .to_owned();
            let _ = stream.write_all(answer(&path).as_bytes()).await;
        }
    });
    Url::parse(&url).unwrap()
}

fn fine(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// Returns an operator without a cluster.
fn idle_operator() -> InventoryOperator {
    InventoryOperator::start(
        &WriteClient::without_election(silent()),
        InventoryOperatorOptions::default(),
    )
}

#[tokio::test]
async fn redirects_and_response_size_are_limited() {
    let url = server(|path| match path {
        "/devices/gpus" => moved("/a"),
        "/a" => moved("/b"),
        "/b" => moved("/c"),
        "/c" => fine(LIST),
        _ => unreachable!(),
    });
    assert_eq!(download(&url.await, BYTES_MAX).await.unwrap(), LIST.as_bytes());
    let round = server(|_| moved("/again")).await;
    assert!(
        download(&round, BYTES_MAX)
            .await
            .unwrap_err()
            .contains("redirects")
    );
    let long = server(|_| fine(&" ".repeat(BYTES_MAX + 1))).await;
    assert!(
        download(&long, BYTES_MAX)
            .await
            .unwrap_err()
            .contains("more than")
    );
    let broken = server(|_| "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    assert!(download(&broken, BYTES_MAX).await.unwrap_err().contains("500"));
    let to = |text: &'static str| {
        onward(
            &Url::parse("https://a/x").unwrap(),
            Some(&http::HeaderValue::from_static(text)),
        )
    };
    assert!(
        to("http://a/x")
            .unwrap_err()
            .contains("from https to another scheme")
    );
    assert!(to("file:///etc/passwd").is_err());
    assert_eq!(to("/y").unwrap().as_str(), "https://a/y");
    assert!(onward(&round, None).is_err());
}

#[tokio::test]
async fn invalid_list_keeps_the_last_valid_one_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let url = server(move |_| match counting.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => fine(LIST),
        _ => fine("<html>"),
    });
    let source = GpuListSource::Network(url.await);
    let operator = idle_operator();
    let list = Arc::new(List::new(
        source.clone(),
        Some(folder.path()),
        Duration::from_secs(1),
    ));
    let keeping = Arc::clone(&list);
    let follow = async {
        let mut seen = Vec::new();
        for wanted in 1..=3 {
            while asked.load(Ordering::SeqCst) < wanted {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_millis(200)).await;
            let status = list.status();
            seen.push((
                status.devices,
                status.error.is_some(),
                operator.status().known_gpus,
            ));
        }
        seen
    };
    let seen = tokio::select! {
        never = keeping.keep(&operator) => match never {},
        seen = follow => seen,
    };
    assert_eq!(seen, [(1, false, 1), (1, true, 1), (1, false, 1)]);
    let text = std::fs::read_to_string(folder.path().join(FILE_NAME)).unwrap();
    assert_eq!(text, LIST);
    // Restart without a network.
    let nobody = GpuListSource::Network(Url::parse("http://127.0.0.1:9/devices/gpus").unwrap());
    let operator = idle_operator();
    let list = Arc::new(List::new(
        nobody.clone(),
        Some(folder.path()),
        Duration::from_secs(60),
    ));
    let wait = async {
        while list.status().error.is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        never = Arc::clone(&list).keep(&operator) => match never {},
        () = wait => {}
    }
    assert_eq!((list.status().devices, operator.status().known_gpus), (1, 1));
    // A damaged stored list is reported and ignored.
    std::fs::write(folder.path().join(FILE_NAME), "{").unwrap();
    let operator = idle_operator();
    let list = Arc::new(List::new(
        GpuListSource::Nowhere,
        Some(folder.path()),
        Duration::from_secs(60),
    ));
    tokio::select! {
        never = Arc::clone(&list).keep(&operator) => match never {},
        () = sleep(Duration::from_millis(100)) => {}
    }
    assert!(list.status().error.unwrap().contains(FILE_NAME));
}
