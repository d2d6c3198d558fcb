//! Random deployments for property tests.

use crate::objects::sdl;
use akash_provider_core::cluster::{HostnameDeclaration, WorkloadSpec};
use akash_provider_core::manifest::{
    Credentials, HttpOptions, Permissions, Proto, SchedulerGpu, SchedulerParams, SchedulerResources, Service,
    ServiceExpose, ServiceParams, StorageParams, Tee,
};
use akash_provider_core::types::{Attribute, Endpoint, EndpointKind, Storage};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

/// Generates a list of texts: missing, empty or with elements.
fn texts() -> impl Strategy<Value = Option<Vec<String>>> {
    option::of(vec("[ -~]{0,8}|ä🦀", 0..3))
}

/// Generates `None` or a list with elements. Empty lists are excluded, because the JSON of Akash manifests
/// omits them.
fn full_texts() -> impl Strategy<Value = Option<Vec<String>>> {
    option::of(vec("[ -~]{0,8}", 1..3))
}

fn exposes() -> impl Strategy<Value = Vec<ServiceExpose>> {
    let one = (
        any::<u16>(),
        any::<u16>(),
        any::<bool>(),
        any::<bool>(),
        texts(),
        "[a-z]{0,3}",
        0..3_u32,
        options(),
    );
    let one = one.prop_map(
        |(port, external_port, udp, global, hosts, ip, number, http_options)| ServiceExpose {
            port,
            external_port,
            proto: if udp { Proto::Udp } else { Proto::Tcp },
            service: if global { String::new() } else { ip.clone() },
            global,
            hosts,
            http_options,
            ip: if global { ip } else { String::new() },
            endpoint_sequence_number: number,
        },
    );
    vec(one, 0..4)
}

fn options() -> impl Strategy<Value = HttpOptions> {
    (any::<u32>(), 0..9_u32, full_texts(), 0..2_u32).prop_map(
        |(max_body_size, next_timeout, next_cases, proxy_buffer_size)| HttpOptions {
            max_body_size,
            next_timeout,
            next_cases,
            proxy_buffer_size,
            ..HttpOptions::default()
        },
    )
}

fn login() -> impl Strategy<Value = Option<Credentials>> {
    option::of(
        ("[a-z.]{0,9}", "[ -~]{0,9}").prop_map(|(host, password)| Credentials {
            host,
            password,
            ..Credentials::default()
        }),
    )
}

fn params() -> impl Strategy<Value = Option<ServiceParams>> {
    let mount = ("[a-z]{1,4}", any::<bool>()).prop_map(|(name, read_only)| StorageParams {
        mount: format!("/{name}"),
        name,
        read_only,
    });
    let tee = option::of(any::<bool>().prop_map(|attestation| Tee {
        kind: "cpu".to_owned(),
        attestation,
    }));
    let permissions = option::of(full_texts().prop_map(|read| Permissions { read }));
    option::of(
        (option::of(vec(mount, 0..3)), login(), permissions, tee).prop_map(
            |(storage, credentials, permissions, tee)| ServiceParams {
                storage,
                credentials,
                permissions,
                tee,
            },
        ),
    )
}

fn scheduler() -> impl Strategy<Value = Option<SchedulerParams>> {
    let gpu = "[a-z0-9]{0,5}".prop_map(|model| SchedulerGpu {
        vendor: "nvidia".to_owned(),
        model,
        ..SchedulerGpu::default()
    });
    let resources = option::of(option::of(gpu).prop_map(|gpu| SchedulerResources { gpu }));
    option::of(
        ("|nvidia", resources).prop_map(|(runtime_class, resources)| SchedulerParams {
            runtime_class,
            resources,
        }),
    )
}

fn service() -> impl Strategy<Value = Service> {
    let storage = ("[a-z]{1,4}", any::<u64>(), any::<bool>()).prop_map(|(name, bytes, persistent)| Storage {
        name,
        bytes,
        attributes: vec![Attribute::new("persistent", persistent.to_string())],
    });
    let endpoint = (0..3_u32, 0..3_u32).prop_map(|(kind, sequence_number)| {
        Endpoint::new(EndpointKind::try_from(kind).unwrap(), sequence_number)
    });
    let resources = (
        1..4_u32,
        any::<u32>(),
        any::<u64>(),
        vec(storage, 0..3),
        vec(endpoint, 0..3),
    );
    let texts = (texts(), texts(), texts());
    (
        "[a-z]{1,5}",
        texts,
        resources,
        any::<u32>(),
        exposes(),
        params(),
        login(),
    )
        .prop_map(
            |(
                name,
                (command, args, env),
                (id, cpu, memory, storage, endpoints),
                count,
                expose,
                params,
                credentials,
            )| {
                let mut service = sdl::web(|_| {}).group.services[0].clone();
                service.resources.id = id;
                service.resources.cpu.units = cpu.into();
                service.resources.memory.bytes = memory;
                service.resources.storage = storage;
                service.resources.endpoints = endpoints;
                Service {
                    name,
                    command,
                    args,
                    env,
                    count,
                    expose,
                    params,
                    credentials,
                    ..service
                }
            },
        )
}

/// Deployments with unusual values.
pub(crate) fn deployments() -> impl Strategy<Value = WorkloadSpec> {
    let host = ("[a-z]{1,9}", any::<u16>()).prop_map(|(name, external_port)| {
        HostnameDeclaration::new(format!("{name}.example.com"), name, external_port)
    });
    let params = proptest::collection::btree_map(0..5_u32, scheduler(), 0..4);
    (vec(service(), 1..4), params, vec(host, 0..3), any::<u64>()).prop_map(
        |(services, params, hostnames, epoch)| {
            let mut deployment = sdl::web(|_| {});
            Arc::make_mut(&mut deployment.group).services = services;
            WorkloadSpec {
                params: Arc::new(params),
                hostnames,
                epoch,
                ..deployment
            }
        },
    )
}
