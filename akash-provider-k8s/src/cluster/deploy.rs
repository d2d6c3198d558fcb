//! Deploys a lease: writes its Manifest record, and applies the objects that are rendered from the record.

use super::differences::{AppliedItems, meta_of, not_rendered, unplanned};
use super::manifests::{Basis, entries, refused};
use super::namespace::{annotation, isolation_of, with_type};
use super::unwatched::{ByNamespace, UNWATCHED, is_in};
use super::{ClusterContext, is_as_new};
use crate::apply::item::{Item, ItemKind, ObjectId, items};
use crate::apply::plan::{DesiredState, ExistingObjects, ObjectHashes, Plan, WatchedObjects, edit, plan};
use crate::apply::{Job, LEDGER, TEMPLATE_HASH, WrittenObject, hash_of_all, ledger_of};
use crate::labels;
use crate::settings::Isolation;
use crate::state::LeaseView;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::hash;
use akash_provider_kube_kernel::subset;
use akash_provider_kube_model::crd::Manifest;
use akash_provider_kube_model::objects::{self, PriorState};
use k8s_openapi::api::apps::v1::{Deployment as AppsDeployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec};
use kube::Resource;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DEPLOY: &str = "deploy";
const HARDEN: &str = "harden";
/// Maximum number of attempts to harden a lease that its tenant updates concurrently.
const HARDEN_TRIES: u32 = 3;

/// Maximum wait until the watches show a new namespace.
const ENTERED_LIMIT: Duration = Duration::from_millis(50);
/// Interval between two checks of the caches.
const ENTERED_PAUSE: Duration = Duration::from_millis(1);

impl ClusterContext {
    /// Writes the Manifest record of a deployment and applies the objects of the lease.
    pub(crate) async fn deploy(&self, deployment: &WorkloadSpec) -> Result<(), Error> {
        self.check_provider(&deployment.lease, DEPLOY)?;
        self.current(DEPLOY).await?;
        let home = deployment.lease.namespace();
        self.with_lock(&home, self.apply(deployment, None, DEPLOY)).await
    }

    /// Applies the objects of a recorded lease with the isolation level of the settings. Does not write the
    /// Manifest record.
    pub(crate) async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        self.check_provider(lease, HARDEN)?;
        self.current(HARDEN).await?;
        for _ in 0..HARDEN_TRIES {
            let applied = self.recorded_now(lease).await?;
            let apply = self.apply(&applied, Some(self.settings.isolation), HARDEN);
            self.with_lock(&lease.namespace(), apply).await?;
            if self.recorded_now(lease).await? == applied {
                return Ok(());
            }
        }
        let message = format!("lease {lease} is updated repeatedly; try again later");
        Err(Error::new(ErrorKind::Conflict, HARDEN, message).transient())
    }

    /// Waits until the cache contains the newest Manifest record, and returns the recorded deployment.
    async fn recorded_now(&self, lease: &LeaseId) -> Result<WorkloadSpec, Error> {
        let there = self.records::<Manifest>(HARDEN).read(&lease.namespace()).await?;
        // The query below uses the cache, which must have this version.
        if let Some(manifest) = &there {
            self.until_seen(|| self.holds(self.manifests(), &manifest.metadata))
                .await;
        }
        self.recorded_of(lease, HARDEN).await?.ok_or_else(|| {
            let message = format!("lease {lease} is unknown");
            Error::new(ErrorKind::NotFound, HARDEN, message)
        })
    }

    /// Returns the Manifest record of `deployment.lease`. Returns a conflict if the record is missing, is
    /// being deleted, or does not match `deployment`.
    async fn record_of_hardened(&self, deployment: &WorkloadSpec) -> Result<Manifest, Error> {
        let lease = &deployment.lease;
        let changed = || {
            let message = format!("lease {lease} is being updated or closed; try again");
            Error::new(ErrorKind::Conflict, HARDEN, message).transient()
        };
        let there = self.records::<Manifest>(HARDEN).read(&lease.namespace()).await?;
        let there = there.ok_or_else(changed)?;
        self.check_holder(lease, &there.metadata, "Manifest object", HARDEN)?;
        let is_same = self.read_manifest(&there).is_ok_and(|read| read == *deployment);
        if is_same && there.metadata.deletion_timestamp.is_none() {
            return Ok(there);
        }
        Err(changed())
    }

    /// Applies the objects of a lease and restores edited isolation objects. With `isolation`, fails if an
    /// object still differs from the rendered object.
    async fn apply(
        &self,
        deployment: &WorkloadSpec,
        isolation: Option<Isolation>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let home = deployment.lease.namespace();
        let Some((items, written)) = self.apply_objects(deployment, isolation, operation).await? else {
            return Ok(());
        };
        let guarded = self.guard(&home, &items, &written, operation).await;
        if isolation.is_none() {
            // The lease runs and the repairs continue: a failed deletion must not fail the deploy.
            if let Err(error) = guarded {
                tracing::warn!(namespace = home, %error, "lease deployed, but the objects that isolate its pods cannot be restored, retrying");
            }
            return Ok(());
        }
        guarded?;
        self.until_seen(|| self.differences(&home, &items).is_empty())
            .await;
        let left = self.differences(&home, &items);
        if left.is_empty() {
            return Ok(());
        }
        let left: Vec<String> = left
            .iter()
            .map(|(id, reason)| format!("{id}: {reason}"))
            .collect();
        let message = format!(
            "lease {} differs from the applied objects: {}; try again",
            deployment.lease,
            left.join("; ")
        );
        Err(Error::new(ErrorKind::Conflict, operation, message).transient())
    }

    /// Applies the objects of the lease. Returns all rendered objects, and the metadata of the written
    /// objects.
    ///
    /// Returns `None` if another provider program deployed the lease completely. In this case, only the
    /// network policy can change.
    async fn apply_objects(
        &self,
        deployment: &WorkloadSpec,
        isolation: Option<Isolation>,
        operation: &'static str,
    ) -> Result<Option<(Vec<Item>, Vec<WrittenObject>)>, Error> {
        // The semaphore is never closed.
        let mut turn = self.leases.acquire().await.ok();
        let manifest = match isolation {
            None => self.record(deployment, Basis::Cached, operation).await?,
            Some(_) => self.record_of_hardened(deployment).await?,
        };
        let view = self.state.lease(&deployment.lease);
        let namespace = view.namespace.as_deref();
        self.check_namespace(&deployment.lease, namespace, operation)?;
        let adopted = match isolation {
            None => self.adopted(&manifest, deployment),
            Some(_) => BTreeSet::new(),
        };
        let prior = self.prior_of_apply(deployment, &manifest, &view, isolation);
        let objects =
            objects::render(deployment, &self.rendering(), &prior).map_err(|r| refused(operation, r))?;
        let body = with_type(&objects.namespace);
        let items = items(&objects);
        let name = deployment.lease.namespace();
        let ledger = namespace.map(ledger_of).unwrap_or_default();
        let kinds = looked_for(&items, &ledger, !adopted.is_empty());
        let is_new = namespace.is_none();
        let there = self.opened(&name, &items, is_new, kinds, operation).await?;
        if is_whole(&view, deployment, &adopted, &items, &there) {
            self.close_metadata(&name, &items, &view, operation).await?;
            return Ok(None);
        }
        let wanted = DesiredState {
            items: &items,
            ledger: &ledger,
            there: &there,
            without_password: &without_password(deployment),
            adopted: &adopted,
            prune: false,
        };
        let Some(plan) = missing_of(&view, &body, wanted) else {
            return Ok(Some((items, Vec::new())));
        };
        let job = Job {
            name: &name,
            namespace: &body,
            items: &items,
            ledger: &ledger,
            search: if is_searched(namespace) { &UNWATCHED } else { &[] },
            is_new: namespace.is_none(),
            lease: &deployment.lease,
            deletions: &self.settings.deletions,
        };
        let deleted: Vec<_> = plan.deletes.iter().filter_map(|d| d.uid.clone()).collect();
        // While held, partially applied objects do not count as unhealthy.
        let hold = self.state.hold(&deployment.lease);
        let calls = self.calls(operation);
        let mut steps = job.open(&calls, plan).await?;
        if job.is_new {
            self.until_entered(&name).await;
        }
        let mut written = job.run(&calls, &mut steps).await?;
        // Before the watches show the writes, health must not use the previous objects.
        self.report_written(&written);
        // Workloads first: waiting leases run before the rest of this one.
        drop(turn.take());
        turn = self.leases.acquire().await.ok();
        written.extend(job.finish(&calls, steps).await?);
        // Before the wait, so that other leases do not wait for the watches.
        drop((hold, turn));
        let hash = hash_of_all(&body, &items);
        self.until_seen(|| has_seen(&self.state.lease_in(&name), &hash, &written, &deleted))
            .await;
        Ok(Some((items, written)))
    }

    /// Updates the network policy of an adopted lease, so that its pods cannot reach cloud metadata services.
    /// Replaces no pod.
    async fn close_metadata(
        &self,
        home: &str,
        items: &[Item],
        view: &LeaseView,
        operation: &'static str,
    ) -> Result<(), Error> {
        // Without the policy, the lease was created with policies disabled and may depend on that.
        let policy = items.iter().find(|item| {
            let name = &item.id.name;
            item.id.kind == ItemKind::NetworkPolicy
                && name == objects::RESTRICTIONS
                && view.policies.contains_key(name)
        });
        let calls = self.calls(operation);
        if let Some(write) = policy.and_then(|policy| edit(policy, view)) {
            let name = write.id.name.as_str();
            if write.take_over {
                calls.take_over(&write.id.kind.resource(), home, name).await?;
            }
            let meta = match &write.patch {
                Some(patch) => {
                    calls
                        .restore(&write.id.kind.resource(), home, name, patch)
                        .await?
                }
                None => {
                    calls
                        .apply(&write.id.kind.resource(), home, name, &write.body)
                        .await?
                }
            };
            let version = meta.resource_version.as_deref();
            self.until_seen(|| {
                let view = self.state.lease_in(home);
                view.policies
                    .get(name)
                    .is_some_and(|o| is_as_new(o.meta(), version))
            })
            .await;
        }
        Ok(())
    }

    /// Waits until the watches show a new namespace. The API server delays writes into a namespace that its
    /// cache does not contain yet.
    async fn until_entered(&self, namespace: &str) {
        let listing = async {
            while self.state.is_known() && self.state.lease_in(namespace).namespace.is_none() {
                tokio::time::sleep(ENTERED_PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(ENTERED_LIMIT, listing).await;
    }

    /// Returns two lists for an applied lease: the edited objects, each with the reason for a repair, and the
    /// missing objects.
    pub(crate) fn drift(
        &self,
        deployment: &WorkloadSpec,
        manifest: &Manifest,
        all: &ByNamespace,
    ) -> (Vec<(ObjectId, String)>, Vec<ObjectId>) {
        let view = self.state.lease(&deployment.lease);
        let Some(applied) = self.applied_items(deployment, manifest, view.namespace.as_deref()) else {
            return <_>::default();
        };
        let items = applied.items;
        let isolation = unplanned(&items, &view).into_iter();
        let isolation: Vec<_> = isolation
            .map(|found| (found.write.id, found.write.reason))
            .collect();
        let foreign = not_rendered(&items, &view);
        let (unwatched, watched): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| !item.id.kind.is_watched());
        let edits = watched.iter().filter_map(|item| edit(item, &view));
        let name = deployment.lease.namespace();
        let knows_secrets = self.has_access(&view);
        let ids = unwatched.into_iter().map(|item| item.id);
        let ids = ids.filter(|id| knows_secrets || id.kind != ItemKind::Secret);
        (
            edits
                .map(|write| (write.id, write.reason))
                .chain(isolation)
                .chain(foreign)
                .collect(),
            ids.filter(|id| !is_in(all, &name, id)).collect(),
        )
    }

    /// Returns the desired objects of a lease and their hash; `None` if a deploy is pending or interrupted.
    pub(super) fn applied_items(
        &self,
        deployment: &WorkloadSpec,
        manifest: &Manifest,
        namespace: Option<&Namespace>,
    ) -> Option<AppliedItems> {
        let applied = annotation(namespace?, labels::APPLIED)?;
        let view = self.state.lease(&deployment.lease);
        let annotated = self.prior(manifest, namespace);
        // The annotation of the isolation may be edited; the hash covers it.
        let isolations = [annotated.isolation, annotated.isolation.other()];
        isolations.into_iter().find_map(|isolation| {
            let mut prior = PriorState {
                isolation,
                ..annotated.clone()
            };
            // A deleted workload does not show which template it had, but the hash does.
            let deleted_had_none = self.unlimited(deployment, &prior, &view, true);
            let deleted_had_one = self.unlimited(deployment, &prior, &view, false);
            let is_one = deleted_had_none == deleted_had_one;
            let candidates = std::iter::once(deleted_had_none).chain((!is_one).then_some(deleted_had_one));
            candidates.into_iter().find_map(|unchanged| {
                prior.unchanged = unchanged;
                let objects = objects::render(deployment, &self.rendering(), &prior).ok()?;
                let items = items(&objects);
                let body = with_type(&objects.namespace);
                let mark = hash_of_all(&body, &items);
                (*applied == mark).then_some(AppliedItems {
                    body,
                    items,
                    mark,
                    isolation,
                })
            })
        })
    }

    /// Returns the state of the lease before the apply, as input for rendering. If `isolation` is set, no pod
    /// template is preserved.
    fn prior_of_apply(
        &self,
        deployment: &WorkloadSpec,
        manifest: &Manifest,
        view: &LeaseView,
        isolation: Option<Isolation>,
    ) -> PriorState {
        let namespace = view.namespace.as_deref();
        let mut prior = self.prior(manifest, namespace);
        if let Some(isolation) = isolation {
            // Hardening replaces the pods in any case.
            prior.isolation = isolation;
            return prior;
        }
        if let Some(applied) = self.applied_items(deployment, manifest, namespace) {
            prior.isolation = applied.isolation;
        }
        prior.unchanged = self.unlimited(deployment, &prior, view, false);
        prior
    }

    fn prior(&self, manifest: &Manifest, namespace: Option<&Namespace>) -> PriorState {
        PriorState {
            manifest_version: manifest.metadata.resource_version.clone().unwrap_or_default(),
            isolation: isolation_of(namespace, self.settings.isolation),
            unchanged: BTreeMap::new(),
        }
    }

    /// Returns the pod templates of services without default ephemeral storage. An earlier version of this
    /// program deployed these services, and an upgrade must not restart their pods.
    ///
    /// If `deleted` is true, services without a workload are included.
    fn unlimited(
        &self,
        deployment: &WorkloadSpec,
        prior: &PriorState,
        view: &LeaseView,
        deleted: bool,
    ) -> BTreeMap<String, PodTemplateSpec> {
        // Rendering the whole lease reports the error.
        let templates = objects::without_default_disk(deployment, &self.rendering(), prior);
        let mut templates = templates.unwrap_or_default();
        templates.retain(|service, template| {
            let live = view.deployments.get(service).map(|o| o.meta());
            let live = live.or_else(|| view.stateful_sets.get(service).map(|o| o.meta()));
            live.map_or(deleted, |live| {
                let applied = live.annotations.as_ref().and_then(|a| a.get(TEMPLATE_HASH));
                applied == Some(&hash::hash_value(&with_type(template)))
            })
        });
        templates
    }

    fn check_namespace(
        &self,
        lease: &LeaseId,
        namespace: Option<&Namespace>,
        operation: &'static str,
    ) -> Result<(), Error> {
        let Some(namespace) = namespace else { return Ok(()) };
        self.check_holder(lease, &namespace.metadata, "namespace", operation)?;
        if namespace.metadata.deletion_timestamp.is_some() {
            let message = format!("the namespace of lease {lease} is being deleted");
            return Err(Error::new(ErrorKind::Conflict, operation, message).transient());
        }
        Ok(())
    }

    /// Returns the services that another provider program deployed. Services with a changed manifest entry
    /// are omitted.
    fn adopted(&self, manifest: &Manifest, deployment: &WorkloadSpec) -> BTreeSet<String> {
        let Some(adopted) = self.still_adopted(manifest) else {
            return BTreeSet::new();
        };
        let now = entries(&manifest.spec.group.services);
        let names = deployment.group.services.iter().map(|s| &s.name);
        names
            .filter(|name| adopted.contains_key(*name) && adopted.get(*name) == now.get(*name))
            .cloned()
            .collect()
    }

    /// Notifies the health state of written workloads. The health state then ignores older versions.
    pub(super) fn report_written(&self, written: &[WrittenObject]) {
        for write in written {
            let metadata = write.meta.clone();
            match write.id.kind {
                ItemKind::Deployment => self.state.wrote(&AppsDeployment {
                    metadata,
                    ..AppsDeployment::default()
                }),
                ItemKind::StatefulSet => self.state.wrote(&StatefulSet {
                    metadata,
                    ..StatefulSet::default()
                }),
                _ => {}
            }
        }
    }
}

/// Returns the plan of an apply, or `None` if the lease is applied completely.
fn missing_of(view: &LeaseView, body: &Value, wanted: DesiredState<'_>) -> Option<Plan> {
    let namespace = view.namespace.as_deref();
    let is_applied = namespace.is_some_and(|ns| {
        let live = serde_json::to_value(ns).unwrap_or_default();
        annotation(ns, labels::APPLIED) == Some(&hash_of_all(body, wanted.items))
            && subset::missing(body, &live, subset::Lists::Closed).is_none()
    });
    let wanted = DesiredState {
        prune: namespace.is_some() && !is_applied,
        ..wanted
    };
    let plan = plan(&wanted, view);
    (!is_applied || !plan.is_empty()).then_some(plan)
}

/// Returns the unwatched kinds to list before an apply. For an adopted lease, these are the kinds of all
/// `items`. Otherwise, these are the kinds of unchanged items.
fn looked_for(items: &[Item], ledger: &ObjectHashes, is_adopted: bool) -> BTreeSet<ItemKind> {
    // The watch of bindings shows the binding of the provider.
    let unwatched = items
        .iter()
        .filter(|item| !item.id.kind.is_watched() && !item.id.is_access());
    let unchanged = unwatched.filter(|item| is_adopted || ledger.get(&item.id) == Some(&item.hash));
    unchanged.map(|item| item.id.kind).collect()
}

/// Returns the ids of the login Secrets for which the password is unknown.
fn without_password(deployment: &WorkloadSpec) -> BTreeSet<ObjectId> {
    let services = deployment.group.services.iter();
    let unknown = services.filter(|s| objects::login(s).is_some_and(|login| login.password.is_empty()));
    let secret = |name: &String| ObjectId::new(ItemKind::Secret, objects::registry_secret_name(name));
    unknown.map(|service| secret(&service.name)).collect()
}

/// Returns true if the namespace has no ledger. Such a namespace can contain objects of another provider
/// program.
fn is_searched(namespace: Option<&Namespace>) -> bool {
    namespace.is_some_and(|ns| annotation(ns, LEDGER).is_none())
}

/// Returns true if another provider program deployed the lease completely.
fn is_whole(
    view: &LeaseView,
    deployment: &WorkloadSpec,
    adopted: &BTreeSet<String>,
    items: &[Item],
    there: &ExistingObjects,
) -> bool {
    let services = &deployment.group.services;
    let mut ports = items.iter().filter(|item| item.id.kind == ItemKind::Service);
    let mut unwatched = items.iter().filter(|item| !item.id.kind.is_watched());
    !adopted.is_empty()
        && services
            .iter()
            .all(|s| adopted.contains(&s.name) && runs(view, &s.name))
        && ports.all(|item| view.services.contains_key(&item.id.name))
        && unwatched.all(|item| there.contains_key(&item.id))
}

fn runs(view: &LeaseView, service: &str) -> bool {
    view.deployments.contains_key(service) || view.stateful_sets.contains_key(service)
}

/// Returns true if the watch caches show all writes and deletions of an apply.
fn has_seen(view: &LeaseView, hash: &String, written: &[WrittenObject], deleted: &[String]) -> bool {
    let is_marked = view
        .namespace
        .as_deref()
        .is_some_and(|ns| annotation(ns, labels::APPLIED) == Some(hash));
    let is_seen = |write: &WrittenObject| {
        !write.id.kind.is_watched()
            || meta_of(view, &write.id).is_some_and(|m| is_as_new(m, write.meta.resource_version.as_deref()))
    };
    let is_gone = |uid: &String| !view.ours().iter().any(|(_, there)| there == uid);
    is_marked && written.iter().all(is_seen) && deleted.iter().all(is_gone)
}
