//! Everything an Akash compute provider decides, as a library.
//!
//! A provider watches the market for orders, decides which it can serve and at what price, bids, takes the
//! tenant's manifest when it wins, has the workload run, collects what the lease earns, and gives everything
//! back when the lease ends. What differs from provider to provider plugs into five ports; everything else is
//! one pure [`Engine`](engine::Engine), and a thin runtime around it.
//!
//! # A running provider
//!
//! On the backends in memory, from an order to our bid on it:
//!
//! ```
//! # #[cfg(feature = "runtime")]
//! # mod page {
//! use akash_provider_core::prelude::*;
//! # use futures::StreamExt;
//! # use std::time::Duration;
//! # use tokio_util::sync::CancellationToken;
//! # type Failed = Box<dyn std::error::Error>;
//!
//! # const SDL: &str = "version: \"2.0\"\nservices: {web: {image: nginx, expose: [{port: 80, to: [{global: true}]}]}}\nprofiles:\n  compute: {web: {resources: {cpu: {units: 1}, memory: {size: 1Gi}, storage: {size: 1Gi}}}}\n  placement: {here: {pricing: {web: {denom: uact, amount: 100}}}}\ndeployment: {web: {here: {profile: web, count: 1}}}\n";
//! # #[tokio::main(flavor = "current_thread")]
//! # pub async fn run() -> Result<(), Failed> {
//! // The world: a chain on which we are registered, eight cores, prices, a bus.
//! let account: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
//! # let tenant = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse()?;
//! # let coins = "1000000uact".parse()?;
//! # chain.market(|market| { market.fund(&account, &coins); market.fund(&tenant, &coins) });
//! chain.set_inclusion(Inclusion::Immediate { block_time: Duration::from_secs(6) });
//! let record = ProviderRecord { owner: account.clone(), host_uri: "https://localhost:8443".into(), attributes: vec![], info: Default::default() };
//! chain.market(|market| market.execute(&Msg::CreateProvider(record)))?;
//! let nodes = ClusterSpec::of_nodes([NodeSpec::new("node-1", 8_000, 16 << 30, 100 << 30)]);
//! let storage = parse_storage_scales("0.01")?;
//! let prices = ScaleConfig { cpu: "0.01".parse()?, storage, ..ScaleConfig::default() };
//! let bus = LocalBus::new();
//! let mut facts = bus.subscribe(&[Topic::Facts]).await?;
//!
//! let (provider, handle) = Provider::builder()
//!     .config(Config::new(account, "local"))
//!     .chain(chain.clone())
//!     .cluster(MemoryCluster::default())
//!     .inventory(StaticInventorySource::new(NodeInventory::new(&nodes)))
//!     .pricing(Scale::new(prices)?)
//!     .bus(bus)
//!     .build()?;
//! let stop = CancellationToken::new();
//! let running = tokio::spawn(provider.run(stop.clone()));
//! handle.wait_ready().await?;
//!
//! // A tenant orders what an SDL says, and the provider bids.
//! let sdl::Sdl { groups, hash, .. } = sdl::parse(SDL)?;
//! let (id, deposit) = ("akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1".parse()?, "500000uact".parse()?);
//! chain.tenant(TenantMsg::CreateDeployment { id, groups, hash, deposit, reclamation_min_window: None })?;
//! while let Some(Delivery::Event { event, .. }) = facts.next().await {
//!     match &*event {
//!         Event::BidPlaced { price, .. } => {
//!             assert_eq!(price.to_string(), "20.24uact");
//!             break;
//!         }
//!         Event::OrderDeclined { message, .. } => return Err(message.clone().into()),
//!         other => println!("{other:?}"),
//!     }
//! }
//! stop.cancel(); // workloads and open bids stay; the next start takes them over
//! running.await??;
//! # Ok(())
//! # }
//! # }
//! # fn main() { #[cfg(feature = "runtime")] page::run().unwrap(); }
//! ```
//!
//! The same program with the lease, the manifest and the workload to its end is `examples/embedded`; the guide
//! is `docs/embedding.md`. Who wants no runtime drives the [`Engine`](engine::Engine) by hand, as
//! `examples/sans_io` does.
//!
//! # Map of the rooms
//!
//! | room | what is in it |
//! |---|---|
//! | [`types`] | ids, resources, money, records and events of the chain, both clocks |
//! | [`config`] | every setting with its unit, its default and the flag it answers to |
//! | [`engine`] | the machines of order, deployment, workload and escrow; the ledgers; recovery and full scan |
//! | [`bidding`] | may we, do we want to, bid: a yes, or a reason for people and for machines |
//! | [`pricing`] | what a lease costs: scale, random range, shell script |
//! | [`inventory`] | what fits where: exact packing with an add and subtract ledger, and why not |
//! | [`manifest`] | what the tenant wants to run: model, rules, canonical hash, match with the order |
//! | [`sdl`] | the tenants' YAML, versions 2.0 and 2.1: groups, manifest and hash, errors with their line |
//! | [`market`] | the network's rules for orders, bids, leases and money as a value: for tests and `dev` |
//! | `provider` | builder, life and handle of a running provider |
//! | `chain`, [`cluster`], `bus` | the async ports, each with its backend in memory |
//! | `election` | which of several leads: a record that all share, in memory or wherever a backend keeps it |
//! | `runtime` (private) | the loop that feeds the engine and carries out its effects |
//! | [`record`] | what a flight recorder takes down, and what it must not |
//! | [`error`] | one error for every port, and the same as data |
//! | `prelude` | what a program that runs a provider names, in one `use` |
//!
//! # Features
//!
//! | feature | brings | default |
//! |---|---|---|
//! | none | types, engine, bidding, scale pricing, packing, manifest, SDL, market: pure, builds for wasm32 | |
//! | `runtime` | the async ports, their backends in memory, `provider` | yes |
//! | `shell-script` | prices from a program of the operator's own; Unix, because of its process groups | yes |
//! | `conformance` | the suite of each port, to be called from a backend's own tests | |
//! | `mock` | mocks of the ports, for tests of the kind "this call is made once" | |

pub mod bidding;
#[cfg(feature = "runtime")]
pub mod bus;
#[cfg(feature = "runtime")]
pub mod chain;
pub mod cluster;
pub mod config;
#[cfg(feature = "conformance")]
mod conformance;
#[cfg(feature = "runtime")]
pub mod election;
pub mod engine;
pub mod error;
#[cfg(feature = "runtime")]
mod feed;
pub mod inventory;
mod kept;
pub mod manifest;
pub mod market;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "runtime")]
pub mod prelude;
pub mod pricing;
#[cfg(feature = "runtime")]
pub mod provider;
pub mod record;
#[cfg(feature = "runtime")]
mod runtime;
pub mod sdl;
pub mod types;

pub use config::Config;
pub use error::{Error, ErrorKind, Failure};
pub use kept::{Kept, UnreadableKept};
