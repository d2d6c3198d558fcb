//! Manifests that Kubernetes would reject: the provider refuses them before it creates any object. The error names the
//! field to fix.

use crate::objects::sdl;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{
    Credentials, Proto, SchedulerParams, Service, ServiceExpose, ServiceParams, StorageParams, Tee,
};
use akash_provider_core::types::{Attribute, Storage};
use akash_provider_kube_model::objects::{self, MAX_PORTS, MAX_REPLICAS, RenderError};
use std::sync::Arc;

type Change<'a> = &'a dyn Fn(&mut Service);

fn check(deployment: &WorkloadSpec) -> Result<(), RenderError> {
    objects::check(deployment, &sdl::settings())
}

/// Changes a service and returns the refused field and the reason.
fn refused(change: impl FnOnce(&mut Service)) -> (String, String) {
    let refusal = check(&sdl::web(change)).unwrap_err();
    assert!(refusal.to_string().contains(&refusal.field), "{refusal}");
    assert!(refusal.to_string().len() < 500, "{refusal}");
    (refusal.field, refusal.problem)
}

fn accepted(change: impl FnOnce(&mut Service)) {
    check(&sdl::web(change)).unwrap();
}

fn expose(port: u16, external: u16, proto: Proto, global: bool) -> ServiceExpose {
    ServiceExpose {
        external_port: external,
        proto,
        global,
        http_options: akash_provider_core::manifest::HttpOptions::default(),
        ..ServiceExpose::new(port)
    }
}

fn volume(name: &str, class: &str, persistent: bool) -> Storage {
    Storage {
        name: name.to_owned(),
        bytes: 1 << 30,
        attributes: vec![
            Attribute::new("class", class),
            Attribute::new("persistent", persistent.to_string()),
        ],
    }
}

fn mounted(service: &mut Service, mounts: &[(&str, &str)]) {
    let mounts = mounts.iter().map(|(name, mount)| StorageParams {
        name: (*name).to_owned(),
        mount: (*mount).to_owned(),
        read_only: false,
    });
    service.params = Some(ServiceParams {
        storage: Some(mounts.collect()),
        ..ServiceParams::default()
    });
}

#[test]
fn image_must_be_a_valid_reference() {
    for bad in ["Nginx", "nginx:", "https://nginx", "nginx:1 ", ""] {
        let (field, _) = refused(|service| service.image = bad.to_owned());
        assert_eq!(field, "image", "{bad}");
    }
}

#[test]
fn names_fit_all_objects_derived_from_them() {
    let name = |length: usize| "a".repeat(length);
    let node_port = |service: &mut Service| service.expose.push(expose(22, 2222, Proto::Tcp, true));
    let leased = |service: &mut Service| {
        let mut leased = expose(22, 2222, Proto::Tcp, true);
        leased.ip = "front".to_owned();
        service.expose.push(leased);
    };
    let persistent = |service: &mut Service| service.resources.storage.push(volume("d", "beta2", true));
    let cases: [(usize, Change<'_>); 4] = [(63, &|_| {}), (60, &node_port), (51, &leased), (52, &persistent)];
    for (limit, with) in cases {
        accepted(|service| {
            service.name = name(limit);
            with(service);
        });
        let (field, problem) = refused(|service| {
            service.name = name(limit + 1);
            with(service);
        });
        assert_eq!(field, "name");
        assert!(limit == 63 || problem.contains(&limit.to_string()), "{problem}");
    }
    for bad in ["", "-a", "a-", "A", "1a", "a.b"] {
        assert_eq!(
            refused(|service| service.name = bad.to_owned()).0,
            "name",
            "{bad}"
        );
    }
}

#[test]
fn services_with_conflicting_object_names_are_refused() {
    let two = |second: &str, change: &dyn Fn(&mut Service)| {
        let mut deployment = sdl::web(|service| service.expose.push(expose(22, 2222, Proto::Tcp, true)));
        let group = Arc::make_mut(&mut deployment.group);
        let mut other = group.services[0].clone();
        other.name = second.to_owned();
        change(&mut other);
        group.services.push(other);
        check(&deployment)
    };
    assert_eq!(two("web", &|_| {}).unwrap_err().field, "name");
    let refusal = two("web-np", &|_| {}).unwrap_err();
    assert_eq!(
        (refusal.service.as_str(), refusal.field.as_str()),
        ("web-np", "name")
    );
    assert!(refusal.problem.contains("`web-np`"), "{refusal}");
    two("web-np", &|service| service.expose.clear()).unwrap();
    two("web-2", &|_| {}).unwrap();
}

#[test]
fn port_maps_to_one_target() {
    let both = |a, b| move |service: &mut Service| service.expose = vec![a, b];
    let tcp = |port, external, global| expose(port, external, Proto::Tcp, global);
    for (a, b) in [
        (tcp(1000, 80, true), tcp(2000, 80, true)),
        (tcp(1000, 80, true), tcp(2000, 80, false)),
        (tcp(1000, 90, true), tcp(2000, 90, true)),
    ] {
        assert_eq!(refused(both(a, b)).0, "expose[1].external_port");
    }
    for (a, b) in [
        (tcp(1000, 90, true), tcp(2000, 90, false)),
        (tcp(1000, 90, false), tcp(1000, 90, false)),
        (tcp(1000, 90, true), expose(2000, 90, Proto::Udp, true)),
    ] {
        accepted(both(a, b));
    }
    let leased = |ip: &str, port| ServiceExpose {
        ip: ip.to_owned(),
        ..tcp(port, 90, true)
    };
    assert_eq!(
        refused(both(leased("a", 1000), leased("a", 2000))).0,
        "expose[1].external_port"
    );
    assert_eq!(
        refused(both(leased("a", 1000), leased("b", 1000))).0,
        "expose[1].ip"
    );
}

#[test]
fn counts_have_a_maximum() {
    accepted(|service| service.count = MAX_REPLICAS);
    assert_eq!(refused(|service| service.count = MAX_REPLICAS + 1).0, "count");
    let ports = |count: usize| {
        let ports = 1..=u16::try_from(count).unwrap();
        ports
            .map(|port| expose(port, port, Proto::Tcp, false))
            .collect::<Vec<_>>()
    };
    accepted(|service| service.expose = ports(MAX_PORTS));
    assert_eq!(
        refused(|service| service.expose = ports(MAX_PORTS + 1)).0,
        "expose"
    );
}

#[test]
fn sizes_are_limited_to_range_of_kubernetes() {
    let max = u64::try_from(i64::MAX).unwrap();
    accepted(|service| service.resources.memory.bytes = max);
    assert_eq!(
        refused(|service| service.resources.memory.bytes = max + 1).0,
        "resources.memory"
    );
    accepted(|service| service.resources.cpu.units = u32::MAX.into());
    assert_eq!(
        refused(|service| service.resources.cpu.units = u64::from(u32::MAX) + 1).0,
        "resources.cpu"
    );
    assert_eq!(
        refused(|service| service.resources.cpu.units = u64::MAX).0,
        "resources.cpu"
    );
    assert_eq!(
        refused(|service| service.resources.storage = vec![
            volume("a", "", false),
            Storage {
                bytes: max,
                ..volume("b", "", false)
            }
        ])
        .0,
        "resources.storage",
        "together"
    );
    assert_eq!(
        refused(|service| service.resources.storage = vec![Storage {
            bytes: max,
            ..volume("a", "ram", false)
        }])
        .0,
        "resources.memory",
        "including volumes in memory"
    );
    assert_eq!(
        refused(|service| service.resources.storage = vec![Storage {
            bytes: max + 1,
            ..volume("a", "beta2", true)
        }])
        .0,
        "resources.storage[0].size"
    );
}

#[test]
fn volume_names_and_classes_must_be_valid() {
    let with = |volumes: Vec<Storage>| move |service: &mut Service| service.resources.storage = volumes;
    let long = "d".repeat(63 - "web-".len());
    accepted(with(vec![volume(&long, "beta2", true)]));
    for (volumes, field) in [
        (
            vec![volume(&format!("{long}d"), "beta2", true)],
            "resources.storage[0].name",
        ),
        (
            vec![volume("My_Data", "beta2", true)],
            "resources.storage[0].name",
        ),
        (vec![volume("My_Data", "ram", false)], "resources.storage[0].name"),
        (
            vec![volume("a", "beta2", true), volume("a", "beta2", true)],
            "resources.storage[1].name",
        ),
        (vec![volume("a", "Beta 2", true)], "resources.storage[0].class"),
        (vec![volume("a", "ram", true)], "resources.storage[0].class"),
        (
            vec![volume("a", &"b".repeat(37), true)],
            "resources.storage[0].class",
        ),
    ] {
        assert_eq!(refused(with(volumes)).0, field);
    }
    accepted(with(vec![volume("a", &"b".repeat(36), true)]));
    accepted(with(vec![volume("My_Scratch", "beta2", false)]));
}

#[test]
fn mount_paths_must_be_valid() {
    let with = |mounts: &'static [(&'static str, &'static str)]| {
        move |service: &mut Service| {
            service.resources.storage.push(volume("data", "beta2", true));
            service.resources.storage.push(volume("shm", "ram", false));
            mounted(service, mounts);
        }
    };
    accepted(with(&[("data", "/data"), ("shm", "/data/cache")]));
    accepted(with(&[("data", "/data"), ("data", "/more")]));
    let cases: [(&'static [(&'static str, &'static str)], &str); 10] = [
        (&[("default", "/data")], "params.storage[0].name"),
        (&[("nothing", "/data")], "params.storage[0].name"),
        (&[("data", "data")], "params.storage[0].mount"),
        (&[("data", "")], "params.storage[0].mount"),
        (&[("data", "/")], "params.storage[0].mount"),
        (&[("data", "//")], "params.storage[0].mount"),
        (&[("data", "/a/../..")], "params.storage[0].mount"),
        (&[("data", "/a:b")], "params.storage[0].mount"),
        (&[("data", "/a"), ("shm", "/a")], "params.storage[1].mount"),
        (&[("data", "/a"), ("shm", "//a/./")], "params.storage[1].mount"),
    ];
    for (mounts, field) in cases {
        assert_eq!(refused(with(mounts)).0, field, "{mounts:?}");
    }
}

#[test]
fn commands_and_variables_must_be_valid() {
    let long = "a".repeat(128 * 1024);
    assert_eq!(
        refused(|service| service.env = Some(vec!["A=1".to_owned(), format!("B={long}")])).0,
        "env[1]"
    );
    assert_eq!(
        refused(|service| service.env = Some(vec!["=1".to_owned()])).0,
        "env[0]"
    );
    assert_eq!(
        refused(|service| service.env = Some(vec!["A=\0".to_owned()])).0,
        "env[0]"
    );
    assert_eq!(
        refused(|service| service.args = Some(vec![long.clone()])).0,
        "args[0]"
    );
    assert_eq!(
        refused(|service| service.command = Some(vec!["sh".to_owned(), "\0".to_owned()])).0,
        "command[1]"
    );
}

#[test]
fn object_size_is_limited_to_one_mebibyte() {
    let texts = |count: usize| {
        Some(
            (0..count)
                .map(|n| format!("V{n}={}", "a".repeat(100_000)))
                .collect(),
        )
    };
    accepted(|service| service.env = texts(9));
    assert_eq!(refused(|service| service.env = texts(11)).0, "env");
    let mut deployment = sdl::web(|service| service.env = texts(9));
    let group = Arc::make_mut(&mut deployment.group);
    let other = Service {
        name: "web2".to_owned(),
        ..group.services[0].clone()
    };
    group.services.push(other);
    assert_eq!(
        check(&deployment).unwrap_err().field,
        "manifest",
        "each object is small enough, the record is too large"
    );
}

#[test]
fn gpu_needs_known_vendor_and_model_valid_as_label() {
    let with = |key: &'static str| {
        move |service: &mut Service| {
            service.resources.gpu.units = 1;
            service.resources.gpu.attributes = vec![Attribute::new(key, "true")];
        }
    };
    accepted(with("vendor/nvidia/model/*"));
    accepted(with("vendor/AMD/model/mi300"));
    for bad in ["vendor/intel/model/max", "vendor", "", "model/a100"] {
        assert_eq!(refused(with(bad)).0, "resources.gpu.attributes", "{bad}");
    }
    let params = |vendor: &str, model: &str, class: &str| {
        let text = serde_json::json!({
            "runtime_class": class,
            "resources": { "gpu": { "vendor": vendor, "model": model } },
        });
        let mut deployment = sdl::web(|service| service.resources.gpu.units = 1);
        let params: SchedulerParams = serde_json::from_value(text).unwrap();
        deployment.params = Arc::new([(1, Some(params))].into());
        check(&deployment).map_err(|refusal| refusal.field)
    };
    assert_eq!(params("nvidia", "a100", "nvidia"), Ok(()));
    assert_eq!(
        params("matrox", "g200", ""),
        Err("resources.gpu.attributes".to_owned())
    );
    assert_eq!(params("nvidia", "a 100", ""), Err("resources.gpu".to_owned()));
    assert_eq!(
        params("nvidia", "a100", "No Class"),
        Err("scheduler_params.runtime_class".to_owned())
    );
}

#[test]
fn login_needs_a_registry() {
    let login = |host: &str| Credentials {
        host: host.to_owned(),
        ..Credentials::default()
    };
    assert_eq!(
        refused(|service| service.credentials = Some(login(" "))).0,
        "credentials.host"
    );
    accepted(|service| service.credentials = Some(login("ghcr.io")));
    let password = |length: usize| Credentials {
        password: "a".repeat(length),
        ..login("ghcr.io")
    };
    accepted(|service| service.credentials = Some(password(64 * 1024)));
    assert_eq!(
        refused(|service| service.credentials = Some(password(64 * 1024 + 1))).0,
        "credentials"
    );
}

#[test]
fn unsupported_protection_is_refused() {
    let tee = Tee {
        kind: "cpu".to_owned(),
        attestation: true,
    };
    let params = ServiceParams {
        tee: Some(tee),
        ..ServiceParams::default()
    };
    assert_eq!(refused(|service| service.params = Some(params)).0, "params.tee");
}
