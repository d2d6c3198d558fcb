//! Types of the market as plain values: ids, resources, groups, prices, chain records, events.
//!
//! Values are validated when they are parsed from protobuf, CRDs, JSON or YAML. Every type can be compared,
//! hashed and serialized, for the logs of simulations.

mod attribute;
pub mod chain;
pub mod decline_code;
pub mod event;
pub mod group;
pub mod id;
pub mod price;
pub mod quantity;
pub mod resources;
#[cfg(feature = "schema")]
mod schema;
pub mod time;
pub mod tx;

pub use attribute::Attribute;
pub use chain::{
    Agreement, AuditedAttributes, Bid, BidState, Certificate, ChainEvent, CloseReason, Deployment,
    DeploymentRecord, EscrowAccount, Group, GroupState, Lease, LeaseRecord, LeaseState, MarketParams,
    Observed, Order, OrderState, Payment, ProviderInfo, ProviderRecord, Reclamation, Snapshot,
};
pub use decline_code::DeclineCode;
pub use event::{BidOutcome, Event, Topic};
pub use group::{GroupSpec, PlacementRequirements, SignedBy};
pub use id::{Address, BidId, DeploymentId, GroupId, LeaseId, OrderId};
pub use price::{Coin, Dec, DecCoin, Denom};
pub use resources::{
    Cpu, DEFAULT_EPHEMERAL, Endpoint, EndpointKind, Gpu, Memory, ResourceUnit, Resources, Storage,
};
#[cfg(feature = "schema")]
pub use schema::event_schema;
pub use time::{BlockTime, Height, Mono, Now};
pub use tx::{Msg, TxError, TxOutcome, TxReceipt};
