//! The program as its users run it. If a test needs a chain, it uses a development network.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

#[path = "../../gateway/src/tests/any_certificate.rs"]
mod any_certificate;
mod chain_cli;
mod chain_faults;
mod chart;
mod cli;
#[path = "../../gateway/src/tests/clients.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the gateway, which use more of it"
)]
mod clients;
#[cfg(feature = "otlp")]
#[path = "../common/collector.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of the traces, which use more of it"
)]
mod collector;
mod devnet;
#[path = "../../operate/src/doctor/dns/server.rs"]
#[expect(dead_code, reason = "shared with the unit tests, which use more of it")]
mod dns_server;
#[path = "../common/environment.rs"]
mod environment;
#[path = "../common/http.rs"]
mod http;
#[path = "../common/landed.rs"]
mod landed;
mod monitoring;
mod printed_messages;
#[path = "../common/pty.rs"]
mod pty;
mod run;
#[path = "../common/scrape.rs"]
mod scrape;
#[path = "../common/snapshot.rs"]
mod snapshot;
#[path = "../common/stage.rs"]
mod stage;
mod tenant;
