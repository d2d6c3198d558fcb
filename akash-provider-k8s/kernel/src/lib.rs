//! Parts that the Kubernetes backend of an Akash provider and its operators share.
//!
//! ```text
//! API server ─ watch ─► Sink        KubeCalls ─ WriteClient ─► API server
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`watch`] | list and watch of one kind, repeated after every gap |
//! | [`calls`], [`ownership`] | server-side apply, deletion and take-over of objects |
//! | [`hash`], [`subset`] | comparison of rendered objects with live objects |
//! | [`write_client`] | permission to write |
//! | [`work_queue`] | work queue of a reconciler |
//! | [`rights`] | meaning of a denied request |
//! | [`audit`] | audit records of deletions |
//! | [`error`], [`pages`], [`task`], [`time`] | errors, paginated lists, background tasks, timestamps |
//! | [`statistics`] | counters of requests |
//! | [`labels`] | labels and annotations of the Akash network |

pub mod audit;
pub mod calls;
pub mod error;
pub mod hash;
pub mod labels;
pub mod ownership;
pub mod pages;
pub mod rights;
pub mod statistics;
pub mod subset;
pub mod task;
pub mod time;
pub mod watch;
pub mod work_queue;
pub mod write_client;
