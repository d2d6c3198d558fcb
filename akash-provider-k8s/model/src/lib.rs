//! Facts about leases on Kubernetes that the lease backend of an Akash provider and its operators share. No part of this
//! crate writes to the API server.
//!
//! ```text
//! WorkloadSpec ─ crd ─► Manifest ─ objects ─► Kubernetes objects
//! nodes, pods, classes ─ watches ─► inventory ─► free capacity
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`settings`] | settings of the Kubernetes backend |
//! | [`crd`] | custom resources of the Akash network, and their conversion |
//! | [`objects`], [`refusal`] | rendering of a deployment as Kubernetes objects, and its errors |
//! | [`inventory`] | capacity of a cluster, and its watches |
//! | [`leased_ips`] | names, pools and use of leased addresses |
//! | [`problem`] | texts of problems, with a limited length |

pub mod crd;
pub mod inventory;
pub mod leased_ips;
pub mod objects;
pub mod problem;
pub mod refusal;
pub mod settings;
