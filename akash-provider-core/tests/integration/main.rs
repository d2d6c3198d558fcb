//! Integration tests of the public API. The long tests are `explore` and `simulation`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed test panics with the reason"
)]

mod engine;
mod flow;
mod parity;
mod parsers_never_panic;
mod sdl;
