use super::*;
use crate::manifest::{Group, Manifest, Permissions, StorageParams, Tee, validate};
use crate::types::Storage;

fn expose() -> ServiceExpose {
    ServiceExpose {
        global: true,
        ..ServiceExpose::new(80)
    }
}

fn manifest() -> Manifest {
    let service = Service {
        expose: vec![expose()],
        params: Some(ServiceParams::default()),
        credentials: Some(Credentials::default()),
        ..Service::new(
            "web",
            "nginx",
            Resources {
                id: 1,
                ..Resources::default()
            },
        )
    };
    let name = "west".to_owned();
    Manifest {
        groups: vec![Group::new(name, vec![service])],
    }
}

fn hosts(from: usize, count: usize) -> Option<Vec<String>> {
    Some(
        (from..from + count)
            .map(|n| format!("h{n}.example.com"))
            .collect(),
    )
}

fn fill(limit: &Limit, manifest: &mut Manifest, length: usize) {
    if *limit == GROUPS {
        let group = manifest.groups[0].clone();
        let named = |n| Group {
            name: format!("g{n}"),
            ..group.clone()
        };
        manifest.groups = (0..length).map(named).collect();
        return;
    }
    let group = &mut manifest.groups[0];
    if *limit == SERVICES {
        let service = group.services[0].clone();
        let named = |n| Service {
            name: format!("s{n:03}"),
            ..service.clone()
        };
        group.services = (0..length).map(named).collect();
        return;
    }
    if *limit == GROUP_NAME {
        group.name = "a".repeat(length);
        return;
    }
    match limit.unit {
        "entries" => fill_list(limit.field, &mut group.services[0], length),
        _ => fill_text(limit.field, &mut group.services[0], "a".repeat(length)),
    }
}

fn mount(mount: String) -> StorageParams {
    StorageParams {
        name: "a".to_owned(),
        mount,
        read_only: false,
    }
}

fn fill_list(field: &str, service: &mut Service, length: usize) {
    let texts = || Some(vec!["a".to_owned(); length]);
    let params = service.params.as_mut().unwrap();
    match field {
        "expose of a service" => service.expose = vec![expose(); length],
        "hosts of an expose" => service.expose[0].hosts = hosts(0, length),
        "hosts of a manifest" => {
            let each = |n: usize| ServiceExpose {
                hosts: hosts(n * 50, 50.min(length - n * 50)),
                ..expose()
            };
            service.expose = (0..length.div_ceil(50)).map(each).collect();
        }
        "env of a service" => service.env = texts(),
        "command of a service" => service.command = texts(),
        "args of a service" => service.args = texts(),
        "resources.storage of a service" => service.resources.storage = vec![Storage::default(); length],
        "params.storage of a service" => params.storage = Some(vec![mount("/a".to_owned()); length]),
        "params.permissions.read of a service" => params.permissions = Some(Permissions { read: texts() }),
        "resources.endpoints of a service" => {
            service.resources.endpoints = vec![crate::types::Endpoint::default(); length];
        }
        "attributes of a resource" => {
            service.resources.gpu.attributes = vec![Attribute::new("a", "true"); length];
        }
        other => panic!("no case for `{other}`"),
    }
}

fn fill_text(field: &str, service: &mut Service, text: String) {
    let params = service.params.as_mut().unwrap();
    let login = service.credentials.as_mut().unwrap();
    match field {
        "image of a service" => service.image = text.replacen("aaaaaaaaaaaaa", "nginx@sha256:", 1),
        "each env of a service" => service.env = Some(vec![text]),
        "each command of a service" => service.command = Some(vec![text]),
        "each args of a service" => service.args = Some(vec![text]),
        "service of an expose" => service.expose[0].service = text,
        "ip of an expose" => service.expose[0].ip = text,
        "name of a volume" => {
            service.resources.storage = vec![Storage {
                name: text,
                ..Storage::default()
            }];
        }
        "mount of a volume" => params.storage = Some(vec![mount(text)]),
        "key and value of an attribute" => {
            service.resources.cpu.attributes = vec![Attribute::new("a", text)];
        }
        "params.tee.type of a service" => {
            params.tee = Some(Tee {
                kind: text,
                attestation: false,
            })
        }
        "credentials.host of a service" => login.host = text,
        "credentials.email of a service" => login.email = text,
        "credentials.username of a service" => login.username = text,
        "credentials.password of a service" => login.password = text,
        other => panic!("no case for `{other}`"),
    }
}

#[test]
fn every_list_and_text_is_accepted_up_to_its_limit() {
    for limit in &LIMITS {
        let mut most = manifest();
        fill(limit, &mut most, limit.max);
        assert_eq!(validate(&most), Ok(()), "{}", limit.field);
        let mut more = manifest();
        fill(limit, &mut more, limit.max + 1);
        let error = validate(&more).unwrap_err();
        let ManifestError::Structure { fault, .. } = &error else {
            panic!("{error}")
        };
        let is_this = matches!(fault, StructureFault::Limit { field, limit: max, .. }
            if field == limit.field && *max == limit.max);
        assert!(is_this, "{}: {error}", limit.field);
    }
}

#[test]
fn twenty_thousand_hosts_are_refused_with_location_and_number() {
    let mut many = manifest();
    many.groups[0].services[0].expose[0].hosts = hosts(0, 20_000);
    assert_eq!(
        validate(&many).unwrap_err().to_string(),
        "invalid manifest: west.web.expose[0]: hosts of an expose: 20000 entries, at most 100 are accepted; shorten it"
    );
    // Spread over several exposes, each within its limit.
    let each = |n: usize| ServiceExpose {
        hosts: hosts(n * 100, 100),
        ..expose()
    };
    many.groups[0].services[0].expose = (0..200).map(each).collect();
    assert_eq!(
        validate(&many).unwrap_err().to_string(),
        "invalid manifest: west.web.expose[5]: hosts of a manifest: 501 entries, at most 500 are accepted; shorten it"
    );
}

#[test]
fn the_documentation_has_every_limit() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sdl.md");
    let page = std::fs::read_to_string(FILE).unwrap();
    for limit in &LIMITS {
        let row = format!(
            "| `{}` | {} {} | {} |",
            limit.field, limit.max, limit.unit, limit.source
        );
        assert!(page.contains(&row), "docs/sdl.md lacks: {row}");
    }
}
