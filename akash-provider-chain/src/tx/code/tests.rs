use super::*;
use akash_provider_core::types::{Address, BidId, CloseReason, Coin, Dec, DecCoin};

fn id() -> BidId {
    let account = |byte| Address::from_bytes(&[byte; 20]).unwrap();
    format!("{}/1/1/1/{}", account(1), account(2)).parse().unwrap()
}

fn bid() -> Msg {
    Msg::CreateBid {
        id: id(),
        price: DecCoin::new(&"uact".into(), Dec::from_int(1)),
        deposit: Coin::new("uact", 500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }
}

fn close() -> Msg {
    Msg::CloseBid {
        id: id(),
        reason: CloseReason::Unspecified,
    }
}

/// Expected error for each code of the market module, starting with code 1.
const MARKET: [(&str, TxError); 41] = [
    ("empty provider", TxError::Other),
    ("owner and provider are the same", TxError::Other),
    ("internal", TxError::Other),
    ("bid over order", TxError::PriceTooHigh),
    ("attribute mismatch", TxError::AttributeMismatch),
    ("unknown bid", TxError::UnknownBid),
    ("unknown lease", TxError::LeaseNotActive),
    ("unknown lease for bid", TxError::UnknownBid),
    ("unknown order for bid", TxError::OrderNotOpen),
    ("lease not active", TxError::LeaseNotActive),
    ("bid not active", TxError::UnknownBid),
    ("bid not open", TxError::UnknownBid),
    ("order not open", TxError::OrderNotOpen),
    ("no lease for order", TxError::LeaseNotActive),
    ("order not found", TxError::OrderNotOpen),
    ("group not found", TxError::Other),
    ("group not open", TxError::Other),
    ("bid not found", TxError::UnknownBid),
    ("zero price", TxError::Other),
    ("lease not found", TxError::LeaseNotActive),
    ("bid exists", TxError::BidExists),
    ("bid price invalid", TxError::PriceTooHigh),
    ("order active", TxError::OrderNotOpen),
    ("order closed", TxError::OrderNotOpen),
    ("order exists", TxError::Other),
    ("order duration exceeded", TxError::OrderNotOpen),
    ("order too early", TxError::Other),
    ("deposit invalid", TxError::Deposit),
    ("invalid param", TxError::Other),
    ("unknown provider", TxError::Other),
    ("invalid bid", TxError::InvalidBid),
    ("capabilities mismatch", TxError::CapabilitiesMismatch),
    ("invalid close reason", TxError::Other),
    ("invalid escrow id", TxError::Other),
    ("lease not reclamable", TxError::Other),
    ("already reclaiming", TxError::AlreadyReclaiming),
    ("reclamation not started", TxError::ReclaimNotStarted),
    ("window not elapsed", TxError::WindowNotElapsed),
    ("window invalid", TxError::Reclamation),
    ("reclamation required", TxError::Reclamation),
    ("window too short", TxError::Reclamation),
];

#[test]
fn maps_every_code_of_the_market() {
    for (number, (name, expected)) in (1..).zip(MARKET) {
        let code = Code::new("market", number);
        assert_eq!(meaning(&code, Some(&bid())), expected, "{code} {name}");
        assert_eq!(meaning(&code, Some(&close())), expected, "{code} {name}");
    }
}

#[test]
fn maps_codes_of_other_modules_for_bid_close_and_withdrawal() {
    use TxError::{FeeUnpaid as Fee, InsufficientFunds as Money, LeaseNotActive as Over, Other};
    let payout = Msg::WithdrawLease { id: id() };
    let cases = [
        ("undefined", 1, "insufficient balance", [Money, Other, Other]),
        ("undefined", PANIC, "recovered", [Other, Other, Other]),
        ("sdk", 2, "tx parse error", [Other, Other, Other]),
        ("sdk", 4, "unauthorized", [Other, Other, Other]),
        ("sdk", 5, "insufficient funds", [Fee, Fee, Fee]),
        ("sdk", 11, "out of gas", [Other, Other, Other]),
        ("sdk", 13, "insufficient fee", [Other, Other, Other]),
        ("sdk", 18, "invalid request", [Other, Other, Other]),
        ("sdk", 19, "tx already in mempool", [Other, Other, Other]),
        ("sdk", 20, "mempool is full", [Other, Other, Other]),
        ("sdk", 21, "tx too large", [Other, Other, Other]),
        ("sdk", 30, "tx timeout height", [Other, Other, Other]),
        ("sdk", 32, "incorrect account sequence", [Other, Other, Other]),
        ("sdk", 38, "fee-grant not found", [Fee, Fee, Fee]),
        ("sdk", 42, "tx timeout", [Other, Other, Other]),
        ("feegrant", 2, "fee limit exceeded", [Fee, Fee, Fee]),
        ("feegrant", 3, "fee allowance expired", [Fee, Fee, Fee]),
        ("feegrant", 5, "no allowance", [Fee, Fee, Fee]),
        ("escrow", 2, "account closed", [Other, Other, Over]),
        ("escrow", 3, "account not found", [Other, Other, Other]),
        ("escrow", 4, "account overdrawn", [Other, Other, Over]),
        ("escrow", 7, "payment closed", [Other, Other, Over]),
        ("deposit", 1, "no such module", [Other, Other, Other]),
    ];
    for (space, number, name, expected) in cases {
        let code = Code::new(space, number);
        let found = [bid(), close(), payout.clone()].map(|msg| meaning(&code, Some(&msg)));
        assert_eq!(found, expected, "{code} {name}");
    }
}
