//! Unused ports for servers that need a fixed port before they start.

use crate::error::{Error, Result};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// First port to try, below the range of outgoing connections.
const FIRST: u16 = 10_000;
const COUNT: u32 = 20_000;

/// Returns an unused loopback port. Outgoing connections use other ports, so no connection can occupy this
/// port.
///
/// # Errors
/// Fails if all ports of the range are in use.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        // Processes that run at the same time start at different ports.
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(97).wrapping_add(next) % COUNT;
        let port = u16::try_from(offset).map_or(FIRST, |offset| FIRST + offset);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new("no port of loopback is unused"))
}
