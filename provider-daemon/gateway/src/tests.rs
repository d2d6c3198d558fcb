//! The gateway as its clients see it: real TLS, real requests, a provider on backends in memory behind it.

mod access;
mod anybody;
pub(crate) mod clients;
mod grpc;
mod hostile;
mod idle;
mod others;
mod outside;
mod recorded;
mod routes;
mod screening;
mod strangers;
mod streams;
mod tls;
mod world;
