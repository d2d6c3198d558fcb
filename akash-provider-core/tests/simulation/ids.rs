//! Accounts, groups and manifests of the simulation.

use crate::capacity::CLASSES;
use akash_provider_core::manifest::{self, Manifest};
use akash_provider_core::types::{
    Address, Attribute, Cpu, Dec, DecCoin, DeploymentId, Endpoint, EndpointKind, Gpu, GroupSpec, Memory,
    PlacementRequirements, ResourceUnit, Resources, SignedBy, Storage,
};
use std::sync::{Arc, LazyLock};

fn account(n: u8) -> Address {
    Address::from_bytes(&[n; 20]).unwrap()
}

pub(crate) static PROVIDER: LazyLock<Address> = LazyLock::new(|| account(7));
pub(crate) static COMPETITOR: LazyLock<Address> = LazyLock::new(|| account(8));
pub(crate) static AUDITOR: LazyLock<Address> = LazyLock::new(|| account(9));
pub(crate) static THIRD_PARTY: LazyLock<Address> = LazyLock::new(|| account(10));
pub(crate) static TENANTS: LazyLock<[Address; 3]> = LazyLock::new(|| [account(1), account(2), account(3)]);

/// Hostnames in manifests: few, so that manifests often request the same hostname.
pub(crate) const NAMES: [&str; 4] = ["a.example", "b.example", "c.example", "d.example"];
const MI: u64 = 1 << 20;

pub(crate) fn deployment_id(tenant: usize, dseq: u64) -> DeploymentId {
    DeploymentId::new(TENANTS[tenant % TENANTS.len()].clone(), dseq)
}

pub(crate) fn uact(amount: i64) -> DecCoin {
    DecCoin::new(&"uact".into(), Dec::from_int(amount))
}

pub(crate) fn region() -> Attribute {
    Attribute::new("region", "here")
}

/// Properties of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) cpu: u64,
    /// Memory and volume size of each replica, in MiB.
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    /// Additional volume: storage class, and size in GiB.
    pub(crate) volume: Option<(&'static str, u64)>,
    pub(crate) count: u32,
    /// Maximum price of one replica per block.
    pub(crate) price: i64,
    pub(crate) denom: &'static str,
    pub(crate) ingress: bool,
    pub(crate) audited: bool,
    /// GPUs per replica: number and model.
    pub(crate) gpu: Option<(u64, &'static str)>,
    /// Whether the group requests a leased IP address.
    pub(crate) address: bool,
    pub(crate) second_address: bool,
    /// Number of external ports that do not use a leased address.
    pub(crate) ports: u16,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            cpu: 200,
            memory: 128,
            disk: 512,
            volume: None,
            count: 1,
            price: 400,
            denom: "uact",
            ingress: false,
            audited: false,
            gpu: None,
            address: false,
            second_address: false,
            ports: 0,
        }
    }
}

/// GPU requests from which a history picks at random. Most entries request no GPU.
pub(crate) const GPUS: [Option<(u64, &str)>; 10] = [
    None,
    None,
    None,
    None,
    None,
    None,
    Some((1, "vendor/nvidia/model/a100")),
    Some((1, "vendor/nvidia/model/t4")),
    Some((1, "vendor/nvidia/model/*")),
    Some((2, "vendor/nvidia/model/*")),
];

/// Attributes of the provider under test and of its competitor.
pub(crate) fn attributes() -> Vec<Attribute> {
    let gpu = |model: &str| Attribute::new(format!("capabilities/gpu/vendor/nvidia/model/{model}"), "true");
    let volumes = |(set, (class, persistent)): (usize, (&str, &str))| {
        let of = |key: &str, value: &str| Attribute::new(format!("capabilities/storage/{set}/{key}"), value);
        [of("class", class), of("persistent", persistent)]
    };
    let classes = CLASSES.map(|class| (class, "true")).into_iter();
    let classes = classes.chain([(RAM, "false")]).enumerate();
    let hardware = classes.flat_map(volumes).chain([gpu("a100"), gpu("t4")]);
    [region()].into_iter().chain(hardware).collect()
}

pub(crate) const RAM: &str = "ram";

fn volumes(shape: Shape) -> Vec<Storage> {
    let own = Storage {
        name: "default".to_owned(),
        bytes: shape.disk * MI,
        ..Storage::default()
    };
    let besides = shape.volume.map(|(class, gibibytes)| Storage {
        name: "data".into(),
        bytes: gibibytes << 30,
        attributes: vec![
            Attribute::new("class", class),
            Attribute::new("persistent", (class != RAM).to_string()),
        ],
    });
    [own].into_iter().chain(besides).collect()
}

fn resources(shape: Shape) -> Resources {
    let endpoint = |kind, sequence_number| Endpoint::new(kind, sequence_number);
    let http = shape.ingress.then(|| endpoint(EndpointKind::SharedHttp, 0));
    // Each address serves one port.
    let ports = u16::from(shape.address) + u16::from(shape.second_address) + shape.ports;
    let ports = (0..ports).map(|_| endpoint(EndpointKind::RandomPort, 0));
    let first = shape.address.then(|| endpoint(EndpointKind::LeasedIp, 1));
    let second = shape.second_address.then(|| endpoint(EndpointKind::LeasedIp, 2));
    let endpoints = http.into_iter().chain(ports).chain(first).chain(second);
    let gpu = shape
        .gpu
        .map(|(units, kind)| Gpu::new(units, vec![Attribute::new(kind, "true")]));
    Resources {
        id: 1,
        cpu: Cpu {
            units: shape.cpu,
            ..Cpu::default()
        },
        memory: Memory {
            bytes: shape.memory * MI,
            ..Memory::default()
        },
        storage: volumes(shape),
        gpu: gpu.unwrap_or_default(),
        endpoints: endpoints.collect(),
    }
}

pub(crate) fn group_name(index: usize) -> String {
    format!("g{index}")
}

pub(crate) fn spec(index: usize, shape: Shape) -> GroupSpec {
    let signed = SignedBy {
        any_of: vec![AUDITOR.to_string()],
        ..SignedBy::default()
    };
    let requirements = PlacementRequirements {
        signed_by: if shape.audited {
            signed
        } else {
            SignedBy::default()
        },
        attributes: shape.audited.then(region).into_iter().collect(),
    };
    GroupSpec {
        name: group_name(index),
        requirements,
        resources: vec![ResourceUnit::new(
            resources(shape),
            shape.count,
            DecCoin::new(&shape.denom.into(), Dec::from_int(shape.price)),
        )],
    }
}

fn exposes(shape: Shape, names: Option<&Vec<String>>, address: &str) -> Vec<manifest::ServiceExpose> {
    let expose =
        |port: u16, address: Option<(&str, u32)>, hosts: Option<Vec<String>>| manifest::ServiceExpose {
            port,
            external_port: port,
            proto: manifest::Proto::Tcp,
            service: String::new(),
            global: true,
            hosts,
            http_options: manifest::HttpOptions::default(),
            ip: address.map_or("", |(name, _)| name).to_owned(),
            endpoint_sequence_number: address.map_or(0, |(_, number)| number),
        };
    let another = format!("{address}-b");
    let http = shape.ingress.then(|| expose(80, None, names.cloned()));
    let first = shape.address.then(|| expose(7000, Some((address, 1)), None));
    let second = shape
        .second_address
        .then(|| expose(7001, Some((&another, 2)), None));
    let ports = (0..shape.ports).map(|n| expose(9000 + n, None, None));
    http.into_iter().chain(first).chain(second).chain(ports).collect()
}

/// A value that must not appear in a recording.
pub(crate) const SECRET: &str = "known-to-the-tenant-alone";

/// Returns the manifest of a deployment with these groups. `names[i]` are the hostnames of group `i`.
pub(crate) fn manifest(
    id: &DeploymentId,
    shapes: &[Shape],
    names: &[Vec<String>],
    version: u64,
) -> Arc<Manifest> {
    let group = |(index, shape): (usize, &Shape)| {
        manifest::Group::new(
            group_name(index),
            vec![manifest::Service {
                env: Some(vec![format!("TOKEN={SECRET}-{}-{version}", id.dseq)]),
                count: shape.count,
                expose: exposes(*shape, names.get(index), &format!("addr-{}-{index}", id.dseq)),
                ..manifest::Service::new("web", format!("image:{version}"), resources(*shape))
            }],
        )
    };
    let groups = shapes.iter().enumerate().map(group).collect();
    Arc::new(Manifest { groups })
}

/// Returns a unique hash for a version of a manifest. The engine does not compute hashes.
pub(crate) fn version_hash(id: &DeploymentId, version: u64) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&id.dseq.to_be_bytes());
    hash[8..16].copy_from_slice(&version.to_be_bytes());
    hash
}

pub(crate) fn version_of(hash: &[u8; 32]) -> u64 {
    u64::from_be_bytes(hash[8..16].try_into().unwrap())
}
