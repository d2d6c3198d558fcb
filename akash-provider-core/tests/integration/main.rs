//! What the crate promises, tested from outside of it; what runs for long is `explore` and `simulation`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what broke and stops"
)]

mod engine;
mod flow;
mod parity;
mod parsers_never_panic;
mod sdl;
