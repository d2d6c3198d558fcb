//! What the crate promises, tested from outside of it; what runs for long is `explore` and `simulation`.

mod engine;
mod flow;
mod parity;
mod parsers_never_panic;
mod sdl;
