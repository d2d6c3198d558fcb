//! Decoding of a Manifest spec.

use crate::crd::{
    ManifestAttribute, ManifestExpose, ManifestHttpOptions, ManifestLeaseId, ManifestResources,
    ManifestSchedulerParams, ManifestService, ManifestServiceParams, ManifestSpec,
};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::hosts::ips_wanted;
use akash_provider_core::manifest::{
    Credentials, Group, HttpOptions, Permissions, Proto, SchedulerGpu, SchedulerParams, SchedulerResources,
    Service, ServiceExpose, ServiceParams, StorageParams,
};
use akash_provider_core::types::{
    Attribute, Cpu, DeploymentId, Endpoint, EndpointKind, Gpu, LeaseId, Memory, Resources, Storage,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// Path of an invalid field, and the problem of the field.
type FieldFault = (String, String);

pub(super) fn lease(id: &ManifestLeaseId) -> Result<LeaseId, FieldFault> {
    let at = |field: &str| format!("spec.lease_id.{field}");
    let group =
        DeploymentId::new(parse(at("owner"), &id.owner)?, parse(at("dseq"), &id.dseq)?).group(id.gseq);
    Ok(group.order(id.oseq).bid(parse(at("provider"), &id.provider)?))
}

/// Decodes the deployment from a spec. Does not read the annotation.
pub(super) fn deployment(lease: LeaseId, spec: &ManifestSpec) -> Result<WorkloadSpec, FieldFault> {
    if spec.group.services.is_empty() {
        // An empty group would delete all running workloads.
        let problem = "empty; a lease has at least one service";
        return Err(("spec.group.services".to_owned(), problem.to_owned()));
    }
    let mut params = BTreeMap::new();
    let mut services = Vec::with_capacity(spec.group.services.len());
    for (n, one) in spec.group.services.iter().enumerate() {
        let scheduler = one.scheduler_params.as_ref().map(scheduler_params);
        params.insert(one.resources.id, scheduler);
        services.push(service(&format!("spec.group.services[{n}]"), one)?);
    }
    let group = Group::new(spec.group.name.clone(), services);
    Ok(WorkloadSpec {
        // The spec has no list of addresses: they result from its exposed ports.
        ips: ips_wanted(&group, &lease),
        lease,
        group: Arc::new(group),
        params: Arc::new(params),
        hostnames: Vec::new(),
        epoch: 0,
    })
}

fn service(at: &str, service: &ManifestService) -> Result<Service, FieldFault> {
    let exposes = service.expose.iter().flatten().enumerate();
    let expose = exposes.map(|(n, one)| expose(&format!("{at}.expose[{n}]"), one));
    let expose = expose.collect::<Result<Vec<_>, _>>()?;
    Ok(Service {
        name: service.name.clone(),
        image: service.image.clone(),
        command: service.command.clone(),
        args: service.args.clone(),
        env: service.env.clone(),
        resources: resources(&format!("{at}.resources"), &service.resources, &expose)?,
        count: service.count,
        expose,
        params: service.params.as_ref().map(params),
        credentials: service.credentials.as_ref().map(|login| Credentials {
            host: login.host.clone(),
            email: login.email.clone(),
            username: login.username.clone(),
            password: login.password.clone(),
        }),
    })
}

fn resources(
    at: &str,
    resources: &ManifestResources,
    expose: &[ServiceExpose],
) -> Result<Resources, FieldFault> {
    let volumes = resources.storage.iter().flatten().enumerate();
    let storage = volumes.map(|(n, volume)| {
        Ok(Storage {
            name: volume.name.clone(),
            bytes: parse(format!("{at}.storage[{n}].size"), &volume.size)?,
            attributes: attributes(volume.attributes.as_ref()),
        })
    });
    Ok(Resources {
        id: resources.id,
        cpu: Cpu::new(
            resources.cpu.units.into(),
            attributes(resources.cpu.attributes.as_ref()),
        ),
        memory: Memory::new(
            parse(format!("{at}.memory.size"), &resources.memory.size)?,
            attributes(resources.memory.attributes.as_ref()),
        ),
        storage: storage.collect::<Result<_, FieldFault>>()?,
        gpu: Gpu::new(
            resources.gpu.units.into(),
            attributes(resources.gpu.attributes.as_ref()),
        ),
        // The spec has no endpoints: they result from its global ports.
        endpoints: expose.iter().filter(|e| e.global).flat_map(endpoints).collect(),
    })
}

/// Returns the endpoints of a global port.
fn endpoints(expose: &ServiceExpose) -> impl Iterator<Item = Endpoint> {
    let kind = if expose.is_ingress() {
        EndpointKind::SharedHttp
    } else {
        EndpointKind::RandomPort
    };
    let port = Endpoint::new(kind, 0);
    let leased = (!expose.ip.is_empty()).then_some(Endpoint::new(
        EndpointKind::LeasedIp,
        expose.endpoint_sequence_number,
    ));
    [port].into_iter().chain(leased)
}

fn attributes(list: Option<&Vec<ManifestAttribute>>) -> Vec<Attribute> {
    list.into_iter()
        .flatten()
        .map(|a| Attribute::new(&a.key, &a.value))
        .collect()
}

pub(crate) fn expose(at: &str, expose: &ManifestExpose) -> Result<ServiceExpose, FieldFault> {
    let port = |field: &str, port: u32| {
        let beyond = |_| {
            (
                format!("{at}.{field}"),
                format!("invalid port {port}; the maximum is {}", u16::MAX),
            )
        };
        u16::try_from(port).map_err(beyond)
    };
    let proto = match expose.proto.as_str() {
        "TCP" => Proto::Tcp,
        "UDP" => Proto::Udp,
        other => {
            return Err((
                format!("{at}.proto"),
                format!("invalid protocol `{other}`; expected `TCP` or `UDP`"),
            ));
        }
    };
    Ok(ServiceExpose {
        port: port("port", expose.port)?,
        external_port: port("external_port", expose.external_port)?,
        proto,
        service: expose.service.clone(),
        global: expose.global,
        hosts: expose.hosts.clone(),
        http_options: http_options(&expose.http_options),
        ip: expose.ip.clone(),
        endpoint_sequence_number: expose.endpoint_sequence_number,
    })
}

fn http_options(options: &ManifestHttpOptions) -> HttpOptions {
    HttpOptions {
        max_body_size: options.max_body_size,
        read_timeout: options.read_timeout,
        send_timeout: options.send_timeout,
        next_tries: options.next_tries,
        next_timeout: options.next_timeout,
        next_cases: options.next_cases.clone(),
        // The spec has no field for the size; the annotation stores it.
        proxy_buffer_size: 0,
    }
}

fn params(params: &ManifestServiceParams) -> ServiceParams {
    let mount = |mount: &crate::crd::ManifestMount| StorageParams {
        name: mount.name.clone(),
        mount: mount.mount.clone(),
        read_only: mount.read_only,
    };
    ServiceParams {
        storage: params
            .storage
            .as_ref()
            .map(|list| list.iter().map(mount).collect()),
        permissions: params.permissions.as_ref().map(|permissions| Permissions {
            read: permissions.read.clone(),
        }),
        ..ServiceParams::default()
    }
}

fn scheduler_params(params: &ManifestSchedulerParams) -> SchedulerParams {
    SchedulerParams {
        runtime_class: params.runtime_class.clone(),
        resources: params.resources.as_ref().map(|resources| SchedulerResources {
            gpu: resources.gpu.as_ref().map(|gpu| SchedulerGpu {
                vendor: gpu.vendor.clone(),
                model: gpu.model.clone(),
                memory_size: gpu.memory_size.clone(),
                interface: gpu.interface.clone(),
            }),
        }),
    }
}

fn parse<T: FromStr<Err: Display>>(field: String, text: &str) -> Result<T, FieldFault> {
    text.parse()
        .map_err(|error: T::Err| (field, format!("`{text}`: {error}")))
}
