//! Encoding of a deployment as a Manifest spec.

use crate::crd::{
    ManifestAttribute, ManifestCredentials, ManifestExpose, ManifestGroup, ManifestHttpOptions,
    ManifestLeaseId, ManifestMemory, ManifestMount, ManifestPermissions, ManifestResources,
    ManifestSchedulerGpu, ManifestSchedulerParams, ManifestSchedulerResources, ManifestService,
    ManifestServiceParams, ManifestSpec, ManifestStorage, ManifestUnits,
};
use crate::refusal::{MAX_OBJECT_BYTES, RenderError};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{
    HttpOptions, Proto, SchedulerParams, Service, ServiceExpose, ServiceParams,
};
use akash_provider_core::types::{Attribute, LeaseId};

pub(super) fn spec(deployment: &WorkloadSpec) -> Result<ManifestSpec, RenderError> {
    let services = deployment.group.services.iter().map(|one| {
        let params = deployment.params.get(&one.resources.id);
        service(one, params.and_then(Option::as_ref))
    });
    Ok(ManifestSpec {
        lease_id: lease(&deployment.lease),
        group: ManifestGroup {
            name: deployment.group.name.clone(),
            services: services.collect::<Result<_, _>>()?,
        },
    })
}

pub(super) fn small_enough(manifest: &crate::crd::Manifest) -> Result<(), RenderError> {
    // An object that cannot be encoded cannot be stored.
    let bytes = serde_json::to_vec(manifest).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_OBJECT_BYTES {
        let problem = format!(
            "the record has {bytes} bytes, more than the limit of {MAX_OBJECT_BYTES}; move large texts into the images"
        );
        return Err(RenderError::new("", "manifest", problem));
    }
    Ok(())
}

pub(super) fn lease(lease: &LeaseId) -> ManifestLeaseId {
    let group = &lease.order.group;
    ManifestLeaseId {
        owner: group.deployment.owner.to_string(),
        dseq: group.deployment.dseq.to_string(),
        gseq: group.gseq,
        oseq: lease.order.oseq,
        provider: lease.provider.to_string(),
    }
}

fn service(service: &Service, scheduler: Option<&SchedulerParams>) -> Result<ManifestService, RenderError> {
    Ok(ManifestService {
        name: service.name.clone(),
        image: service.image.clone(),
        command: listed(service.command.as_ref()),
        args: listed(service.args.as_ref()),
        env: listed(service.env.as_ref()),
        resources: resources(service)?,
        count: service.count,
        expose: some(service.expose.iter().map(expose).collect()),
        params: service.params.as_ref().map(params),
        scheduler_params: scheduler.map(scheduler_params),
        credentials: service.credentials.as_ref().map(|login| ManifestCredentials {
            host: login.host.clone(),
            email: login.email.clone(),
            username: login.username.clone(),
            password: login.password.clone(),
        }),
    })
}

fn resources(service: &Service) -> Result<ManifestResources, RenderError> {
    let resources = &service.resources;
    let units = |field: &str, units: u64, list: &[Attribute]| {
        let too_many = |_| {
            RenderError::new(
                &service.name,
                field,
                format!("{units} units exceed the maximum of {}", u32::MAX),
            )
        };
        Ok::<_, RenderError>(ManifestUnits {
            // The field has 32 bits, but the amount of an order has 64.
            units: u32::try_from(units).map_err(too_many)?,
            attributes: attributes(list),
        })
    };
    let volumes = resources.storage.iter().map(|volume| ManifestStorage {
        name: volume.name.clone(),
        size: volume.bytes.to_string(),
        attributes: attributes(&volume.attributes),
    });
    Ok(ManifestResources {
        id: resources.id,
        cpu: units("resources.cpu", resources.cpu.units, &resources.cpu.attributes)?,
        gpu: units("resources.gpu", resources.gpu.units, &resources.gpu.attributes)?,
        memory: ManifestMemory {
            size: resources.memory.bytes.to_string(),
            attributes: attributes(&resources.memory.attributes),
        },
        storage: some(volumes.collect()),
    })
}

fn attributes(list: &[Attribute]) -> Option<Vec<ManifestAttribute>> {
    let attribute = |a: &Attribute| ManifestAttribute {
        key: a.key.clone(),
        value: a.value.clone(),
    };
    some(list.iter().map(attribute).collect())
}

fn expose(expose: &ServiceExpose) -> ManifestExpose {
    ManifestExpose {
        port: expose.port.into(),
        external_port: expose.external_port.into(),
        proto: match expose.proto {
            Proto::Tcp => "TCP".to_owned(),
            Proto::Udp => "UDP".to_owned(),
        },
        service: expose.service.clone(),
        global: expose.global,
        hosts: listed(expose.hosts.as_ref()),
        http_options: http_options(&expose.http_options),
        ip: expose.ip.clone(),
        endpoint_sequence_number: expose.endpoint_sequence_number,
    }
}

fn http_options(options: &HttpOptions) -> ManifestHttpOptions {
    ManifestHttpOptions {
        max_body_size: options.max_body_size,
        read_timeout: options.read_timeout,
        send_timeout: options.send_timeout,
        next_tries: options.next_tries,
        next_timeout: options.next_timeout,
        next_cases: listed(options.next_cases.as_ref()),
    }
}

fn params(params: &ServiceParams) -> ManifestServiceParams {
    let mounts = params.storage.iter().flatten().map(|mount| ManifestMount {
        name: mount.name.clone(),
        mount: mount.mount.clone(),
        read_only: mount.read_only,
    });
    ManifestServiceParams {
        storage: some(mounts.collect()),
        permissions: params
            .permissions
            .as_ref()
            .map(|permissions| ManifestPermissions {
                read: listed(permissions.read.as_ref()),
            }),
    }
}

fn scheduler_params(params: &SchedulerParams) -> ManifestSchedulerParams {
    ManifestSchedulerParams {
        runtime_class: params.runtime_class.clone(),
        resources: params
            .resources
            .as_ref()
            .map(|resources| ManifestSchedulerResources {
                gpu: resources.gpu.as_ref().map(|gpu| ManifestSchedulerGpu {
                    vendor: gpu.vendor.clone(),
                    model: gpu.model.clone(),
                    memory_size: gpu.memory_size.clone(),
                    interface: gpu.interface.clone(),
                }),
            }),
    }
}

/// Returns `None` for an empty list, so that the encoding is the same as in the Go provider.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn listed(list: Option<&Vec<String>>) -> Option<Vec<String>> {
    list.filter(|list| !list.is_empty()).cloned()
}
