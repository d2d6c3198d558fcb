//! The network's messages, generated from the files in `proto/` (their comments are the documentation).
//!
//! Packages are modules: `akash.market.v1beta5.MsgCreateBid` is
//! [`akash::market::v1beta5::MsgCreateBid`]. [`Name`](prost::Name) gives the type URL of each message.
#![allow(missing_docs, unreachable_pub, clippy::use_self, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));

/// All of them described, as an encoded `FileDescriptorSet`: for showing a message whose type is known by name.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
