//! Messages of the Akash network, generated from the files in `proto/` into `generated/`. The comments in the
//! generated files are the documentation of the messages. The test `generated` compares both folders and
//! regenerates the code.
//!
//! Packages are modules: `akash.market.v1beta5.MsgCreateBid` is
//! [`akash::market::v1beta5::MsgCreateBid`]. [`Name`](prost::Name) gives the type URL of each message.
#![allow(missing_docs, unreachable_pub, clippy::use_self, reason = "generated code")]

include!("../generated/proto.rs");

/// Encoded `FileDescriptorSet` of all messages, for decoding messages by type name.
pub const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");
