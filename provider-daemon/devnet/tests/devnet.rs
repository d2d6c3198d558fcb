//! The development network, spoken to over the wire as any client of a node does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

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
