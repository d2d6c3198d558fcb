//! Mapping of error codes of the chain to [`TxError`].

use super::api::Code;
use akash_provider_core::types::{Msg, TxError, TxOutcome};

/// Maximum number of characters of a chain log in an error message. After a panic, the log contains a stack
/// trace.
const LOG_CHARS_MAX: usize = 300;

/// Error code of the chain after a message handler panicked.
const PANIC: u32 = 111_222;

/// Maps an error code of the chain to a [`TxError`]. `msg` is the refused message, if known.
pub(super) fn meaning(code: &Code, msg: Option<&Msg>) -> TxError {
    let is_bid = matches!(msg, Some(Msg::CreateBid { .. }));
    let is_payout = matches!(msg, Some(Msg::WithdrawLease { .. }));
    match (code.space.as_str(), code.number) {
        ("market", number) => market(number),
        // 5: the account cannot pay the fee. 38: the grant that pays the fee does not exist.
        ("sdk", 5 | 38) => TxError::FeeUnpaid,
        // The grant that pays the fee is used up, expired or does not cover this account.
        ("feegrant", 2 | 3 | 5) => TxError::FeeUnpaid,
        // The market wraps the errors of a deposit twice, and the code is lost. Of the messages sent here, only a bid
        // has a deposit. The usual reason is a deposit that the account cannot pay.
        ("undefined", 1) if is_bid => TxError::InsufficientFunds,
        // The account or the payment is closed or overdrawn: nothing is left to pay out.
        ("escrow", 2 | 4 | 7) if is_payout => TxError::LeaseNotActive,
        _ => TxError::Other,
    }
}

fn market(number: u32) -> TxError {
    match number {
        21 => TxError::BidExists,
        9 | 13 | 15 | 23 | 24 | 26 => TxError::OrderNotOpen,
        4 | 22 => TxError::PriceTooHigh,
        5 => TxError::AttributeMismatch,
        32 => TxError::CapabilitiesMismatch,
        28 => TxError::Deposit,
        6 | 8 | 11 | 12 | 18 => TxError::UnknownBid,
        7 | 10 | 14 | 20 => TxError::LeaseNotActive,
        37 => TxError::ReclaimNotStarted,
        36 => TxError::AlreadyReclaiming,
        38 => TxError::WindowNotElapsed,
        39..=41 => TxError::Reclamation,
        31 => TxError::InvalidBid,
        _ => TxError::Other,
    }
}

/// Returns true if a message handler panicked. The panic may be independent of the message.
pub(super) fn is_panic(code: &Code) -> bool {
    code.number == PANIC
}

pub(super) fn rejected(code: &Code, log: &str, msg: Option<&Msg>) -> TxOutcome {
    TxOutcome::Rejected {
        error: meaning(code, msg),
        code: code.to_string(),
        log: shortened(log),
    }
}

/// Returns the log as one truncated line without the stack trace.
pub(super) fn shortened(log: &str) -> String {
    let text = log.split("stack:").next().unwrap_or_default().trim();
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.chars().take(LOG_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
