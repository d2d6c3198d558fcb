//! Development commands of this workspace.
fn main() {}
