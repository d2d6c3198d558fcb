//! All decisions of an Akash compute provider, as a library.
//!
//! A provider watches the market for orders, selects the orders that it can serve, and bids a price. When a
//! bid wins, the provider receives the tenant's manifest, deploys the workload, withdraws the earnings of the
//! lease, and removes the workload when the lease ends. Five ports connect the parts that differ between
//! providers. All other parts are one pure [`Engine`](engine::Engine) and a thin runtime around it.
//!
//! # A running provider
//!
//! With in-memory backends, from an order to the provider's bid:
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
//! // Environment: a chain with a registered provider, eight cores, prices, a bus.
//! let account: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
//! let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
//! # let tenant = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse()?;
//! # let coins = "1000000uact".parse()?;
//! # chain.market(|market| { market.fund(&account, &coins); market.fund(&tenant, &coins) });
//! chain.set_inclusion(Inclusion::Immediate { block_time: Duration::from_secs(6) });
//! let record = ProviderRecord { owner: account.clone(), host_uri: "https://localhost:8443".into(), attributes: vec![], info: Default::default() };
//! chain.market(|market| market.execute(&Msg::CreateProvider(record)))?;
//! let nodes = ClusterSpec::from_nodes([NodeSpec::new("node-1", 8_000, 16 << 30, 100 << 30)]);
//! let mut prices = ScaleConfig::default();
//! prices.cpu = "0.01".parse()?;
//! prices.storage = parse_storage_scales("0.01")?;
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
//! // A tenant creates a deployment from an SDL, and the provider bids.
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
//! `examples/embedded` extends this program with the lease, the manifest and the workload. The guide is
//! `docs/embedding.md`. A program without the runtime drives the [`Engine`](engine::Engine) directly, as
//! `examples/sans_io` shows.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`types`] | ids, resources, money, records and events of the chain, both clocks |
//! | [`config`] | every setting with its unit, its default and its flag |
//! | [`engine`] | state machines of order, deployment, workload and escrow; ledgers; recovery and full scan |
//! | [`bidding`] | the bid decision, with a reason for operators and programs |
//! | [`pricing`] | price of a lease: scale, random range, shell script |
//! | [`inventory`] | placement of units on nodes, free capacity, and reasons why a group does not fit |
//! | [`manifest`] | workload of a tenant: model, rules, canonical hash, comparison with the order |
//! | [`sdl`] | the YAML of tenants, versions 2.0 and 2.1: groups, manifest and hash, errors with their line |
//! | [`market`] | the rules of the network for orders, bids, leases and payments as a value, for tests and `dev` |
//! | `provider` | builder, life cycle and handle of a running provider |
//! | `chain`, [`cluster`], `bus` | the async ports, each with an in-memory backend |
//! | `election` | leader election of several instances with a shared record, in memory or in a backend |
//! | `runtime` (private) | the loop that feeds the engine and executes its effects |
//! | [`record`] | content of a flight recording, without secrets |
//! | [`audit`] | acts that spend money or destroy data, and the port of a log for them |
//! | [`error`] | one error type for every port, and its serializable form |
//! | [`statistics`] | counters and histograms of running parts, as plain data |
//! | `prelude` | the types of a program that runs a provider, for one `use` |
//!
//! # Features
//!
//! | feature | content | default |
//! |---|---|---|
//! | none | types, engine, bidding, scale pricing, packing, manifest, SDL, market: pure, builds for wasm32 | |
//! | `runtime` | the async ports, their in-memory backends, `provider` | yes |
//! | `shell-script` | prices from an external program of the operator; Unix, because of its process groups | yes |
//! | `conformance` | the conformance suite of each port, for the tests of a backend | |
//! | `mock` | mocks of the ports, for tests of single calls | |

pub mod audit;
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
mod restart_state;
#[cfg(feature = "runtime")]
mod runtime;
pub mod sdl;
pub mod statistics;
pub mod types;

pub use config::Config;
pub use error::{Error, ErrorKind, Failure};
pub use restart_state::{InvalidRestartState, RestartState};
