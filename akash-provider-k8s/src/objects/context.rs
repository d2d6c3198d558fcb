//! What every room needs: the lease, the settings, what is there, and the labels that follow.

use super::{Prior, Refusal};
use crate::labels::{self, Labels};
use crate::settings::{Isolation, Settings};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{SchedulerParams, Service};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Label of a namespace: what its pods may ask for.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// One rendering: of what deployment, by which settings, and what is there of it.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) deployment: &'a WorkloadSpec,
    pub(super) settings: &'a Settings,
    pub(super) prior: &'a Prior,
    /// Name of the lease's namespace.
    pub(super) name: String,
}

impl<'a> Context<'a> {
    pub(super) fn new(deployment: &'a WorkloadSpec, settings: &'a Settings, prior: &'a Prior) -> Self {
        Self {
            deployment,
            settings,
            prior,
            name: deployment.lease.namespace(),
        }
    }

    /// True for pods without the restrictions of our own, as another provider made them.
    pub(super) fn is_legacy(&self) -> bool {
        self.prior.isolation == Isolation::Legacy
    }

    /// Scheduling facts of a service.
    pub(super) fn params(&self, service: &Service) -> Option<&'a SchedulerParams> {
        self.deployment.params.get(&service.resources.id)?.as_ref()
    }

    /// Labels of everything in the namespace.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = labels::selector(&self.name);
        let version = self.prior.manifest_version.clone();
        labels.insert(labels::MANIFEST_VERSION.to_owned(), version);
        labels
    }

    /// Labels of what belongs to one service.
    pub(super) fn service_labels(&self, service: &str) -> Labels {
        let mut labels = self.labels();
        labels.insert(labels::SERVICE.to_owned(), service.to_owned());
        labels
    }

    /// Labels of what belongs to one service and names the lease.
    pub(super) fn account_labels(&self, service: &str) -> Labels {
        let mut labels = self.service_labels(service);
        labels.extend(labels::lease(&self.deployment.lease));
        labels
    }

    /// Metadata of an object in the namespace.
    pub(super) fn meta(&self, name: impl Into<String>, labels: Labels) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    /// The namespace itself: it names the lease, the chain and the isolation.
    pub(super) fn namespace(&self) -> Namespace {
        let mut labels = self.labels();
        labels.extend(labels::lease(&self.deployment.lease));
        // Pods of such a lease were made without the standard and might not be let in again.
        if !self.is_legacy() {
            labels.insert(POD_SECURITY.to_owned(), "baseline".to_owned());
        }
        let annotations = [
            (labels::CHAIN_ID, self.settings.chain_id.as_str()),
            (labels::ISOLATION, self.prior.isolation.as_str()),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Namespace {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels),
                annotations: Some(annotations.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    /// A refusal about a setting of the operator's.
    pub(super) fn bad_setting(field: String, problem: String) -> Refusal {
        Refusal::new("", field, problem)
    }
}
