//! Scrapes of the metrics of a running provider.

use crate::stage::{Running, until};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Values by metric name with labels, such as `name{label="value"}`.
pub(crate) type Values = BTreeMap<String, f64>;

/// Requests `/metrics` with this `Accept` header. Returns head and body.
pub(crate) fn get(port: u16, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Parses the samples of a scrape. Panics on a repeated sample.
pub(crate) fn parse(text: &str) -> Values {
    let mut values = Values::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let value = match value {
            "+Inf" | "inf" => f64::INFINITY,
            value => value.parse().unwrap(),
        };
        assert_eq!(
            values.insert(sample.to_owned(), value),
            None,
            "{sample} is repeated"
        );
    }
    values
}

/// Waits until the scrape fulfills a condition.
#[track_caller]
pub(crate) fn scraped(
    port: u16,
    provider: &Running,
    what: &str,
    mut done: impl FnMut(&Values) -> bool,
) -> Values {
    let last = std::cell::RefCell::new(Values::new());
    let dump = || format!("{:#?}\n{}", last.borrow(), provider.dump());
    until(what, dump, || {
        let Some((head, body)) = get(port, "text/plain") else {
            return false;
        };
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        *last.borrow_mut() = parse(&body);
        done(&last.borrow())
    });
    last.into_inner()
}
