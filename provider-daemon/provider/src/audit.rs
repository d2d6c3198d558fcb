//! Audit log: JSON lines of the acts that spend money, destroy data or change a running provider.
//!
//! ```text
//! engine, operator socket, certificate rotation ─▶ Audit ─▶ queue (bounded) ─▶ writer thread ─┐
//! `tx`, `keys` ─▶ FileLog ────────────────────────────────────────────────────────────────────┴─▶ 000001.jsonl, …
//! ```
//! The intent of an act that destroys data is written to the disk before the act. While the log cannot be
//! written, such acts wait. All other acts continue, and their lines are stored in memory up to a limit and
//! written later. A lock on a file in the directory ensures that only one process writes at a time.

mod chain;
mod command;
mod files;
mod line;
mod log;
mod queue;
mod reader;
mod writer;

pub(crate) use chain::AuditedSender;
pub use command::{audited, record_intent, record_result};
pub use files::AuditSettings;
pub use log::this_process;
pub(crate) use log::{Audit, HELP, start, user};
pub(crate) use queue::AuditHealth;
pub use reader::run;

#[cfg(test)]
mod tests;
