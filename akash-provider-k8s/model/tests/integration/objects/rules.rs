//! One test for each rendering rule: an SDL, and all objects that are rendered from it.
//!
//! `BLESS_OBJECTS=1` rewrites the expected objects. Review the diff before a commit.

use crate::objects::sdl;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Credentials, SchedulerGpu, SchedulerParams, SchedulerResources};
use akash_provider_core::types::{Attribute, Storage};
use akash_provider_kube_model::objects::{self, LeaseObjects, PriorState};
use akash_provider_kube_model::settings::{IngressMode, Isolation, KubeSettings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/objects")
        .join(file)
}

fn read(name: &str) -> WorkloadSpec {
    let path = data(&format!("{name}.yaml"));
    sdl::deployment(&std::fs::read_to_string(path).unwrap())
}

fn fresh(settings: &KubeSettings) -> PriorState {
    PriorState {
        manifest_version: "42".to_owned(),
        isolation: settings.isolation,
        unchanged: BTreeMap::new(),
    }
}

fn rendered(deployment: &WorkloadSpec, settings: &KubeSettings) -> LeaseObjects {
    objects::render(deployment, settings, &fresh(settings)).unwrap()
}

fn json_of(objects: &LeaseObjects) -> Value {
    json!({
        "namespace": objects.namespace,
        "policies": objects.policies,
        "quota": objects.quota,
        "service_accounts": objects.service_accounts,
        "roles": objects.roles,
        "role_bindings": objects.role_bindings,
        "secrets": objects.secrets,
        "deployments": objects.deployments,
        "stateful_sets": objects.stateful_sets,
        "services": objects.services,
    })
}

/// Compares the rendered objects with the expected file. Writes the file first if `BLESS_OBJECTS` is set.
fn assert_expected(name: &str, deployment: &WorkloadSpec, settings: &KubeSettings) -> Value {
    let made = json_of(&rendered(deployment, settings));
    let path = data(&format!("{name}.json"));
    let text = serde_json::to_string_pretty(&made).unwrap() + "\n";
    if std::env::var_os("BLESS_OBJECTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let assert_expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        assert_expected,
        text,
        "{} differs from the rendered objects",
        path.display()
    );
    made
}

fn pod<'a>(made: &'a Value, kind: &str) -> &'a Value {
    &made[kind][0]["spec"]["template"]["spec"]
}

#[test]
fn udp_and_tcp_share_one_port() {
    let made = assert_expected("udp-and-tcp", &read("udp-and-tcp"), &sdl::settings());
    let ports = &made["services"][0]["spec"]["ports"];
    assert_eq!(
        *ports,
        json!([
            { "name": "0-53", "port": 53, "protocol": "TCP", "targetPort": 53 },
            { "name": "1-53", "port": 53, "protocol": "UDP", "targetPort": 53 },
        ])
    );
    assert_eq!(
        pod(&made, "deployments")["containers"][0]["ports"],
        json!([{ "containerPort": 53, "protocol": "TCP" }, { "containerPort": 53, "protocol": "UDP" }])
    );
}

#[test]
fn volumes_are_summed_and_placed_by_class() {
    let made = assert_expected("volumes", &read("volumes"), &sdl::settings());
    let container = &pod(&made, "stateful_sets")["containers"][0];
    let limits = &container["resources"]["limits"];
    let requests = &container["resources"]["requests"];
    assert_eq!(
        limits["ephemeral-storage"],
        (3_u64 << 30).to_string(),
        "all volatile volumes"
    );
    assert_eq!(
        limits["memory"],
        ((2_u64 << 30) + (1 << 29)).to_string(),
        "including volumes in memory"
    );
    assert_eq!(requests["memory"], (2_u64 << 30).to_string());
    let claims = made["stateful_sets"][0]["spec"]["volumeClaimTemplates"]
        .as_array()
        .unwrap();
    let classes: Vec<_> = claims
        .iter()
        .map(|claim| claim["spec"].get("storageClassName"))
        .collect();
    assert_eq!(
        classes,
        [None, Some(&json!("beta1"))],
        "`default` is the default class of the cluster"
    );
}

/// Volumes of 2 GiB each: ephemeral (`e`), persistent (`p`) or in memory (`r`).
fn volumes(kinds: &str) -> Vec<Storage> {
    let volume = |(n, kind): (usize, char)| {
        let attributes: &[(&str, &str)] = match kind {
            'p' => &[("class", "beta1"), ("persistent", "true")],
            'r' => &[("class", "ram"), ("persistent", "false")],
            _ => &[],
        };
        let attribute = |(key, value): &(&str, &str)| Attribute::new((*key).to_owned(), (*value).to_owned());
        Storage {
            name: format!("v{n}"),
            bytes: 2 << 30,
            attributes: attributes.iter().map(attribute).collect(),
        }
    };
    kinds.chars().enumerate().map(volume).collect()
}

#[test]
fn every_container_has_requests_and_limits_for_three_resources() {
    let settings = sdl::settings();
    for (kinds, ephemeral_gib) in [
        ("", 1_u64),
        ("e", 2),
        ("p", 1),
        ("r", 1),
        ("ee", 4),
        ("pp", 1),
        ("pr", 1),
        ("ep", 2),
        ("er", 2),
        ("epr", 2),
        ("eepprr", 4),
    ] {
        let deployment = sdl::web(|web| web.resources.storage = volumes(kinds));
        let made = json_of(&rendered(&deployment, &settings));
        let kind = if kinds.contains('p') {
            "stateful_sets"
        } else {
            "deployments"
        };
        let containers = pod(&made, kind)["containers"].as_array().unwrap();
        let in_memory = kinds.matches('r').count() as u64 * (2 << 30);
        for container in containers {
            let disk = (ephemeral_gib << 30).to_string();
            let limits = json!({
                "cpu": "500m", "memory": ((64 << 20) + in_memory).to_string(), "ephemeral-storage": disk,
            });
            let requests =
                json!({"cpu": "500m", "memory": (64 << 20).to_string(), "ephemeral-storage": disk});
            let amounts = json!({"limits": limits, "requests": requests});
            assert_eq!(container["resources"], amounts, "{kinds:?}");
        }
        assert_eq!(containers.len(), 1, "{kinds:?}");
        let quota = made["quota"]["spec"]["hard"]["requests.ephemeral-storage"].as_str();
        assert_eq!(
            quota,
            Some((4 * (ephemeral_gib << 30)).to_string().as_str()),
            "{kinds:?}"
        );
    }
}

#[test]
fn requests_follow_fractions_of_the_commit_levels() {
    let mut settings = sdl::settings();
    settings.commit.cpu = 1.5;
    settings.commit.memory = 2.0;
    settings.commit.storage = 1.2;
    let made = assert_expected("commit-levels", &sdl::web(|_| {}), &settings);
    let resources = &pod(&made, "deployments")["containers"][0]["resources"];
    assert_eq!(
        resources["requests"],
        json!({ "cpu": "333m", "memory": "33554432", "ephemeral-storage": "894784853" })
    );
    assert_eq!(
        resources["limits"],
        json!({ "cpu": "500m", "memory": "67108864", "ephemeral-storage": "1073741824" })
    );
}

fn gpu(vendor: &str, memory: &str, interface: &str) -> WorkloadSpec {
    let mut deployment = sdl::web(|service| service.resources.gpu.units = 2);
    let params = SchedulerParams {
        runtime_class: if vendor == "nvidia" {
            "nvidia".to_owned()
        } else {
            String::new()
        },
        resources: Some(SchedulerResources {
            gpu: Some(SchedulerGpu {
                vendor: vendor.to_owned(),
                model: "a100".to_owned(),
                memory_size: memory.to_owned(),
                interface: interface.to_owned(),
            }),
        }),
    };
    deployment.params = Arc::new([(1, Some(params))].into());
    deployment
}

#[test]
fn gpu_is_selected_by_model_memory_and_interface() {
    let made = assert_expected("gpu", &gpu("nvidia", "80Gi", "sxm"), &sdl::settings());
    let pod = pod(&made, "deployments");
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = terms["nodeSelectorTerms"][0]["matchExpressions"]
        .as_array()
        .unwrap();
    let keys: Vec<_> = terms.iter().map(|term| term["key"].as_str().unwrap()).collect();
    let base = "akash.network/capabilities.gpu.vendor.nvidia.model.a100";
    assert_eq!(
        keys,
        [
            "akash.network",
            base,
            &format!("{base}.ram.80Gi"),
            &format!("{base}.interface.sxm")
        ]
    );
    assert_eq!(pod["runtimeClassName"], "nvidia");
    assert_eq!(made["quota"]["spec"]["hard"]["requests.nvidia.com/gpu"], "8");
    let amd = json_of(&rendered(&gpu("amd", "", ""), &sdl::settings()));
    assert_eq!(
        amd["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"],
        "2"
    );
}

#[test]
fn logins_accounts_and_variables_are_per_service() {
    let mut settings = sdl::settings();
    settings.pull_secret = " general ".to_owned();
    settings.runtime_class = "gvisor".to_owned();
    let mut deployment = read("login-and-permissions");
    let group = Arc::make_mut(&mut deployment.group);
    group.services[0]
        .env
        .as_mut()
        .unwrap()
        .push("MODE=last".to_owned());
    let made = assert_expected("login-and-permissions", &deployment, &settings);
    let pod = pod(&made, "deployments");
    assert_eq!(pod["runtimeClassName"], "gvisor");
    assert_eq!(
        pod["imagePullSecrets"],
        json!([{ "name": "docker-creds-bot" }, { "name": "general" }])
    );
    assert_eq!(
        (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
        (&json!("bot"), &json!(true))
    );
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let of = |name: &str| -> Vec<_> {
        env.iter()
            .filter(|var| var["name"] == name)
            .map(|var| var.get("value"))
            .collect()
    };
    assert_eq!(
        of("MODE"),
        [Some(&json!("last"))],
        "the last value of a name applies"
    );
    assert_eq!(of("EMPTY"), [None], "an empty value is left out");
    assert_eq!(
        of("AKASH_OWNER"),
        [Some(&json!("nobody"))],
        "the tenant's value comes first"
    );
    assert_eq!(of("AKASH_DEPLOYMENT_SEQUENCE"), [Some(&json!("3944427"))]);
}

/// The field order, the omission of empty fields and the escapes are those of the Go provider.
#[test]
fn login_is_encoded_byte_for_byte_like_the_go_provider() {
    let secret = |host: &str, username: &str, password: &str, email: &str| {
        let login = Credentials {
            host: host.to_owned(),
            username: username.to_owned(),
            password: password.to_owned(),
            email: email.to_owned(),
        };
        let made = rendered(
            &sdl::web(|service| service.credentials = Some(login)),
            &sdl::settings(),
        );
        let data = made.secrets[0].data.clone().unwrap();
        String::from_utf8(data[".dockerconfigjson"].0.clone()).unwrap()
    };
    assert_eq!(
        secret("ghcr.io", " robot ", "s3cret\n", "a@example.com"),
        r#"{"auths":{"ghcr.io":{"username":"robot","password":"s3cret","email":"a@example.com","auth":"cm9ib3Q6czNjcmV0"}}}"#
    );
    assert_eq!(
        secret("ghcr.io", "", "", ""),
        r#"{"auths":{"ghcr.io":{"auth":"Og=="}}}"#
    );
    assert_eq!(
        secret("ghcr.io", "é\"\\/", "<a>&\u{2028}\u{1}\u{7f}\t.", ""),
        [
            r#"{"auths":{"ghcr.io":{"username":"é\"\\/","password":"\u003ca\u003e\u0026\u2028\u0001"#,
            "\u{7f}",
            r#"\t.","auth":"w6kiXC86PGE+JuKAqAF/CS4="}}}"#,
        ]
        .concat()
    );
}

#[test]
fn leased_address_opens_no_node_port() {
    let deployment = read("leased-ip");
    let made = assert_expected("leased-ip", &deployment, &sdl::settings());
    let names = |list: &Value| -> Vec<String> {
        let names = list
            .as_array()
            .unwrap()
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    assert_eq!(names(&made["services"]), ["web", "web-np"]);
    let node_ports = &made["services"][1]["spec"]["ports"];
    assert_eq!(
        node_ports.as_array().unwrap().len(),
        1,
        "only the other port: {node_ports}"
    );
    assert_eq!(
        names(&made["policies"]),
        ["akash-deployment-restrictions", "akash-web-np", "akash-web-ip"]
    );
    let service = objects::leased_ip_service(&deployment.lease, &deployment.ips[0], "public");
    let made = serde_json::to_value(&service).unwrap();
    assert_eq!(made["metadata"]["name"], "web-ip-8443-udp");
    assert_eq!(
        made["metadata"]["annotations"],
        json!({
            "metallb.universe.tf/address-pool": "public",
            "metallb.universe.tf/allow-shared-ip": deployment.ips[0].sharing_key,
        })
    );
    assert_eq!(
        made["metadata"]["labels"]["akash.network/service-target"],
        "metal-lb"
    );
    assert_eq!(
        made["spec"],
        json!({
            "allocateLoadBalancerNodePorts": false,
            "type": "LoadBalancer",
            "selector": { "akash.network": "true", "akash.network/manifest-service": "web" },
            "ports": [{ "name": "web-ip-8443-udp", "port": 8443, "protocol": "UDP", "targetPort": 443 }],
        })
    );
    let plain = objects::leased_ip_service(&deployment.lease, &deployment.ips[0], "default");
    assert!(
        !plain
            .metadata
            .annotations
            .unwrap()
            .contains_key("metallb.universe.tf/address-pool")
    );
}

#[test]
fn gateway_route_equals_ingress() {
    let deployment = read("leased-ip");
    let host = &deployment.hostnames[0];
    let options = akash_provider_core::cluster::http_options(&deployment.group, host).unwrap();
    let IngressMode::GatewayApi {
        name,
        namespace,
        buffer_size,
    } = IngressMode::gateway_api()
    else {
        panic!("the gateway's defaults");
    };
    let gateway = objects::ParentRef {
        name,
        namespace: Some(namespace),
    };
    let route = |options: &_| {
        serde_json::to_value(objects::http_route(
            &deployment.lease,
            host,
            options,
            &gateway,
            &buffer_size,
        ))
        .unwrap()
    };
    let made = route(options);
    assert_eq!(made["apiVersion"], "gateway.networking.k8s.io/v1");
    assert_eq!(made["kind"], "HTTPRoute");
    assert_eq!(made["metadata"]["name"], host.hostname);
    assert_eq!(
        made["metadata"]["annotations"],
        json!({
            "nginx.org/client-max-body-size": "1048576",
            "nginx.org/proxy-buffer-size": "16k",
            "nginx.org/proxy-next-upstream": "error timeout",
            "nginx.org/proxy-next-upstream-tries": "3",
            "nginx.org/proxy-read-timeout": "60",
            "nginx.org/proxy-send-timeout": "60",
        })
    );
    assert_eq!(
        made["spec"],
        json!({
            "parentRefs": [{ "name": "akash-gateway", "namespace": "akash-gateway" }],
            "hostnames": [host.hostname],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "backendRefs": [{ "name": "web", "port": 80 }],
            }],
        })
    );
    let mut changed = options.clone();
    changed.next_timeout = 1_500;
    changed.proxy_buffer_size = 8_192;
    let hostile = "error;} location /x { proxy_pass http://10.0.0.1";
    changed.next_cases = Some(["500", hostile, "off"].map(str::to_owned).to_vec());
    let made = route(&changed);
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations["nginx.org/proxy-next-upstream-timeout"], "2s");
    assert_eq!(annotations["nginx.org/proxy-buffer-size"], "8192");
    assert_eq!(annotations["nginx.org/proxy-next-upstream"], "http_500 off");
    changed.max_body_size = 0;
    assert_eq!(
        route(&changed)["metadata"]["annotations"]["nginx.org/proxy-next-upstream"],
        "error timeout"
    );
}

#[test]
fn unchanged_service_retains_its_exact_pod_template() {
    let deployment = sdl::web(|_| {});
    let settings = sdl::settings();
    let mut prior = fresh(&settings);
    let mut before = rendered(&deployment, &settings).deployments[0]
        .spec
        .clone()
        .unwrap()
        .template;
    let labels = before.metadata.as_mut().unwrap().labels.as_mut().unwrap();
    labels.insert(
        "akash.network/manifest.resource.version".to_owned(),
        "1".to_owned(),
    );
    before.spec.as_mut().unwrap().dns_policy = Some("ClusterFirst".to_owned());
    prior.unchanged.insert("web".to_owned(), before.clone());
    let objects = objects::render(&deployment, &settings, &prior).unwrap();
    let workload = &objects.deployments[0];
    assert_eq!(workload.spec.as_ref().unwrap().template, before);
    let labels = workload.metadata.labels.as_ref().unwrap();
    assert_eq!(
        labels["akash.network/manifest.resource.version"], "42",
        "only the pod template stays"
    );
}

#[test]
fn protections_can_be_disabled() {
    let mut settings = sdl::settings();
    settings.network_policies = false;
    settings.quota = false;
    settings.isolation = Isolation::Legacy;
    settings.runtime_class = "gvisor".to_owned();
    let objects = rendered(&sdl::web(|_| {}), &settings);
    assert_eq!((objects.policies.len(), objects.quota.clone()), (0, None));
    let made = json_of(&objects);
    let pod = pod(&made, "deployments");
    assert_eq!(pod["securityContext"], json!({ "runAsNonRoot": false }));
    assert!(
        pod["containers"][0]["securityContext"]
            .get("capabilities")
            .is_none()
    );
    assert!(
        pod.get("runtimeClassName").is_none(),
        "existing pods retain their runtime class"
    );
    let labels = objects.namespace.metadata.labels.unwrap();
    assert!(!labels.contains_key("pod-security.kubernetes.io/enforce"));
    let mut none = sdl::settings();
    none.runtime_class = "none".to_owned();
    assert_eq!(
        rendered(&sdl::web(|_| {}), &none).deployments[0]
            .spec
            .as_ref()
            .unwrap()
            .template
            .spec
            .as_ref()
            .unwrap()
            .runtime_class_name,
        None
    );
}

/// The quota allows four pods per replica: of the current version, of the new version, and of two older
/// versions that terminate.
#[test]
fn quota_allows_an_update() {
    for (count, overhead_cpu, overhead_memory) in [(1_u32, 250, 130 << 20), (20, 1_000, 1 << 30)] {
        let made = json_of(&rendered(
            &sdl::web(|service| service.count = count),
            &sdl::settings(),
        ));
        let hard = &made["quota"]["spec"]["hard"];
        let pods = 4 * u64::from(count);
        let number = |key: &str| -> u64 { hard[key].as_str().unwrap().parse().unwrap() };
        let cpu = hard["requests.cpu"].as_str().unwrap();
        let cpu: u64 = match cpu.strip_suffix('m') {
            Some(milli) => milli.parse().unwrap(),
            None => cpu.parse::<u64>().unwrap() * 1_000,
        };
        assert!(cpu >= pods * (500 + overhead_cpu));
        assert!(number("requests.memory") >= pods * ((64 << 20) + overhead_memory));
        assert!(number("requests.ephemeral-storage") >= pods * (1 << 30));
        let mut counted = hard.as_object().unwrap().keys();
        assert!(counted.all(|name| name.starts_with("requests.")), "{hard}");
    }
}
