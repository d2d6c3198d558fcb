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

use super::GatewayError;
use akash_provider_core::error::chain_text;
use std::io::ErrorKind;

#[test]
fn an_address_that_cannot_be_had_is_said_once_with_its_flag() {
    let of = |kind: ErrorKind| {
        let flag = "--gateway-listen-address";
        let (address, why) = ("127.0.0.1:8443".parse().unwrap(), kind.into());
        chain_text(&GatewayError::Listen { flag, address, why })
    };
    assert_eq!(
        of(ErrorKind::AddrInUse),
        "--gateway-listen-address 127.0.0.1:8443: another program listens there: stop it, or give another address"
    );
    assert!(of(ErrorKind::PermissionDenied).ends_with("give a port from 1024 on"));
    assert!(of(ErrorKind::AddrNotAvailable).ends_with("or 0.0.0.0"));
}
