//! Tests of the development network over the wire, as clients of a node use it.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "devnet/calls.rs"]
mod calls;
#[path = "devnet/client.rs"]
mod client;
#[path = "devnet/conformance.rs"]
mod conformance;
#[path = "devnet/driver.rs"]
mod driver;
#[path = "devnet/frames.rs"]
mod frames;
#[path = "devnet/heads.rs"]
mod heads;
#[path = "devnet/interop.rs"]
mod interop;
#[path = "devnet/recordings.rs"]
mod recordings;
#[path = "devnet/refusals.rs"]
mod refusals;
#[path = "devnet/replay.rs"]
mod replay;
