//! Context of a rendering: the lease, the settings, the existing state, and the resulting labels.

use super::{PriorState, RenderError};
use crate::settings::{Isolation, KubeSettings};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{SchedulerParams, Service};
use akash_provider_kube_kernel::labels::{self, Labels};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// Inputs for rendering the objects of one lease.
#[derive(Debug)]
pub(super) struct RenderContext<'a> {
    pub(super) deployment: &'a WorkloadSpec,
    pub(super) settings: &'a KubeSettings,
    pub(super) prior: &'a PriorState,
    /// Name of the namespace of the lease.
    pub(super) name: String,
}

impl<'a> RenderContext<'a> {
    pub(super) fn new(
        deployment: &'a WorkloadSpec,
        settings: &'a KubeSettings,
        prior: &'a PriorState,
    ) -> Self {
        Self {
            deployment,
            settings,
            prior,
            name: deployment.lease.namespace(),
        }
    }

    /// Returns true if another program created the pods of the lease. Such pods lack the restrictions of this
    /// provider.
    pub(super) fn is_legacy(&self) -> bool {
        self.prior.isolation == Isolation::Legacy
    }

    /// Returns the GPU and runtime class promised to a service.
    pub(super) fn params(&self, service: &Service) -> Option<&'a SchedulerParams> {
        self.deployment.params.get(&service.resources.id)?.as_ref()
    }

    /// Returns the labels that every object in the namespace has.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = labels::selector(&self.name);
        let version = self.prior.manifest_version.clone();
        labels.insert(labels::MANIFEST_VERSION.to_owned(), version);
        labels
    }

    pub(super) fn service_labels(&self, service: &str) -> Labels {
        let mut labels = self.labels();
        labels.insert(labels::SERVICE.to_owned(), service.to_owned());
        labels
    }

    /// Returns the labels for objects of a service, including the labels that identify the lease.
    pub(super) fn account_labels(&self, service: &str) -> Labels {
        let mut labels = self.service_labels(service);
        labels.extend(labels::lease(&self.deployment.lease));
        labels
    }

    pub(super) fn meta(&self, name: impl Into<String>, labels: Labels) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.name.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        }
    }

    /// Renders the namespace. The labels and annotations contain the lease, the chain and the isolation
    /// level.
    pub(super) fn namespace(&self) -> Namespace {
        let mut labels = self.labels();
        labels.extend(labels::lease(&self.deployment.lease));
        // Pods of a legacy lease may violate the standard, and their replacements would be rejected.
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

    pub(super) fn bad_setting(field: String, problem: String) -> RenderError {
        RenderError::new("", field, problem)
    }
}
