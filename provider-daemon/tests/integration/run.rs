//! `run`, `tx` and `query` with a real node: a development network on loopback.

mod availability;
mod breaker;
mod bursts;
mod bus;
mod certificates;
mod chart;
mod deploying;
mod descriptors;
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
mod outside;
mod served;
mod soak;
mod start;
mod tenant;
mod terminal;
mod tx;
mod websocket;
