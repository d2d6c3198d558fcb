//! The Akash chain as a provider sees it: events, queries, transactions, keys, certificates.

pub mod method;
pub mod proto;
