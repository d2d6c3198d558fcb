//! Acts of a provider that spend money or destroy data, and the port of a log for these acts.
//!
//! ```text
//! call of the engine ─▶ intent ─┬─ destroys: waits until the entry is durable ─▶ call ─▶ outcome
//!                               └─ spends: does not wait ──────────────────────▶ call ─▶ outcome
//! ```
//! While the log cannot store entries, acts that destroy data are delayed and retried. All other acts continue.
//! [`ProviderBuilder::audit_log`](crate::provider::ProviderBuilder::audit_log) sets the log of a provider.

#[cfg(feature = "runtime")]
mod log;

#[cfg(all(feature = "runtime", test))]
pub(crate) use log::RECORD_TIMEOUT;
#[cfg(feature = "runtime")]
pub use log::{AuditEntry, AuditLog, AuditedAct};

use crate::types::{
    Agreement, CloseReason, Coin, DecCoin, Height, LeaseRecord, LeaseState, Msg, Observed, TxOutcome,
    TxReceipt,
};

/// Kind of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ActKind {
    /// Bid on an order. The bid locks a deposit.
    Bid,
    /// Close of an open bid.
    BidClose,
    /// Close of a lease.
    LeaseClose,
    /// Start of the reclamation window of a lease. The provider closes the lease after the window.
    LeaseReclaim,
    /// Withdrawal of the earnings of a lease.
    Withdrawal,
    /// Removal of the workload of a lease from the cluster.
    Teardown,
    /// Deletion of an object in the cluster, outside of a teardown.
    ObjectDelete,
    /// Deletion of a pod that blocks the update of its workload. The cluster recreates the pod with the same
    /// volumes.
    PodReplace,
    /// Deletion of a Secret with registry passwords that an update of a lease no longer uses.
    SecretDelete,
    /// Deletion of a route, certificate or load balancer with a record.
    RouteDelete,
    /// Deletion of a hardware discovery pod.
    PodDelete,
    /// Registration of the provider on the chain.
    ProviderCreate,
    /// Update of the provider record on the chain.
    ProviderUpdate,
    /// Publication of a certificate on the chain.
    CertificatePublish,
    /// Revocation of a certificate on the chain.
    CertificateRevoke,
    /// Command of an operator.
    Command {
        /// Name of the command.
        name: &'static str,
        /// True if the command destroys data.
        destroys: bool,
    },
}

impl ActKind {
    /// Returns the name of the kind, such as `lease_close`. For a command, returns the name of the command.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bid => "bid",
            Self::BidClose => "bid_close",
            Self::LeaseClose => "lease_close",
            Self::LeaseReclaim => "lease_reclaim",
            Self::Withdrawal => "withdrawal",
            Self::Teardown => "teardown",
            Self::ObjectDelete => "object_delete",
            Self::PodReplace => "pod_replace",
            Self::SecretDelete => "secret_delete",
            Self::RouteDelete => "route_delete",
            Self::PodDelete => "pod_delete",
            Self::ProviderCreate => "provider_create",
            Self::ProviderUpdate => "provider_update",
            Self::CertificatePublish => "certificate_publish",
            Self::CertificateRevoke => "certificate_revoke",
            Self::Command { name, .. } => name,
        }
    }

    /// Returns true if the act destroys data. Its log entry must be durable before the act starts.
    #[must_use]
    pub const fn destroys(self) -> bool {
        match self {
            Self::LeaseClose
            | Self::LeaseReclaim
            | Self::Teardown
            | Self::ObjectDelete
            | Self::CertificateRevoke => true,
            Self::Command { destroys, .. } => destroys,
            Self::Bid
            | Self::BidClose
            | Self::Withdrawal
            | Self::PodReplace
            | Self::SecretDelete
            | Self::RouteDelete
            | Self::PodDelete
            | Self::ProviderCreate
            | Self::ProviderUpdate
            | Self::CertificatePublish => false,
        }
    }
}

/// Origin of an act.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Actor {
    /// The provider itself, without a request from a user.
    Provider,
    /// User who requested the act: the user of the process that sent the request.
    User {
        /// User ID of the process; `None` if unknown.
        uid: Option<u32>,
        /// Process ID; `None` if unknown.
        pid: Option<i32>,
    },
}

/// Evidence for an act: the lease record on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordEvidence {
    /// Height at which the record was read.
    pub height: Height,
    /// State of the lease according to its record on the chain.
    pub state: LeaseState,
    /// Whether two endpoints returned the same record.
    pub agreement: Agreement,
    /// Close reason in the record.
    pub reason: Option<CloseReason>,
}

impl RecordEvidence {
    /// Converts a lease record to evidence for an act. Returns `None` if the record is missing or shows an
    /// active lease.
    #[must_use]
    pub fn from_record(observed: &Observed<LeaseRecord>) -> Option<Self> {
        let lease = &observed.value.as_ref()?.lease;
        (!lease.state.is_live()).then_some(Self {
            height: observed.height,
            state: lease.state,
            agreement: observed.agreement,
            reason: lease.reason,
        })
    }
}

/// Facts that led to an act.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// Height of the newest processed block; `None` if unknown.
    pub height: Option<Height>,
    /// Report that the lease is closed: source and height, such as `("chain", 1200)`.
    pub report: Option<(&'static str, Height)>,
    /// Record of the closed lease.
    pub record: Option<RecordEvidence>,
    /// Price of a bid, per block.
    pub price: Option<DecCoin>,
    /// Deposit of a bid.
    pub deposit: Option<Coin>,
    /// Text of the actor's request.
    pub request: Option<String>,
    /// Deleted object of the cluster: kind, namespace, name and UID.
    pub object: Option<String>,
}

/// Operation that spends money, destroys data or changes a running provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Kind of the act.
    pub kind: ActKind,
    /// Origin of the act.
    pub actor: Actor,
    /// Object of the act, such as a lease ID. A bid has the ID of its future lease.
    pub subject: String,
    /// Name of the reason for the act, such as `manifest_timeout`; `None` if unknown.
    pub reason: Option<String>,
    /// Facts that led to the act.
    pub evidence: Evidence,
}

impl Act {
    /// Creates an act without a reason and without evidence.
    #[must_use]
    pub fn new(kind: ActKind, actor: Actor, subject: impl Into<String>) -> Self {
        Self {
            kind,
            actor,
            subject: subject.into(),
            reason: None,
            evidence: Evidence::default(),
        }
    }

    /// Returns the act of a message. `CloseBid` is always [`ActKind::BidClose`], although this message also
    /// closes leases.
    #[must_use]
    pub fn from_msg(msg: &Msg, actor: Actor) -> Self {
        let new = |kind, subject: &dyn ToString| Self::new(kind, actor, subject.to_string());
        match msg {
            Msg::CreateBid {
                id, price, deposit, ..
            } => {
                let mut act = new(ActKind::Bid, id);
                act.evidence.price = Some(price.clone());
                act.evidence.deposit = Some(deposit.clone());
                act
            }
            Msg::CloseBid { id, reason } => new(ActKind::BidClose, id).with_reason(reason.name()),
            Msg::StartReclaim { id, reason } => new(ActKind::LeaseReclaim, id).with_reason(reason.name()),
            Msg::WithdrawLease { id } => new(ActKind::Withdrawal, id),
            Msg::CreateProvider(record) => new(ActKind::ProviderCreate, &record.owner),
            Msg::UpdateProvider(record) => new(ActKind::ProviderUpdate, &record.owner),
            Msg::CreateCertificate { owner, .. } => new(ActKind::CertificatePublish, owner),
            Msg::RevokeCertificate { owner, serial } => {
                new(ActKind::CertificateRevoke, &format!("{owner}/{serial}"))
            }
        }
    }

    /// Sets the reason for the act.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// Outcome of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActOutcome {
    /// Name of the result of the act, such as `committed`, `done` or `failed`.
    pub result: &'static str,
    /// Cause of a failed act.
    pub message: Option<String>,
    /// Height of the block that contains the transaction.
    pub height: Option<Height>,
    /// Hash and fee of the transaction, if known.
    pub receipt: Option<TxReceipt>,
}

impl ActOutcome {
    /// Creates the outcome of an act that sends no transaction.
    #[must_use]
    pub const fn new(result: &'static str, message: Option<String>) -> Self {
        Self {
            result,
            message,
            height: None,
            receipt: None,
        }
    }

    /// Returns the outcome of a transaction, without a receipt.
    ///
    /// An `Err` with an error text means that the transaction was not sent. The outcome is then `not_sent`.
    #[must_use]
    pub fn from_tx(result: Result<&TxOutcome, String>) -> Self {
        match result {
            Ok(TxOutcome::Committed { height }) => Self {
                height: Some(*height),
                ..Self::new("committed", None)
            },
            Ok(TxOutcome::Rejected { code, log, .. }) => {
                Self::new("rejected", Some(format!("{code}: {log}")))
            }
            Ok(TxOutcome::Unknown { .. }) => Self::new("unknown", None),
            Err(message) => Self::new("not_sent", Some(message)),
        }
    }
}
