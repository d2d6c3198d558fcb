//! Scrapers during a burst of orders.

use crate::run::metrics_page::OPEN_METRICS;
use crate::scrape::{get, scraped};
use crate::stage::{Stage, until};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testbed::free_port;

const ORDERS: u64 = 40;
/// Number of scrapers that never read a response.
const SILENT: usize = 100;
/// Number of requests per silent scraper; enough to exceed the connection buffers.
const REQUESTS: usize = 200;
/// Maximum number of blocks between an order and its bid.
const BLOCKS_MAX: u64 = 3;

fn silent_scraper(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // The server may close the connection, or stop reading.
    let _ = stream.write_all(
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            .repeat(REQUESTS)
            .as_bytes(),
    );
    stream
}

#[test]
fn scrapers_delay_no_bid_of_a_burst() {
    let mut stage = Stage::new("metrics-load", true);
    stage.start_node(Some(Duration::from_millis(500)));
    let port = free_port().unwrap();
    let listener = format!("--metrics-listener=127.0.0.1:{port}");
    let flags = [listener.as_str(), "--nodes=64"];
    let provider = stage.provider("provider", &flags);
    scraped(port, &provider, "a provider that bids", |values| {
        let ready = values
            .iter()
            .filter(|(name, _)| name.starts_with("akash_provider_ready{"));
        let mut ready = ready.map(|(_, is_met)| *is_met).peekable();
        ready.peek().is_some() && ready.all(|is_met| is_met == 1.0)
    });
    let silent: Vec<TcpStream> = (0..SILENT).map(|_| silent_scraper(port)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let scraper = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let (mut scrapes, mut complete) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                scrapes += 1;
                let is_complete =
                    |(head, body): (String, String)| head.contains(" 200 ") && body.ends_with("# EOF\n");
                complete += usize::from(get(port, OPEN_METRICS).is_some_and(is_complete));
                std::thread::sleep(Duration::from_millis(100));
            }
            (scrapes, complete)
        })
    };
    let orders: Vec<_> = (1..=ORDERS).map(|dseq| stage.order(dseq)).collect();
    let bids = || orders.iter().filter(|id| !stage.bids(id).is_empty()).count();
    until(
        "a bid on each order",
        || provider.dump(),
        || bids() == orders.len(),
    );
    stop.store(true, Ordering::Relaxed);
    let (scrapes, complete) = scraper.join().unwrap();
    assert!(
        complete == scrapes && complete > 2,
        "{complete} of {scrapes} scrapes"
    );
    drop(silent);
    let delays = stage.chain.market(|market| {
        let delay = |order: &akash_provider_core::types::Order| {
            let bid = market.bids_of(&order.id).next().unwrap();
            bid.created_at - order.created_at
        };
        market.orders().map(delay).collect::<Vec<u64>>()
    });
    assert_eq!(delays.len() as u64, ORDERS);
    assert!(delays.iter().all(|blocks| *blocks <= BLOCKS_MAX), "{delays:?}");
}
