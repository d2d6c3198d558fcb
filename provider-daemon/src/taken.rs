//! Why an address cannot be listened at, in words with the mend.

use std::io::{self, ErrorKind};

/// The words.
pub(crate) fn taken(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::AddrInUse => "another program listens there: stop it, or give another address",
        ErrorKind::AddrNotAvailable => "this machine has no such address: give one of its own, or 0.0.0.0",
        ErrorKind::PermissionDenied => "this user may not listen there: give a port from 1024 on",
        _ => return format!("cannot be listened at: {error}"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::GatewayError;
    use akash_provider_core::error::chain_text;

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
}
