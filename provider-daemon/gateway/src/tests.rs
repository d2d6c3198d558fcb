//! Tests of the gateway over real TLS connections, with a provider on in-memory backends.

mod access;
mod anonymous;
mod any_certificate;
pub(crate) mod clients;
mod grpc;
mod hostile;
mod idle;
mod other_tenants;
mod recorded;
mod routes;
mod screening;
mod screening_reasons;
mod sdk;
mod statistics;
mod streams;
mod tls;
mod world;

use super::GatewayError;
use akash_provider_core::error::chain_text;
use std::io::ErrorKind;

#[test]
fn bind_error_names_flag_and_address_once() {
    let of = |kind: ErrorKind| {
        let flag = "--gateway-listen-address";
        let (address, why) = ("127.0.0.1:8443".parse().unwrap(), kind.into());
        chain_text(&GatewayError::Listen { flag, address, why })
    };
    assert_eq!(
        of(ErrorKind::AddrInUse),
        "--gateway-listen-address 127.0.0.1:8443: another program uses this address: stop it, or set another address"
    );
    assert!(of(ErrorKind::PermissionDenied).ends_with("set a port of 1024 or higher"));
    assert!(of(ErrorKind::AddrNotAvailable).ends_with("or 0.0.0.0"));
}
