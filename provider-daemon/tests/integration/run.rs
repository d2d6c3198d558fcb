//! `run`, `tx` and `query` with a node that is really there: a development network on loopback.

mod breaker;
mod bursts;
mod bus;
mod certificates;
mod chart;
mod crowd;
mod deploying;
mod descriptors;
mod door;
mod explain;
mod first_steps;
mod flight;
mod flight_figures;
mod ha;
mod lies;
mod life;
mod lifecycle;
mod outside;
mod served;
mod soak;
mod start;
mod tenant;
mod terminal;
mod trouble;
mod tx;
mod websocket;
