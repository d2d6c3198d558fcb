use super::*;
use crate::manifest::HttpOptions;
use crate::types::Resources;

fn expose(port: u16, global: bool) -> ServiceExpose {
    ServiceExpose {
        global,
        ..ServiceExpose::new(port)
    }
}

fn service(name: &str) -> Service {
    Service {
        expose: vec![expose(80, true)],
        ..Service::new(
            name,
            "nginx",
            Resources {
                id: 1,
                ..Resources::default()
            },
        )
    }
}

fn group(name: &str, services: Vec<Service>) -> Group {
    Group::new(name, services)
}

fn fault(groups: Vec<Group>) -> StructureFault {
    match validate(&Manifest { groups }).unwrap_err() {
        ManifestError::Structure { fault, .. } => fault,
        other => panic!("{other}"),
    }
}

fn fault_of(change: impl FnOnce(&mut Service)) -> StructureFault {
    let mut service = service("web");
    change(&mut service);
    fault(vec![group("west", vec![service])])
}

#[test]
fn a_small_manifest_is_valid() {
    let groups = vec![group("west", vec![service("a"), service("b-1")])];
    assert_eq!(validate(&Manifest { groups }), Ok(()));
}

#[test]
fn groups_and_services_are_present_unique_and_sorted() {
    use StructureFault as F;
    assert_eq!(fault(vec![]), F::NoGroups);
    assert_eq!(fault(vec![group("west", vec![])]), F::NoServices);
    let twice = vec![
        group("west", vec![service("a")]),
        group("west", vec![service("a")]),
    ];
    assert_eq!(fault(twice), F::DuplicateGroup);
    let unsorted = fault(vec![group("west", vec![service("b"), service("a")])]);
    assert!(matches!(unsorted, F::ServicesUnsorted { name, before } if name == "a" && before == "b"));
    assert_eq!(
        fault(vec![group("west", vec![service("a"), service("a")])]),
        F::DuplicateService
    );
}

#[test]
fn services_have_a_dns_name_an_image_and_an_id() {
    for bad in ["", "Web", "1web", "web-", "-web", "we.b", "wéb", &"w".repeat(64)] {
        let fault = fault_of(|s| s.name = bad.to_owned());
        assert!(matches!(fault, StructureFault::ServiceName { .. }), "{bad}");
    }
    assert!(is_service_name(&"w".repeat(63)));
    assert_eq!(fault_of(|s| s.image.clear()), StructureFault::NoImage);
    let fault = fault_of(|s| s.image = "NGINX:latest:oops".to_owned());
    assert!(matches!(fault, StructureFault::Image { .. }), "{fault:?}");
    assert_eq!(fault_of(|s| s.resources.id = 0), StructureFault::NoResourceId);
}

#[test]
fn variables_have_names_kubernetes_takes() {
    for bad in ["", "=x", "1A=x", "A B=x", ".=x", "..A=x", "Ä=x"] {
        let fault = fault_of(|s| s.env = Some(vec!["OK=1".to_owned(), bad.to_owned()]));
        assert!(matches!(fault, StructureFault::EnvName { .. }), "{bad}");
    }
    for good in ["A", "_a.b-c", "-x", "..".trim_end_matches('.')] {
        assert_eq!(is_env_name(good), !good.is_empty(), "{good}");
    }
}

#[test]
fn exposes_are_sorted_and_have_a_port() {
    assert_eq!(
        fault_of(|s| s.expose = vec![expose(0, true)]),
        StructureFault::NoPort
    );
    let unsorted = [
        vec![expose(81, true), expose(80, true)],
        vec![expose(80, false), expose(80, true)],
    ];
    for exposes in unsorted {
        assert_eq!(fault_of(|s| s.expose = exposes), StructureFault::ExposesUnsorted);
    }
}

#[test]
fn proxy_options_are_limited_to_the_values_of_an_sdl() {
    let fault_with = |change: fn(&mut HttpOptions)| fault_of(|s| change(&mut s.expose[0].http_options));
    let cases = |cases: &[&str]| {
        let cases: Vec<String> = cases.iter().map(|case| (*case).to_owned()).collect();
        let mut service = service("web");
        service.expose[0].http_options.next_cases = Some(cases);
        validate(&Manifest {
            groups: vec![group("west", vec![service])],
        })
    };
    for hostile in [
        "error;",
        "error timeout",
        "http_500",
        "",
        "ERROR",
        "error\n",
        "error;} location /x {",
        "5000",
    ] {
        let refused = cases(&["error", hostile]).unwrap_err();
        assert!(
            matches!(&refused, ManifestError::Structure { at, fault: StructureFault::NextCase { .. } }
                if at == "west.web.expose[0].httpOptions"),
            "{hostile:?}: {refused}"
        );
    }
    for good in [&[][..], &["off"], &NEXT_CASES[..9]] {
        assert_eq!(cases(good), Ok(()), "{good:?}");
    }
    for odd in [&["error", "off"][..], &["error"; 11]] {
        let refused = cases(odd).unwrap_err();
        assert!(refused.to_string().contains("or only off"), "{refused}");
    }
    let at_the_limit = fault_of(|s| {
        let options = &mut s.expose[0].http_options;
        (options.max_body_size, options.proxy_buffer_size) = (MAX_BODY, MAX_PROXY_BUFFER);
        (options.read_timeout, options.send_timeout) = (MAX_PROXY_TIMEOUT, MAX_PROXY_TIMEOUT + 1);
    });
    let beyond = StructureFault::HttpOption {
        option: "sendTimeout".to_owned(),
        value: MAX_PROXY_TIMEOUT + 1,
        limit: MAX_PROXY_TIMEOUT,
    };
    assert_eq!(at_the_limit, beyond);
    let is_beyond = |fault| matches!(fault, StructureFault::HttpOption { .. });
    assert!(is_beyond(fault_with(|o| o.max_body_size = MAX_BODY + 1)));
    assert!(is_beyond(fault_with(|o| o.proxy_buffer_size = u32::MAX)));
    assert!(is_beyond(fault_with(|o| o.read_timeout = MAX_PROXY_TIMEOUT + 1)));
}

#[test]
fn hostnames_are_dns_names_and_unique_in_the_whole_manifest() {
    for bad in [
        "",
        "Web.example.com",
        "a..b",
        "-a.com",
        "a-.com",
        "a_b.com",
        "*.com",
        "a.*.com",
        "*a.b.com",
        "*.*.b.com",
        "wc--any.b.com",
        &"a".repeat(254),
    ] {
        let fault = fault_of(|s| s.expose[0].hosts = Some(vec![bad.to_owned()]));
        assert!(matches!(fault, StructureFault::Hostname { .. }), "{bad}");
    }
    let mut wild = service("web");
    wild.expose[0].hosts = Some(vec!["*.a.com".to_owned(), "b.a.com".to_owned()]);
    let groups = vec![group("east", vec![wild])];
    assert_eq!(validate(&Manifest { groups }), Ok(()));
    let with_host = |name: &str| {
        let mut service = service(name);
        service.expose[0].hosts = Some(vec!["a.com".to_owned()]);
        service
    };
    let groups = vec![
        group("east", vec![with_host("a")]),
        group("west", vec![with_host("a")]),
    ];
    assert!(matches!(fault(groups), StructureFault::DuplicateHostname { host } if host == "a.com"));
}

#[test]
fn something_is_reachable_from_outside() {
    assert_eq!(
        fault_of(|s| s.expose = vec![expose(80, false)]),
        StructureFault::NothingGlobal
    );
}

#[test]
fn messages_contain_problem_location_and_remedy() {
    let mut service = service("web");
    service.expose[0].port = 0;
    let groups = vec![group("west", vec![service])];
    let error = validate(&Manifest { groups }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid manifest: west.web.expose[0]: the port is 0; use 1 to 65535"
    );
}
