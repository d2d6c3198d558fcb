//! The Akash compute provider as a daemon.
fn main() {}
