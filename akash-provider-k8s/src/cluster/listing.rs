//! Everything of ours that the cluster has: what can be used, what cannot, and what lacks.
//!
//! A lease that is in none of these may be ended for want of a manifest, so nothing is left out: not a record that
//! cannot be read, not a namespace without a record or without labels, and not what the API server has and a cache
//! lacks. Where one of the questions gets no answer there is no list.

use super::Inner;
use crate::adopt::Finding;
use crate::crd::Manifest;
use crate::labels;
use crate::pages;
use crate::state::{Kind, LeaseView, Orphan, Reason};
use akash_provider_core::cluster::{Listing, Remains, Unusable};
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use std::collections::{BTreeMap, BTreeSet};

impl Inner {
    /// Every deployment of ours that the Manifest objects tell of, and whatever else there is of leases.
    pub(crate) async fn listing(&self, operation: &'static str) -> Result<Listing, Error> {
        self.current(operation).await?;
        let manifests: Vec<_> = self.manifests().state();
        // One list of all Secrets, not a call for each lease.
        if manifests
            .iter()
            .any(|m| self.is_ours(m) && self.lacks_password(m))
        {
            self.read_secrets(operation).await?;
        }
        let mut things = Things::default();
        let mut listing = Listing {
            place: format!(
                "Manifest objects of namespace `{}`",
                self.settings.manifest_namespace
            ),
            ..Listing::default()
        };
        // Records first: what can be read is not told again by the looks below.
        for manifest in &manifests {
            self.sort_in(manifest, &mut listing, &mut things);
        }
        let views = self.state.views();
        for (home, view, lease) in &views {
            things.see_record(self, home, view, lease.as_ref());
        }
        // The API server itself: a record without labels is in no cache, and its lease would look ended.
        self.see_live_records(&mut things, operation).await?;
        for (home, view, lease) in &views {
            things.see_workload(self, home, view, lease.as_ref());
        }
        self.see_live_namespaces(&mut things, operation).await?;
        listing.unusable = things.unusable.into_values().collect();
        let findings = self.findings(operation).await;
        self.remark(findings, &mut listing);
        Ok(listing)
    }

    /// One record: what it says, or why it says nothing.
    fn sort_in(&self, manifest: &Manifest, listing: &mut Listing, things: &mut Things) {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        let named = manifest.metadata.labels.as_ref().and_then(labels::lease_of);
        let own = named.filter(|lease| lease.namespace() == name);
        let problem = if self.is_ours(manifest) {
            match self.read_manifest(manifest) {
                Ok(deployment) => {
                    things.recorded.insert(name.to_owned());
                    if !self.state.lease_in(name).runs() {
                        listing.incomplete.push(deployment.lease.clone());
                    }
                    listing.deployments.push(deployment);
                    return;
                }
                Err(bad) => bad.to_string(),
            }
        } else if self.is_of_other_chain(&manifest.metadata) {
            format!("Manifest {name}: it belongs to another chain")
        } else {
            let provider = &manifest.spec.lease_id.provider;
            format!("Manifest {name}: spec.lease_id.provider: it names `{provider}`, another provider")
        };
        let place = &self.settings.manifest_namespace;
        things.add(
            name,
            own.as_ref(),
            Remains::Unreadable,
            format!("{problem} (in namespace `{place}`)"),
        );
    }

    /// Records that the API server has and the caches do not: their labels were taken off, or a watch missed them.
    async fn see_live_records(&self, things: &mut Things, operation: &'static str) -> Result<(), Error> {
        let limit = self.settings.call_timeout;
        let place = &self.settings.manifest_namespace;
        let records: Api<Manifest> = Api::namespaced(self.client.clone(), place);
        for record in pages::metadata(&records, ListParams::default(), limit, operation).await? {
            let name = record.metadata.name.unwrap_or_default();
            let lease = record.metadata.labels.as_ref().and_then(labels::lease_of);
            let problem = format!(
                "Manifest {name}: it has no label `{}` (in namespace `{place}`)",
                labels::SELECTOR
            );
            things.add(&name, lease.as_ref(), Remains::Unreadable, problem);
        }
        Ok(())
    }

    /// Namespaces that the API server has and the caches do not.
    async fn see_live_namespaces(&self, things: &mut Things, operation: &'static str) -> Result<(), Error> {
        let limit = self.settings.call_timeout;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for namespace in pages::metadata(&namespaces, ListParams::default(), limit, operation).await? {
            let name = namespace.metadata.name.unwrap_or_default();
            let problem = format!("namespace {name}: it has no label `{}`", labels::SELECTOR);
            things.add(&name, None, Remains::Unrecorded, problem);
        }
        Ok(())
    }

    /// What an operator should look at; what the engine is told as a state of a lease is not told again.
    fn remark(&self, findings: Result<Vec<Finding>, Error>, listing: &mut Listing) {
        let findings = match findings {
            Ok(findings) => findings,
            // Without findings the list itself is whole.
            Err(error) => {
                let remark = format!("what lacks in the cluster cannot be looked up: {error}");
                return listing.remarks.push(remark);
            }
        };
        let named = listing.unusable.iter().filter(|u| u.lease.is_some());
        let known: BTreeSet<String> = named.map(|u| u.name.clone()).collect();
        for finding in &findings {
            let is_told = match finding {
                Finding::Unreadable { manifest, .. } => known.contains(manifest.as_str()),
                Finding::Orphan(Orphan {
                    namespace,
                    reason: Reason::NoManifest,
                    ..
                }) => known.contains(namespace.as_str()),
                Finding::Missing { lease, .. } | Finding::Edited { lease, .. } => {
                    if !listing.incomplete.contains(lease) {
                        listing.incomplete.push(lease.clone());
                    }
                    false
                }
                Finding::Orphan(_) | Finding::Overwritten { .. } | Finding::OtherChain { .. } => false,
            };
            if !is_told {
                listing.remarks.push(shortened(finding.to_string()));
            }
        }
    }
}

/// Characters of a problem that are told; a record may be large, and what is wrong with it as large.
const PROBLEM_MAX: usize = 400;

fn shortened(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(PROBLEM_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// What is there of leases and says nothing of what they run, by name; what was said first stays.
#[derive(Debug, Default)]
struct Things {
    /// Names of records that can be read.
    recorded: BTreeSet<String>,
    unusable: BTreeMap<String, Unusable>,
}

impl Things {
    fn add(&mut self, name: &str, lease: Option<&LeaseId>, remains: Remains, problem: String) {
        if self.recorded.contains(name) {
            return;
        }
        self.unusable.entry(name.to_owned()).or_insert_with(|| Unusable {
            lease: lease.cloned(),
            name: name.to_owned(),
            remains,
            problem: shortened(problem),
        });
    }

    fn see_record(&mut self, inner: &Inner, home: &str, view: &LeaseView, lease: Option<&LeaseId>) {
        if let Some(why) = view.unreadable.get(&(Kind::Manifests, home.to_owned())) {
            let place = &inner.settings.manifest_namespace;
            let problem = format!("Manifest {home}: {why} (in namespace `{place}`)");
            self.add(home, lease, Remains::Unreadable, problem);
        }
    }

    fn see_workload(&mut self, inner: &Inner, home: &str, view: &LeaseView, lease: Option<&LeaseId>) {
        if view.runs() {
            let place = &inner.settings.manifest_namespace;
            let problem = format!("namespace {home}: its Manifest is not there (in namespace `{place}`)");
            self.add(home, lease, Remains::Unrecorded, problem);
        }
    }
}
