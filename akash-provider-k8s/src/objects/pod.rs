//! Pod templates.

use super::account::permissions;
use super::context::Context;
use super::{Refusal, affinity, image, registry, resources, text, volumes};
use akash_provider_core::manifest::Service;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// Capabilities that containers have by default and tenants' software does without.
const DROPPED: [&str; 4] = ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SYS_CHROOT"];

/// The template of a service: as it runs where the service did not change, else rendered.
pub(super) fn render(cx: &Context<'_>, service: &Service) -> Result<PodTemplateSpec, Refusal> {
    // Rendered in any case, so that what Kubernetes would not take is refused also where nothing changed.
    let rendered = template(cx, service)?;
    let unchanged = cx.prior.unchanged.get(&service.name);
    Ok(unchanged.cloned().unwrap_or(rendered))
}

fn template(cx: &Context<'_>, service: &Service) -> Result<PodTemplateSpec, Refusal> {
    Ok(PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(cx.service_labels(&service.name)),
            ..ObjectMeta::default()
        }),
        spec: Some(spec(cx, service)?),
    })
}

/// The template without the default of ephemeral storage, as earlier versions rendered it. Returns `None` for a
/// service that lists its own.
pub(super) fn without_default_disk(
    cx: &Context<'_>,
    service: &Service,
) -> Result<Option<PodTemplateSpec>, Refusal> {
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

fn spec(cx: &Context<'_>, service: &Service) -> Result<PodSpec, Refusal> {
    if service.params.as_ref().is_some_and(|params| params.tee.is_some()) {
        let problem =
            "this provider has no confidential computing, and runs nothing without it that asks for it";
        return Err(Refusal::new(&service.name, "params.tee", problem));
    }
    let reads = !permissions(service).is_empty();
    let seccomp = SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    };
    Ok(PodSpec {
        affinity: Some(affinity::render(cx, service)?),
        // A service that may read nothing has no use for a token; somebody who breaks into it may.
        automount_service_account_token: Some(reads),
        containers: vec![container(cx, service)?],
        image_pull_secrets: registry::pull_secrets(cx, service),
        runtime_class_name: runtime_class(cx, service)?,
        security_context: Some(PodSecurityContext {
            // Most images of tenants run as root within their container.
            run_as_non_root: Some(false),
            seccomp_profile: (!cx.is_legacy()).then_some(seccomp),
            ..PodSecurityContext::default()
        }),
        service_account_name: reads.then(|| service.name.clone()),
        volumes: volumes::in_memory(service)?,
        ..PodSpec::default()
    })
}

/// The class the GPU needs, else the operator's.
fn runtime_class(cx: &Context<'_>, service: &Service) -> Result<Option<String>, Refusal> {
    let given = |class: &str| Some(class.trim().to_owned()).filter(|c| !c.is_empty() && c != "none");
    if let Some(class) = cx.params(service).and_then(|params| given(&params.runtime_class)) {
        if !text::is_subdomain(&class) {
            let problem = format!("`{}` is no name of a runtime class", text::shown(&class));
            return Err(Refusal::new(
                &service.name,
                "scheduler_params.runtime_class",
                problem,
            ));
        }
        return Ok(Some(class));
    }
    Ok(given(&cx.settings.runtime_class).filter(|_| !cx.is_legacy()))
}

fn container(cx: &Context<'_>, service: &Service) -> Result<Container, Refusal> {
    let name = service.name.as_str();
    if let Some(problem) = image::fault(&service.image) {
        let problem = format!("`{}`: {problem}", text::shown(&service.image));
        return Err(Refusal::new(name, "image", problem));
    }
    let capabilities = Capabilities {
        drop: Some(DROPPED.map(str::to_owned).to_vec()),
        ..Capabilities::default()
    };
    Ok(Container {
        name: name.to_owned(),
        image: Some(service.image.clone()),
        // A pod that starts again on its node runs what it ran before, also while the registry is away.
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: words(name, "command", service.command.as_deref())?,
        args: words(name, "args", service.args.as_deref())?,
        env: Some(env(cx, service)?),
        ports: ports(service),
        resources: Some(resources::render(cx, service)?),
        security_context: Some(SecurityContext {
            // No setuid program of an image gains what its container was not given.
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

fn words(service: &str, field: &str, list: Option<&[String]>) -> Result<Option<Vec<String>>, Refusal> {
    let list = list.unwrap_or_default();
    for (n, word) in list.iter().enumerate() {
        text::argument(service, || format!("{field}[{n}]"), word)?;
    }
    Ok((!list.is_empty()).then(|| list.to_vec()))
}

/// The tenant's variables, and those of the network that the tenant did not set. Of a name given twice the last
/// counts, as it does in a process.
fn env(cx: &Context<'_>, service: &Service) -> Result<Vec<EnvVar>, Refusal> {
    let mut vars: Vec<EnvVar> = Vec::new();
    for (n, line) in service.env.iter().flatten().enumerate() {
        text::argument(&service.name, || format!("env[{n}]"), line)?;
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if name.is_empty() {
            return Err(Refusal::new(
                &service.name,
                format!("env[{n}]"),
                "a variable has a name before its `=`",
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
    // Turned twice, so that the last of a name stays and the order does too.
    vars.reverse();
    vars.retain(|var| seen.insert(var.name.clone()));
    vars.reverse();
    Ok(vars)
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        // The API server leaves an empty value out.
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        ..EnvVar::default()
    }
}

/// Ports of the container, each once.
fn ports(service: &Service) -> Option<Vec<ContainerPort>> {
    let mut seen = BTreeSet::new();
    // One port may be exposed several times.
    let exposes = service.expose.iter().filter(|e| seen.insert((e.port, e.proto)));
    let ports: Vec<_> = exposes
        .map(|expose| ContainerPort {
            container_port: i32::from(expose.port),
            protocol: Some(super::ports::protocol(expose.proto).to_owned()),
            ..ContainerPort::default()
        })
        .collect();
    (!ports.is_empty()).then_some(ports)
}
