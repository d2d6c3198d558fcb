//! What the crate promises without a cluster: what it renders, and how it speaks to a server that misbehaves.

mod api_server;
mod crds;
mod objects;
mod peer;
mod watches;
