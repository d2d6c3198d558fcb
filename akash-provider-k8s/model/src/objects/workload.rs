//! Workloads of services: Deployments and StatefulSets.

use super::context::RenderContext;
use super::{LeaseObjects, MAX_OBJECT_BYTES, MAX_REPLICAS, RenderError, pod, volumes};
use akash_provider_core::manifest::Service;
use akash_provider_kube_kernel::labels;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

const ROLLING_UPDATE: &str = "RollingUpdate";

/// Renders the workload of a service: a StatefulSet if the service has persistent volumes, otherwise a
/// Deployment.
pub(super) fn render(
    cx: &RenderContext<'_>,
    service: &Service,
    objects: &mut LeaseObjects,
) -> Result<(), RenderError> {
    let replicas = replicas(service)?;
    let claims = volumes::claims(service);
    if claims.is_empty() {
        let workload = deployment(cx, service, replicas)?;
        small_enough(service, &workload)?;
        objects.deployments.push(workload);
    } else {
        let workload = stateful_set(cx, service, replicas, claims)?;
        small_enough(service, &workload)?;
        objects.stateful_sets.push(workload);
    }
    Ok(())
}

fn replicas(service: &Service) -> Result<i32, RenderError> {
    if service.count > MAX_REPLICAS {
        let problem = format!("{} replicas exceed the maximum of {MAX_REPLICAS}", service.count);
        return Err(RenderError::new(&service.name, "count", problem));
    }
    Ok(i32::try_from(service.count).unwrap_or(i32::MAX))
}

fn selector(cx: &RenderContext<'_>, service: &Service) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels::service_selector(&cx.name, &service.name)),
        ..LabelSelector::default()
    }
}

fn deployment(cx: &RenderContext<'_>, service: &Service, replicas: i32) -> Result<Deployment, RenderError> {
    Ok(Deployment {
        metadata: cx.meta(&service.name, cx.service_labels(&service.name)),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            revision_history_limit: Some(10),
            selector: selector(cx, service),
            strategy: Some(DeploymentStrategy {
                type_: Some(ROLLING_UPDATE.to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    // Old pods are deleted first, so that no more than the replicas of the lease are reserved.
                    max_surge: Some(IntOrString::Int(0)),
                    max_unavailable: Some(IntOrString::Int(1)),
                }),
            }),
            template: pod::render(cx, service)?,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn stateful_set(
    cx: &RenderContext<'_>,
    service: &Service,
    replicas: i32,
    claims: Vec<PersistentVolumeClaim>,
) -> Result<StatefulSet, RenderError> {
    Ok(StatefulSet {
        metadata: cx.meta(&service.name, cx.service_labels(&service.name)),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            revision_history_limit: Some(1),
            selector: selector(cx, service),
            template: pod::render(cx, service)?,
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some(ROLLING_UPDATE.to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(0),
                    ..RollingUpdateStatefulSetStrategy::default()
                }),
            }),
            volume_claim_templates: Some(claims),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    })
}

fn small_enough(service: &Service, workload: &impl Serialize) -> Result<(), RenderError> {
    let bytes = serde_json::to_vec(workload).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_OBJECT_BYTES {
        let problem = format!(
            "{bytes} bytes with variables and arguments exceed the maximum of {MAX_OBJECT_BYTES}; put large texts into the image"
        );
        return Err(RenderError::new(&service.name, "env", problem));
    }
    Ok(())
}
