//! What the chain's codes mean for a provider.

use super::api::Code;
use akash_provider_core::types::{TxError, TxOutcome};

/// Longest text of the chain that is passed on. Handlers that panic append a stack trace.
const LOG_CHARS_MAX: usize = 300;

/// Code of a transaction whose handler panicked.
const PANIC: u32 = 111_222;

/// What a code means.
#[must_use]
pub(super) fn meaning(code: &Code) -> TxError {
    match (code.space.as_str(), code.number) {
        ("market", number) => market(number),
        ("sdk", 5) => TxError::InsufficientFunds,
        // Wrapped twice, the market's deposit errors come out of its handlers without their code.
        ("undefined", 1) => TxError::Deposit,
        ("deposit", _) => TxError::Deposit,
        _ => TxError::Other,
    }
}

fn market(number: u32) -> TxError {
    match number {
        21 => TxError::BidExists,
        9 | 13 | 15 | 23 | 24 => TxError::OrderNotOpen,
        4 | 22 => TxError::PriceTooHigh,
        5 => TxError::AttributeMismatch,
        32 => TxError::CapabilitiesMismatch,
        28 => TxError::Deposit,
        6 | 8 | 11 | 12 | 18 => TxError::UnknownBid,
        7 | 10 | 20 => TxError::LeaseNotActive,
        37 => TxError::ReclaimNotStarted,
        36 => TxError::AlreadyReclaiming,
        38 => TxError::WindowNotElapsed,
        39..=41 => TxError::Reclamation,
        31 => TxError::InvalidBid,
        _ => TxError::Other,
    }
}

/// True for a panic of a handler: it says nothing about the message itself.
pub(super) fn is_panic(code: &Code) -> bool {
    code.number == PANIC
}

/// A refusal as an outcome.
pub(super) fn rejected(code: &Code, log: &str) -> TxOutcome {
    TxOutcome::Rejected {
        error: meaning(code),
        code: code.to_string(),
        log: shortened(log),
    }
}

/// The chain's text without stack trace, on one line, of a bearable length.
pub(super) fn shortened(log: &str) -> String {
    let text = log.split("stack:").next().unwrap_or_default().trim();
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.chars().take(LOG_CHARS_MAX).collect()
}
