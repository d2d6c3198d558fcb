//! Refusal of a transaction, or its failure in a block.

use akash_provider_core::market::Rejection;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TxRefusal {
    pub(super) space: String,
    pub(super) code: u32,
    pub(super) log: String,
}

/// Error code for a message handler that panicked.
const PANIC: u32 = 111_222;

impl TxRefusal {
    pub(super) fn new(space: &str, code: u32, log: impl Into<String>) -> Self {
        Self {
            space: space.to_owned(),
            code,
            log: log.into(),
        }
    }

    /// Creates a refusal with a code of the codespace `sdk`.
    pub(super) fn sdk(code: u32, log: impl Into<String>) -> Self {
        Self::new("sdk", code, log)
    }

    /// Creates the refusal of a message that the market rejected. `index` is the index of the message in the
    /// transaction.
    pub(super) fn from_rejection(index: usize, rejection: &Rejection) -> Self {
        let (space, number) = rejection.code.split_once('/').unwrap_or((&rejection.code, ""));
        // Every refusal of the market has a number; 1 is the fallback.
        let code = number.parse().unwrap_or(1);
        let text = network_text(space, code).map_or_else(|| rejection.log.clone(), str::to_owned);
        if code == PANIC {
            return Self::new(space, code, format!("recovered: {text}\nstack:\n"));
        }
        Self::new(
            space,
            code,
            format!("failed to execute message; message index: {index}: {text}"),
        )
    }

    /// Adds the index of the refused message to the text.
    pub(super) fn in_message(self, index: usize) -> Self {
        let log = format!("failed to execute message; message index: {index}: {}", self.log);
        Self { log, ..self }
    }
}

/// Returns the text of an error code on the Akash network. Returns `None` if the text is not constant.
fn network_text(space: &str, code: u32) -> Option<&'static str> {
    if space != "market" {
        return None;
    }
    Some(match code {
        5 => "attributes mismatch",
        8 => "unknown lease for bid",
        15 => "invalid order: order not found",
        18 => "invalid bid: bid not found",
        20 => "invalid lease: lease not found",
        21 => "invalid bid: bid exists from provider",
        22 => "bid price is invalid",
        24 => "order closed",
        30 => "unknown provider",
        32 => "capabilities mismatch",
        37 => "reclamation not started; call MsgLeaseStartReclaim first",
        38 => "reclamation window has not elapsed",
        40 => "order requires reclamation but bid does not offer it",
        41 => "reclamation window shorter than order minimum",
        _ => return None,
    })
}
