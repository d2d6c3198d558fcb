//! The network's messages, generated from the files in `proto/` (their comments are the documentation).
//!
//! Packages are modules: `akash.market.v1beta5.MsgCreateBid` is
//! [`akash::market::v1beta5::MsgCreateBid`]. [`Name`](prost::Name) gives the type URL of each message.
#![allow(missing_docs, unreachable_pub, clippy::use_self, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));

/// Descriptions of every message and service here, for clients that ask a server what it speaks.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
