//! The program as its users call it, on a development network where it needs a chain.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

#[path = "../../gateway/src/tests/any_certificate.rs"]
mod any_certificate;
mod chain_cli;
mod chain_faults;
mod cli;
#[path = "../../gateway/src/tests/clients.rs"]
#[expect(
    dead_code,
    reason = "the client of the gateway's own tests; these need a part of it"
)]
mod clients;
mod devnet;
#[path = "../common/environment.rs"]
mod environment;
#[path = "../common/http.rs"]
mod http;
#[path = "../common/landed.rs"]
mod landed;
#[path = "../common/pty.rs"]
mod pty;
mod run;
mod shown;
#[path = "../common/stage.rs"]
mod stage;
mod tenant;
