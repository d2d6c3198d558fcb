//! Pod templates of services.

use super::account::permissions;
use super::context::RenderContext;
use super::{RenderError, affinity, image, registry, resources, text, volumes};
use akash_provider_core::manifest::Service;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// Default Linux capabilities that containers of tenants do not get.
const DROPPED: [&str; 4] = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SYS_CHROOT"];

/// Returns the stored pod template of an unchanged service, otherwise a new template.
pub(super) fn render(cx: &RenderContext<'_>, service: &Service) -> Result<PodTemplateSpec, RenderError> {
    // Rendered in any case, so that an invalid template is also reported for an unchanged service.
    let rendered = template(cx, service)?;
    let unchanged = cx.prior.unchanged.get(&service.name);
    Ok(unchanged.cloned().unwrap_or(rendered))
}

fn template(cx: &RenderContext<'_>, service: &Service) -> Result<PodTemplateSpec, RenderError> {
    Ok(PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(cx.service_labels(&service.name)),
            ..ObjectMeta::default()
        }),
        spec: Some(spec(cx, service)?),
    })
}

/// Returns the pod template without default ephemeral storage, or `None` if the service requests ephemeral
/// storage.
pub(super) fn without_default_disk(
    cx: &RenderContext<'_>,
    service: &Service,
) -> Result<Option<PodTemplateSpec>, RenderError> {
    if !resources::has_default_disk(service) {
        return Ok(None);
    }
    let mut template = template(cx, service)?;
    let containers = template.spec.iter_mut().flat_map(|spec| &mut spec.containers);
    for container in containers {
        container.resources.iter_mut().for_each(resources::remove_disk);
    }
    Ok(Some(template))
}

fn spec(cx: &RenderContext<'_>, service: &Service) -> Result<PodSpec, RenderError> {
    if service.params.as_ref().is_some_and(|params| params.tee.is_some()) {
        let problem = "confidential computing is not available on this provider";
        return Err(RenderError::new(&service.name, "params.tee", problem));
    }
    let reads = !permissions(service).is_empty();
    let seccomp = SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    };
    Ok(PodSpec {
        affinity: Some(affinity::render(cx, service)?),
        // A service without permissions needs no token, and an attacker in it must not get one.
        automount_service_account_token: Some(reads),
        containers: vec![container(cx, service)?],
        image_pull_secrets: registry::pull_secrets(cx, service),
        runtime_class_name: runtime_class(cx, service)?,
        security_context: Some(PodSecurityContext {
            // Most images run as root in their container.
            run_as_non_root: Some(false),
            seccomp_profile: (!cx.is_legacy()).then_some(seccomp),
            ..PodSecurityContext::default()
        }),
        service_account_name: reads.then(|| service.name.clone()),
        volumes: volumes::in_memory(service)?,
        ..PodSpec::default()
    })
}

/// Returns the runtime class in the scheduler parameters of a service. Without such a class, returns the
/// runtime class in the settings.
fn runtime_class(cx: &RenderContext<'_>, service: &Service) -> Result<Option<String>, RenderError> {
    let given = |class: &str| Some(class.trim().to_owned()).filter(|c| !c.is_empty() && c != "none");
    if let Some(class) = cx.params(service).and_then(|params| given(&params.runtime_class)) {
        if !text::is_subdomain(&class) {
            let problem = format!("invalid runtime class `{}`", text::shortened(&class));
            return Err(RenderError::new(
                &service.name,
                "scheduler_params.runtime_class",
                problem,
            ));
        }
        return Ok(Some(class));
    }
    Ok(given(&cx.settings.runtime_class).filter(|_| !cx.is_legacy()))
}

fn container(cx: &RenderContext<'_>, service: &Service) -> Result<Container, RenderError> {
    let name = service.name.as_str();
    if let Some(problem) = image::fault(&service.image) {
        let problem = format!("`{}`: {problem}", text::shortened(&service.image));
        return Err(RenderError::new(name, "image", problem));
    }
    let capabilities = Capabilities {
        drop: Some(DROPPED.map(str::to_owned).to_vec()),
        ..Capabilities::default()
    };
    Ok(Container {
        name: name.to_owned(),
        image: Some(service.image.clone()),
        // A restarted pod uses the image on its node, even while the registry is down.
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: arguments(name, "command", service.command.as_deref())?,
        args: arguments(name, "args", service.args.as_deref())?,
        env: Some(env(cx, service)?),
        ports: ports(service),
        resources: Some(resources::render(cx, service)?),
        security_context: Some(SecurityContext {
            // Prevents setuid programs from gaining privileges.
            allow_privilege_escalation: Some(false),
            capabilities: (!cx.is_legacy()).then_some(capabilities),
            privileged: Some(false),
            run_as_non_root: Some(false),
            ..SecurityContext::default()
        }),
        volume_mounts: volumes::mounts(service)?,
        ..Container::default()
    })
}

fn arguments(
    service: &str,
    field: &str,
    list: Option<&[String]>,
) -> Result<Option<Vec<String>>, RenderError> {
    let list = list.unwrap_or_default();
    for (n, word) in list.iter().enumerate() {
        text::argument(service, || format!("{field}[{n}]"), word)?;
    }
    Ok((!list.is_empty()).then(|| list.to_vec()))
}

/// Returns the variables of the tenant, and the `AKASH_…` variables that the tenant did not set. If a name
/// occurs twice, Kubernetes uses the last value.
fn env(cx: &RenderContext<'_>, service: &Service) -> Result<Vec<EnvVar>, RenderError> {
    let mut vars: Vec<EnvVar> = Vec::new();
    for (n, line) in service.env.iter().flatten().enumerate() {
        text::argument(&service.name, || format!("env[{n}]"), line)?;
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if name.is_empty() {
            return Err(RenderError::new(
                &service.name,
                format!("env[{n}]"),
                "missing variable name before `=`",
            ));
        }
        vars.push(variable(name, value));
    }
    let lease = &cx.deployment.lease;
    let order = &lease.order;
    let own = [
        ("AKASH_GROUP_SEQUENCE", order.group.gseq.to_string()),
        ("AKASH_DEPLOYMENT_SEQUENCE", lease.deployment().dseq.to_string()),
        ("AKASH_ORDER_SEQUENCE", order.oseq.to_string()),
        ("AKASH_OWNER", lease.owner().to_string()),
        ("AKASH_PROVIDER", lease.provider.to_string()),
        (
            "AKASH_CLUSTER_PUBLIC_HOSTNAME",
            cx.settings.public_hostname.clone(),
        ),
    ];
    for (name, value) in own {
        if !vars.iter().any(|var| var.name == name) {
            vars.push(variable(name, &value));
        }
    }
    let mut seen = BTreeSet::new();
    // Reversed twice, so that the last duplicate remains in its position.
    vars.reverse();
    vars.retain(|var| seen.insert(var.name.clone()));
    vars.reverse();
    Ok(vars)
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        // The API server omits empty values.
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        ..EnvVar::default()
    }
}

/// Returns the ports of the container, without duplicates.
fn ports(service: &Service) -> Option<Vec<ContainerPort>> {
    let mut seen = BTreeSet::new();
    // A port may be exposed several times.
    let exposes = service.expose.iter().filter(|e| seen.insert((e.port, e.proto)));
    let ports: Vec<_> = exposes
        .map(|expose| ContainerPort {
            container_port: i32::from(expose.port),
            protocol: Some(crate::leased_ips::protocol(expose.proto).to_owned()),
            ..ContainerPort::default()
        })
        .collect();
    (!ports.is_empty()).then_some(ports)
}
