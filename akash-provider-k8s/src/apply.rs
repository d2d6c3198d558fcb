//! Brings a namespace to what was rendered, with as few calls as that takes.
//!
//! ```text
//! items ─ plan ─► namespace without its mark ─► policies, accounts, logins; quota of what is there already
//!                 ─► workloads ─► Services, bindings, quota of what is new ─► deletes ─► namespace with its mark
//! ```
//!
//! The mark (annotation [`APPLIED`](crate::labels::APPLIED)) is the hash of everything; it is taken off before
//! the first write and set after the last, so that a half-done apply is completed by the next one.

mod calls;
pub mod exact;
pub mod hash;
pub mod item;
pub mod ownership;
pub mod plan;
pub mod subset;

pub(crate) use calls::{Calls, Read};

use crate::cluster::grants::{cannot_bind, needs_access};
use crate::labels;
use akash_provider_core::error::{Error, ErrorKind};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use item::{Id, Item, Kind, Turn};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{Ledger, Plan, Write};
use serde_json::Value;

/// Name under which we write.
pub const MANAGER: &str = "akash-provider";
/// Annotation of a workload: hash of its pod template as rendered.
pub const TEMPLATE_HASH: &str = "provider.akash.network/template-hash";
/// Annotation of an object: the version label it was applied with. Another provider that writes to it changes the
/// label and keeps this.
pub const APPLIED_VERSION: &str = "provider.akash.network/applied-version";
/// Annotation of a workload: its pod template is the one of the provider it was adopted from.
pub const KEPT: &str = "provider.akash.network/kept";
/// Annotation of an object: a repair patched it, so its fields become ours again before the next apply.
pub const REPAIRED: &str = "provider.akash.network/repaired";
/// Annotation of a namespace: hashes of the objects in it that no watch holds, as JSON.
pub const LEDGER: &str = "provider.akash.network/ledger";

/// Calls at once for one lease.
const CALLS_PER_LEASE: usize = 4;

/// What was written to a watched object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) id: Id,
    pub(crate) meta: ObjectMeta,
}

/// A namespace on its way to what was rendered.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Its name, which the lease's record has too.
    pub(crate) name: &'a str,
    /// The namespace object as rendered, without its mark.
    pub(crate) namespace: &'a Value,
    /// What is to be in it.
    pub(crate) items: &'a [Item],
    /// Its ledger as it is.
    pub(crate) ledger: &'a Ledger,
    /// Kinds that are to be searched for what is left over, since no ledger names it.
    pub(crate) search: &'a [Kind],
    /// It was not there.
    pub(crate) is_new: bool,
}

/// What of a plan is still to do.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    access: Vec<Write>,
    before_pods: Vec<Write>,
    pods: Vec<Write>,
    rest: Vec<Write>,
    deletes: Vec<plan::Delete>,
}

/// Hash of everything of a lease.
#[must_use]
pub fn hash_of_all(namespace: &Value, items: &[Item]) -> String {
    let own = hash::of(namespace);
    hash::of_texts(std::iter::once(own.as_str()).chain(items.iter().map(|i| i.hash.as_str())))
}

/// The ledger a namespace carries; empty where it has none or nonsense.
#[must_use]
pub fn ledger_of(namespace: &Namespace) -> Ledger {
    let text = namespace
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(LEDGER));
    let parsed: Option<std::collections::BTreeMap<String, String>> =
        text.and_then(|t| serde_json::from_str(t).ok());
    let entries = parsed.into_iter().flatten();
    entries
        .filter_map(|(id, hash)| Some((Id::parse(&id)?, hash)))
        .collect()
}

/// A namespace with its ledger and its mark: everything in it is as rendered.
pub(crate) fn marked(namespace: &Value, items: &[Item]) -> Value {
    // The mark is of the namespace as rendered, whichever one it is.
    let mut rendered = namespace.clone();
    if let Some(metadata) = rendered["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    let mut body = namespace.clone();
    body["metadata"]["annotations"][LEDGER] = text_of(&plan::ledger_after(items));
    body["metadata"]["annotations"][labels::APPLIED] = Value::from(hash_of_all(&rendered, items));
    body
}

fn text_of(ledger: &Ledger) -> Value {
    let ledger: std::collections::BTreeMap<String, &String> =
        ledger.iter().map(|(id, hash)| (id.to_string(), hash)).collect();
    Value::from(serde_json::to_string(&ledger).unwrap_or_default())
}

impl Job<'_> {
    /// Begins to carry the plan out: the namespace is there, without its mark.
    pub(crate) async fn open(&self, calls: &Calls, plan: Plan) -> Result<Steps, Error> {
        // Before anything is written: a write to an object that is going would go with it.
        if let Some(id) = plan.blocked.first() {
            let message = format!("{id} is just being deleted; it can be made again when it is gone");
            return Err(Error::new(ErrorKind::Conflict, calls.operation(), message).transient());
        }
        let during = plan::ledger_during(self.ledger, &plan);
        self.write_namespace(calls, &during).await?;
        self.make_way(calls, &plan.replaced).await?;
        let mut steps = Steps {
            deletes: plan.deletes,
            ..Steps::default()
        };
        for write in plan.writes {
            if write.id.is_access() {
                steps.access.push(write);
                continue;
            }
            let turn = write.id.kind.turn();
            match if self.is_new {
                turn.in_new_namespace()
            } else {
                turn
            } {
                Turn::BeforePods | Turn::BeforeMorePods => steps.before_pods.push(write),
                Turn::Pods => steps.pods.push(write),
                Turn::Rest => steps.rest.push(write),
            }
        }
        Ok(steps)
    }

    /// Writes what runs, and before it all that must be there then.
    pub(crate) async fn run(&self, calls: &Calls, steps: &mut Steps) -> Result<Vec<Written>, Error> {
        let access = std::mem::take(&mut steps.access);
        let before_pods = std::mem::take(&mut steps.before_pods);
        let is_new = !access.is_empty();
        let mut written = self
            .write_all(calls, access)
            .await
            .map_err(|error| cannot_bind(self.name, error))?;
        if is_new && before_pods.iter().any(|write| needs_access(write.id.kind)) {
            calls.granted(self.name).await?;
        }
        written.extend(self.write_all(calls, before_pods).await?);
        let pods = std::mem::take(&mut steps.pods);
        written.extend(self.write_all(calls, pods).await?);
        Ok(written)
    }

    /// Writes and deletes what is left. The namespace's mark is the last thing written.
    pub(crate) async fn finish(&self, calls: &Calls, steps: Steps) -> Result<Vec<Written>, Error> {
        let written = self.write_all(calls, steps.rest).await?;
        let mut deletes = steps.deletes;
        deletes.extend(self.left_over(calls).await?);
        // The search may find what the plan deletes already.
        deletes.sort_by(|a, b| a.id.cmp(&b.id));
        deletes.dedup_by(|a, b| a.id == b.id);
        for delete in deletes {
            tracing::info!(namespace = self.name, object = %delete.id, "deleted: it left the manifest");
            calls
                .delete(delete.id.kind, self.name, &delete.id.name, delete.uid.as_deref())
                .await?;
        }
        let body = marked(self.namespace, self.items);
        calls.apply_namespace(self.name, &body).await?;
        Ok(written)
    }

    /// Deletes what cannot become what it is to be; the apply goes on when it is gone.
    async fn make_way(&self, calls: &Calls, replaced: &[plan::Delete]) -> Result<(), Error> {
        for plan::Delete { id, uid } in replaced {
            tracing::info!(namespace = self.name, object = %id, "deleted to be made anew: its volumes changed");
            calls.delete(id.kind, self.name, &id.name, uid.as_deref()).await?;
        }
        let Some(first) = replaced.first() else {
            return Ok(());
        };
        let message = format!(
            "{} is made anew, since its volumes changed, when it is gone",
            first.id
        );
        Err(Error::new(ErrorKind::Conflict, calls.operation(), message).transient())
    }

    async fn write_all(&self, calls: &Calls, writes: Vec<Write>) -> Result<Vec<Written>, Error> {
        let writes = writes.into_iter();
        let writes: Vec<BoxFuture<'_, _>> = writes.map(|write| self.write(calls, write).boxed()).collect();
        stream::iter(writes)
            .buffer_unordered(CALLS_PER_LEASE)
            .try_collect()
            .await
    }

    async fn write(&self, calls: &Calls, write: Write) -> Result<Written, Error> {
        let Write {
            id,
            body,
            take_over,
            patch,
            reason,
        } = write;
        tracing::debug!(namespace = self.name, object = %id, reason, "applied");
        if take_over {
            calls.take_over(id.kind, self.name, &id.name).await?;
        }
        let meta = match patch {
            Some(patch) => {
                calls
                    .restore(&id.kind.resource(), self.name, &id.name, &patch)
                    .await?
            }
            None => calls.apply(id.kind, self.name, &id.name, &body).await?,
        };
        Ok(Written { id, meta })
    }

    /// Writes the namespace without its mark: until the end the apply counts as unfinished.
    async fn write_namespace(&self, calls: &Calls, ledger: &Ledger) -> Result<(), Error> {
        let mut body = self.namespace.clone();
        // Without a ledger the search for what is left over is still to be done.
        if self.search.is_empty() {
            body["metadata"]["annotations"][LEDGER] = text_of(ledger);
        }
        calls.apply_namespace(self.name, &body).await
    }

    /// What another provider left in the namespace that no watch and no ledger knows.
    async fn left_over(&self, calls: &Calls) -> Result<Vec<plan::Delete>, Error> {
        let kinds = self.search.iter();
        let lists: Vec<BoxFuture<'_, _>> = kinds.map(|kind| calls.ours(*kind, self.name).boxed()).collect();
        let found: Vec<Vec<plan::Delete>> = stream::iter(lists)
            .buffer_unordered(CALLS_PER_LEASE)
            .try_collect()
            .await?;
        let is_wanted = |id: &Id| self.items.iter().any(|i| i.id == *id);
        Ok(found
            .into_iter()
            .flatten()
            .filter(|d| !is_wanted(&d.id))
            .collect())
    }
}
