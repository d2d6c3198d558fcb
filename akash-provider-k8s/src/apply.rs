//! Applies the rendered objects of a lease to its namespace, with as few calls as possible.
//!
//! ```text
//! items ─ plan ─► namespace without hash ─► policies, accounts, logins; quota of an existing namespace
//!                 ─► workloads ─► Services, bindings, quota of a new namespace ─► deletes ─► namespace with hash
//! ```
//!
//! The hash of all objects (annotation [`APPLIED`](crate::labels::APPLIED)) is removed before the first write and set
//! after the last write. The next apply therefore completes an interrupted apply.

mod calls;
pub(crate) mod exact;
pub(crate) mod grant;
pub mod item;
pub(crate) mod plan;

pub(crate) use calls::{ReadScope, listed, selected};

use crate::audit::DeletionLog;
use crate::labels;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::audit::UNUSED;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::hash;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use grant::{cannot_bind, needs_access};
use item::{ApplyStage, Item, ItemKind, ObjectId};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{ObjectHashes, ObjectWrite, Plan};
use serde_json::Value;

/// Annotation of a workload: hash of its pod template as rendered.
pub const TEMPLATE_HASH: &str = "provider.akash.network/template-hash";
/// Annotation of an object: a copy of the label `akash.network/manifest.resource.version` from the last apply
/// by this provider. Other provider programs change only the label.
pub const APPLIED_VERSION: &str = "provider.akash.network/applied-version";
/// Annotation of an adopted workload. The pod template of the workload is still the template of another
/// provider program.
pub const KEPT: &str = "provider.akash.network/kept";
/// Annotation of an object that this provider repaired with a patch. The next deploy first takes ownership of
/// the patched fields (server-side apply).
pub const REPAIRED: &str = "provider.akash.network/repaired";
/// Annotation of a namespace: JSON with the hashes of the unwatched objects.
pub const LEDGER: &str = "provider.akash.network/ledger";

/// Maximum number of concurrent calls for one lease.
const CALLS_PER_LEASE: usize = 4;

/// Metadata of a watched object after a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WrittenObject {
    pub(crate) id: ObjectId,
    pub(crate) meta: ObjectMeta,
}

/// Job that applies the objects of one lease to its namespace.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Name of the namespace and of the lease's record.
    pub(crate) name: &'a str,
    /// Rendered namespace object, without the hash of all objects.
    pub(crate) namespace: &'a Value,
    /// Desired objects of the lease.
    pub(crate) items: &'a [Item],
    /// Ledger of applied objects, as read from the namespace.
    pub(crate) ledger: &'a ObjectHashes,
    /// Kinds of objects that are listed to find leftovers; empty if the namespace has a ledger.
    pub(crate) search: &'a [ItemKind],
    /// True if the namespace did not exist before the apply.
    pub(crate) is_new: bool,
    /// Lease of the objects, as the subject of audit records.
    pub(crate) lease: &'a LeaseId,
    pub(crate) deletions: &'a DeletionLog,
}

/// Remaining steps of a plan.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    access: Vec<ObjectWrite>,
    before_pods: Vec<ObjectWrite>,
    pods: Vec<ObjectWrite>,
    rest: Vec<ObjectWrite>,
    pub(crate) deletes: Vec<plan::Delete>,
}

/// Returns the hash of the namespace and all objects of a lease.
#[must_use]
pub fn hash_of_all(namespace: &Value, items: &[Item]) -> String {
    let own = hash::hash_value(namespace);
    hash::hash_texts(std::iter::once(own.as_str()).chain(items.iter().map(|i| i.hash.as_str())))
}

/// Returns the ledger of a namespace, or an empty ledger if the annotation is missing or invalid.
#[must_use]
pub fn ledger_of(namespace: &Namespace) -> ObjectHashes {
    let text = namespace
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(LEDGER));
    let parsed: Option<std::collections::BTreeMap<String, String>> =
        text.and_then(|t| serde_json::from_str(t).ok());
    let entries = parsed.into_iter().flatten();
    entries
        .filter_map(|(id, hash)| Some((ObjectId::parse(&id)?, hash)))
        .collect()
}

/// Returns the namespace with two annotations: the ledger, and the hash of all objects. The hash shows that
/// all objects were applied.
pub(crate) fn marked(namespace: &Value, items: &[Item]) -> Value {
    // The hash covers the rendered namespace, independent of the uid.
    let mut rendered = namespace.clone();
    if let Some(metadata) = rendered["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    let mut body = namespace.clone();
    body["metadata"]["annotations"][LEDGER] = text_of(&plan::ledger_after(items));
    body["metadata"]["annotations"][labels::APPLIED] = Value::from(hash_of_all(&rendered, items));
    body
}

fn text_of(ledger: &ObjectHashes) -> Value {
    let ledger: std::collections::BTreeMap<String, &String> =
        ledger.iter().map(|(id, hash)| (id.to_string(), hash)).collect();
    Value::from(serde_json::to_string(&ledger).unwrap_or_default())
}

impl Job<'_> {
    /// Runs the first steps of an apply: writes the namespace, then deletes the objects that must be
    /// recreated.
    pub(crate) async fn open(&self, calls: &KubeCalls, plan: Plan) -> Result<Steps, Error> {
        // Checked before the first write: a write to an object being deleted would be lost.
        if let Some(id) = plan.blocked.first() {
            let message = format!("{id} is being deleted; retry when the deletion is complete");
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
            let stage = write.id.kind.stage();
            match if self.is_new {
                stage.in_new_namespace()
            } else {
                stage
            } {
                ApplyStage::BeforePods | ApplyStage::BeforeMorePods => steps.before_pods.push(write),
                ApplyStage::Pods => steps.pods.push(write),
                ApplyStage::Rest => steps.rest.push(write),
            }
        }
        Ok(steps)
    }

    /// Writes the workloads, after the objects that the workloads need.
    pub(crate) async fn run(
        &self,
        calls: &KubeCalls,
        steps: &mut Steps,
    ) -> Result<Vec<WrittenObject>, Error> {
        let access = std::mem::take(&mut steps.access);
        let before_pods = std::mem::take(&mut steps.before_pods);
        let is_new = !access.is_empty();
        let mut written = self
            .write_all(calls, access)
            .await
            .map_err(|error| cannot_bind(self.name, error))?;
        if is_new && before_pods.iter().any(|write| needs_access(write.id.kind)) {
            grant::granted(calls, self.name).await?;
        }
        written.extend(self.write_all(calls, before_pods).await?);
        let pods = std::mem::take(&mut steps.pods);
        written.extend(self.write_all(calls, pods).await?);
        Ok(written)
    }

    /// Writes the objects of the last stage, deletes surplus objects, and marks the apply as complete.
    pub(crate) async fn finish(&self, calls: &KubeCalls, steps: Steps) -> Result<Vec<WrittenObject>, Error> {
        let written = self.write_all(calls, steps.rest).await?;
        let mut deletes = steps.deletes;
        deletes.extend(self.left_over(calls).await?);
        // The search may find objects that the plan deletes.
        deletes.sort_by(|a, b| a.id.cmp(&b.id));
        deletes.dedup_by(|a, b| a.id == b.id);
        for delete in deletes {
            let (id, uid) = (&delete.id, delete.uid.as_deref());
            let is_deleted = calls::delete(calls, id.kind, self.name, &id.name, uid).await?;
            if is_deleted && id.kind == ItemKind::Secret {
                self.deletions
                    .record_secret(UNUSED, self.lease, (self.name, &id.name, uid))
                    .await?;
            }
            tracing::info!(namespace = self.name, object = %id, reason = "not in the manifest", "object of a lease deleted");
        }
        let body = marked(self.namespace, self.items);
        calls.apply_namespace(self.name, &body).await?;
        Ok(written)
    }

    /// Deletes objects that cannot be changed in place. After a deletion, returns a transient error. The next
    /// apply recreates the objects.
    async fn make_way(&self, calls: &KubeCalls, replaced: &[plan::Delete]) -> Result<(), Error> {
        for plan::Delete { id, uid } in replaced {
            calls::delete(calls, id.kind, self.name, &id.name, uid.as_deref()).await?;
            tracing::info!(namespace = self.name, object = %id, reason = "volumes changed", "object of a lease deleted, the next attempt to deploy creates the object again");
        }
        let Some(first) = replaced.first() else {
            return Ok(());
        };
        let message = format!(
            "{} is recreated after its deletion, because its volumes changed",
            first.id
        );
        Err(Error::new(ErrorKind::Conflict, calls.operation(), message).transient())
    }

    async fn write_all(
        &self,
        calls: &KubeCalls,
        writes: Vec<ObjectWrite>,
    ) -> Result<Vec<WrittenObject>, Error> {
        let writes = writes.into_iter();
        let writes: Vec<BoxFuture<'_, _>> = writes.map(|write| self.write(calls, write).boxed()).collect();
        stream::iter(writes)
            .buffer_unordered(CALLS_PER_LEASE)
            .try_collect()
            .await
    }

    async fn write(&self, calls: &KubeCalls, write: ObjectWrite) -> Result<WrittenObject, Error> {
        let ObjectWrite {
            id,
            body,
            take_over,
            patch,
            reason,
        } = write;
        tracing::debug!(namespace = self.name, object = %id, reason, "applied");
        if take_over {
            calls.take_over(&id.kind.resource(), self.name, &id.name).await?;
        }
        let meta = match patch {
            Some(patch) => {
                calls
                    .restore(&id.kind.resource(), self.name, &id.name, &patch)
                    .await?
            }
            None => {
                calls
                    .apply(&id.kind.resource(), self.name, &id.name, &body)
                    .await?
            }
        };
        Ok(WrittenObject { id, meta })
    }

    /// Writes the namespace without the hash of all objects. The missing hash marks an unfinished apply.
    async fn write_namespace(&self, calls: &KubeCalls, ledger: &ObjectHashes) -> Result<(), Error> {
        let mut body = self.namespace.clone();
        // Without the annotation, the next apply searches for leftover objects again.
        if self.search.is_empty() {
            body["metadata"]["annotations"][LEDGER] = text_of(ledger);
        }
        calls.apply_namespace(self.name, &body).await
    }

    /// Lists the objects of the provider that are not among the desired objects. Searches only the kinds in
    /// `search`.
    async fn left_over(&self, calls: &KubeCalls) -> Result<Vec<plan::Delete>, Error> {
        let kinds = self.search.iter();
        let lists: Vec<BoxFuture<'_, _>> = kinds
            .map(|kind| calls::ours(calls, *kind, self.name).boxed())
            .collect();
        let found: Vec<Vec<plan::Delete>> = stream::iter(lists)
            .buffer_unordered(CALLS_PER_LEASE)
            .try_collect()
            .await?;
        let is_wanted = |id: &ObjectId| self.items.iter().any(|i| i.id == *id);
        Ok(found
            .into_iter()
            .flatten()
            .filter(|d| !is_wanted(&d.id))
            .collect())
    }
}
