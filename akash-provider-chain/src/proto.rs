//! The network's messages, generated from the files in `proto/` (their comments are the documentation)
//! into `generated/`; the test `generated` holds both together and writes them anew.
//!
//! Packages are modules: `akash.market.v1beta5.MsgCreateBid` is
//! [`akash::market::v1beta5::MsgCreateBid`]. [`Name`](prost::Name) gives the type URL of each message.
#![allow(missing_docs, unreachable_pub, clippy::use_self, reason = "generated code")]

include!("../generated/proto.rs");

/// All of them described, as an encoded `FileDescriptorSet`: for showing a message whose type is known by name.
pub const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");
