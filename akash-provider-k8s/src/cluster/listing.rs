//! Listing of all leases in the cluster: usable Manifest records, unusable records, and problems.
//!
//! A lease that is missing from the listing counts as a lease without a manifest, which the provider may close. The
//! listing is therefore complete: it includes invalid records, namespaces without record or labels, and live objects
//! that the caches lack. If one query fails, the listing fails.

use super::ClusterContext;
use crate::adopt::Finding;
use crate::labels;
use crate::state::{CachedKind, LeaseView, Orphan, Reason};
use akash_provider_core::cluster::{Listing, RecordDefect, UnusableRecord};
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::pages;
use akash_provider_kube_model::crd::Manifest;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};

impl ClusterContext {
    /// Lists the recorded deployments of this provider, and the leases without a usable record.
    pub(crate) async fn listing(&self, operation: &'static str) -> Result<Listing, Error> {
        self.current(operation).await?;
        let manifests: Vec<_> = self.manifests().state();
        // One list of all Secrets instead of a call per lease.
        if manifests
            .iter()
            .any(|m| self.is_ours(m) && self.lacks_password(m))
        {
            self.read_secrets(operation).await?;
        }
        let mut traces = LeaseTraces::default();
        let mut listing = Listing {
            place: format!(
                "Manifest objects of namespace `{}`",
                self.settings.manifest_namespace
            ),
            ..Listing::default()
        };
        // Records first: valid ones are skipped below.
        for manifest in &manifests {
            self.add_record(manifest, &mut listing, &mut traces);
        }
        let views = self.state.views();
        for (home, view, lease) in &views {
            traces.add_record(self, home, view, lease.as_ref());
        }
        // Live: the caches lack a record without labels, and its lease would look closed.
        self.add_live_records(&mut traces, operation).await?;
        for (home, view, lease) in &views {
            traces.add_workload(self, home, view, lease.as_ref());
        }
        self.add_live_namespaces(&mut traces, operation).await?;
        listing.unusable = traces.unusable.into_values().collect();
        let findings = self.findings(operation).await;
        self.remark(findings, &mut listing);
        Ok(listing)
    }

    fn add_record(&self, manifest: &Manifest, listing: &mut Listing, traces: &mut LeaseTraces) {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        let named = manifest.metadata.labels.as_ref().and_then(labels::lease_of);
        let own = named.filter(|lease| lease.namespace() == name);
        let problem = if self.is_ours(manifest) {
            match self.read_manifest(manifest) {
                Ok(deployment) => {
                    traces.recorded.insert(name.to_owned());
                    if !self.state.lease_in(name).runs() {
                        listing.incomplete.push(deployment.lease.clone());
                    }
                    listing.deployments.push(deployment);
                    return;
                }
                Err(bad) => bad.to_string(),
            }
        } else if self.is_of_other_chain(&manifest.metadata) {
            format!("Manifest {name}: belongs to another chain")
        } else {
            let provider = &manifest.spec.lease_id.provider;
            format!("Manifest {name}: spec.lease_id.provider: names another provider, `{provider}`")
        };
        let place = &self.settings.manifest_namespace;
        traces.add(
            name,
            own.as_ref(),
            RecordDefect::Unreadable,
            format!("{problem} (in namespace `{place}`)"),
        );
    }

    /// Reports Manifest records that the caches lack. Such a record has lost its labels, or the watch has
    /// missed an event.
    async fn add_live_records(&self, traces: &mut LeaseTraces, operation: &'static str) -> Result<(), Error> {
        let limit = self.settings.call_timeout;
        let place = &self.settings.manifest_namespace;
        let records: Api<Manifest> = Api::namespaced(self.client.clone(), place);
        for record in pages::metadata(&records, ListParams::default(), limit, operation).await? {
            let name = record.metadata.name.unwrap_or_default();
            let lease = record.metadata.labels.as_ref().and_then(labels::lease_of);
            let problem = format!(
                "Manifest {name}: the label `{}` is missing (in namespace `{place}`)",
                labels::SELECTOR
            );
            traces.add(&name, lease.as_ref(), RecordDefect::Unreadable, problem);
        }
        Ok(())
    }

    /// Adds namespaces that the API server has and the caches lack.
    async fn add_live_namespaces(
        &self,
        traces: &mut LeaseTraces,
        operation: &'static str,
    ) -> Result<(), Error> {
        let limit = self.settings.call_timeout;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for namespace in pages::metadata(&namespaces, ListParams::default(), limit, operation).await? {
            let name = namespace.metadata.name.unwrap_or_default();
            let problem = format!("namespace {name}: the label `{}` is missing", labels::SELECTOR);
            traces.add(&name, None, RecordDefect::Unrecorded, problem);
        }
        Ok(())
    }

    /// Adds `findings` to the remarks of the listing. Omits records that the listing already reports as
    /// unusable.
    fn remark(&self, findings: Result<Vec<Finding>, Error>, listing: &mut Listing) {
        let findings = match findings {
            Ok(findings) => findings,
            // The listing is complete without findings.
            Err(error) => {
                let remark = format!("cannot search for problems in the cluster: {error}");
                return listing.remarks.push(remark);
            }
        };
        let named = listing.unusable.iter().filter(|u| u.lease.is_some());
        let names: BTreeSet<String> = named.map(|u| u.name.clone()).collect();
        for finding in &findings {
            let is_listed = match finding {
                Finding::Unreadable { manifest, .. } => names.contains(manifest.as_str()),
                Finding::Orphan(Orphan {
                    namespace,
                    reason: Reason::NoManifest,
                    ..
                }) => names.contains(namespace.as_str()),
                Finding::Missing { lease, .. } | Finding::Edited { lease, .. } => {
                    if !listing.incomplete.contains(lease) {
                        listing.incomplete.push(lease.clone());
                    }
                    false
                }
                Finding::Orphan(_) | Finding::Overwritten { .. } | Finding::OtherChain { .. } => false,
            };
            if !is_listed {
                listing.remarks.push(shortened(finding.to_string()));
            }
        }
    }
}

/// Maximum length of a reported problem, in characters.
const PROBLEM_MAX: usize = 400;

fn shortened(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(PROBLEM_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// Manifest records by name: the valid records, and for each other name the first problem of its records.
#[derive(Debug, Default)]
struct LeaseTraces {
    /// Names of valid Manifest records.
    recorded: BTreeSet<String>,
    unusable: BTreeMap<String, UnusableRecord>,
}

impl LeaseTraces {
    fn add(&mut self, name: &str, lease: Option<&LeaseId>, remains: RecordDefect, problem: String) {
        if self.recorded.contains(name) {
            return;
        }
        self.unusable
            .entry(name.to_owned())
            .or_insert_with(|| UnusableRecord {
                lease: lease.cloned(),
                name: name.to_owned(),
                remains,
                problem: shortened(problem),
            });
    }

    fn add_record(&mut self, inner: &ClusterContext, home: &str, view: &LeaseView, lease: Option<&LeaseId>) {
        if let Some(why) = view.unreadable.get(&(CachedKind::Manifests, home.to_owned())) {
            let place = &inner.settings.manifest_namespace;
            let problem = format!("Manifest {home}: {why} (in namespace `{place}`)");
            self.add(home, lease, RecordDefect::Unreadable, problem);
        }
    }

    fn add_workload(
        &mut self,
        inner: &ClusterContext,
        home: &str,
        view: &LeaseView,
        lease: Option<&LeaseId>,
    ) {
        if view.runs() {
            let place = &inner.settings.manifest_namespace;
            let problem = format!("namespace {home}: the Manifest is missing (in namespace `{place}`)");
            self.add(home, lease, RecordDefect::Unrecorded, problem);
        }
    }
}
