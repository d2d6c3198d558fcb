//! `run`, `tx` and `query` with a real node: a development network on loopback.

mod availability;
mod breaker;
mod bursts;
mod bus;
mod certificates;
mod chart;
mod deploying;
mod descriptors;
mod doctor;
mod doctor_cluster;
mod doctor_machine;
mod explain;
mod failures;
mod first_steps;
mod flight;
mod flight_figures;
mod ha;
mod lies;
mod life;
mod lifecycle;
mod load;
mod metrics;
mod metrics_engine;
mod metrics_figures;
mod orders;
mod orders_disk;
mod outside;
mod served;
mod soak;
mod start;
mod tenant;
mod terminal;
#[cfg(feature = "otlp")]
mod traces;
mod tx;
mod websocket;
