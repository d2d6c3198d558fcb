//! Network policies as a table of flows: source, target, port, and whether the policies allow the flow.

use crate::objects::evaluate::{Endpoint, allowed};
use crate::objects::sdl;
use akash_provider_kube_model::objects::{self, PriorState};
use akash_provider_kube_model::settings::{IngressMode, Isolation, KubeSettings, ProxyPods};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use std::collections::BTreeMap;

const SDL: &str = "
version: '2.1'
endpoints: {front: {kind: ip}}
services:
  game:
    image: game:1
    expose:
      - {port: 8080, as: 80, to: [{global: true}]}
      - {port: 25565, to: [{global: true}]}
      - {port: 34197, proto: UDP, to: [{global: true}]}
      - {port: 443, proto: TCP, to: [{global: true, ip: front}]}
  bot:
    image: bot:1
    params: {permissions: {read: [logs]}}
    expose:
      - {port: 9000, to: [{service: game}]}
profiles:
  compute: {any: {resources: {cpu: {units: 1}, memory: {size: 64Mi}, storage: {size: 64Mi}}}}
  placement: {any: {pricing: {any: {denom: uakt, amount: 5}}}}
deployment: {game: {any: {profile: any, count: 1}}, bot: {any: {profile: any, count: 1}}}
";

fn settings() -> KubeSettings {
    let mut settings = sdl::settings();
    settings.egress.infrastructure = vec![
        "203.0.113.7".to_owned(),
        "2001:db8:1::/64".to_owned(),
        "10.1.2.3/32".to_owned(),
    ];
    settings.egress.api_servers = vec![
        "203.0.113.7:6443".parse().unwrap(),
        "[2001:db8:1::7]:6443".parse().unwrap(),
    ];
    settings
}

fn policies(settings: &KubeSettings, isolation: Isolation) -> Vec<NetworkPolicy> {
    let prior = PriorState {
        manifest_version: "1".to_owned(),
        isolation,
        unchanged: BTreeMap::new(),
    };
    objects::render(&sdl::deployment(SDL), settings, &prior)
        .unwrap()
        .policies
}

fn service(name: &str) -> Endpoint {
    let namespace = sdl::lease().namespace();
    Endpoint::pod(
        &namespace,
        &[("akash.network/namespace", &namespace)],
        &[
            ("akash.network/manifest-service", name),
            ("akash.network", "true"),
        ],
    )
}

fn neighbour() -> Endpoint {
    Endpoint::pod(
        "other",
        &[("akash.network/namespace", "other")],
        &[
            ("akash.network/manifest-service", "game"),
            ("akash.network", "true"),
        ],
    )
}

fn nginx() -> Endpoint {
    let labels = [("app.kubernetes.io/name", "ingress-nginx")];
    Endpoint::pod("ingress-nginx", &labels, &labels)
}

fn gateway() -> Endpoint {
    Endpoint::pod("akash-gateway", &[], &[("app", "gateway")])
}

fn dns() -> Endpoint {
    Endpoint::pod("kube-system", &[], &[("k8s-app", "kube-dns")])
}

fn other_system_pod() -> Endpoint {
    Endpoint::pod("kube-system", &[], &[("k8s-app", "metrics-server")])
}

fn host(address: &str) -> Endpoint {
    Endpoint::host(address)
}

/// Source, target, protocol, port, and true for an allowed flow.
type Flow = (Endpoint, Endpoint, &'static str, u16, bool);

fn check(policies: &[NetworkPolicy], flows: Vec<Flow>) {
    let lease = sdl::lease().namespace();
    for (from, to, protocol, port, expected) in flows {
        assert_eq!(
            allowed(policies, &lease, &from, &to, protocol, port),
            expected,
            "{from:?} to {to:?} on {port}/{protocol}"
        );
    }
}

#[test]
fn only_the_configured_proxy_reaches_a_lease() {
    let traefik = |namespace: &str| {
        Endpoint::pod(
            namespace,
            &[("name", namespace)],
            &[("app.kubernetes.io/name", "traefik")],
        )
    };
    let edge = ProxyPods {
        namespace: vec![("name".to_owned(), "edge".to_owned())],
        pods: Vec::new(),
    };
    for (proxies, from_edge, from_other) in [
        (vec![ProxyPods::named("traefik")], true, true),
        (vec![edge], true, false),
        (vec![ProxyPods::nginx()], false, false),
    ] {
        let is_nginx = proxies == [ProxyPods::nginx()];
        let mut settings = settings();
        settings.proxies = proxies;
        let flows = vec![
            (traefik("edge"), service("game"), "TCP", 8080, from_edge),
            (traefik("other"), service("game"), "TCP", 8080, from_other),
            (nginx(), service("game"), "TCP", 8080, is_nginx),
            (neighbour(), service("game"), "TCP", 8080, false),
        ];
        check(&policies(&settings, Isolation::Baseline), flows);
    }
}

#[test]
fn only_allowed_sources_reach_pods_of_a_lease() {
    check(
        &policies(&settings(), Isolation::Baseline),
        vec![
            (service("bot"), service("game"), "TCP", 8080, true),
            (service("game"), service("bot"), "TCP", 9000, true),
            (service("game"), service("bot"), "UDP", 12345, true),
            (neighbour(), service("game"), "TCP", 8080, false),
            (neighbour(), service("bot"), "TCP", 9000, false),
            (nginx(), service("game"), "TCP", 8080, true),
            (gateway(), service("game"), "TCP", 8080, false),
            (other_system_pod(), service("game"), "TCP", 8080, false),
            (host("198.51.100.1"), service("game"), "TCP", 8080, false),
            (host("198.51.100.1"), service("game"), "TCP", 25565, true),
            (host("2001:db8::1"), service("game"), "TCP", 25565, true),
            (host("198.51.100.1"), service("game"), "UDP", 25565, false),
            (host("198.51.100.1"), service("game"), "UDP", 34197, true),
            (host("198.51.100.1"), service("game"), "TCP", 443, true),
            (host("2001:db8::1"), service("game"), "TCP", 443, true),
            (host("198.51.100.1"), service("game"), "UDP", 443, false),
            (host("198.51.100.1"), service("bot"), "TCP", 9000, false),
            (host("198.51.100.1"), service("bot"), "TCP", 25565, false),
            (neighbour(), service("game"), "TCP", 25565, true),
        ],
    );
}

#[test]
fn pods_of_a_lease_reach_the_internet_but_not_the_cluster() {
    let mut flows = vec![
        (service("game"), dns(), "UDP", 53, true),
        (service("game"), dns(), "TCP", 53, true),
        (service("game"), dns(), "TCP", 9153, false),
        (service("game"), other_system_pod(), "TCP", 53, false),
        (service("game"), host("169.254.20.10"), "UDP", 53, true),
        (service("game"), host("169.254.20.10"), "TCP", 53, true),
        (service("game"), host("169.254.20.10"), "TCP", 80, false),
        (service("game"), neighbour(), "TCP", 80, false),
        (service("bot"), host("203.0.113.7"), "TCP", 6443, true),
        (service("bot"), host("2001:db8:1::7"), "TCP", 6443, true),
        (service("bot"), host("203.0.113.7"), "TCP", 22, false),
        (service("game"), host("203.0.113.7"), "TCP", 6443, false),
    ];
    for open in [
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "203.0.113.8",
        "2606:4700::1111",
        "2001:db8:2::1",
    ] {
        flows.push((service("game"), host(open), "TCP", 443, true));
    }
    let closed = [
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "fd00:ec2::254",
        "203.0.113.7",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "2001:db8:1::1",
    ];
    for closed in closed {
        flows.push((service("game"), host(closed), "TCP", 443, false));
        flows.push((service("game"), host(closed), "UDP", 53, false));
    }
    check(&policies(&settings(), Isolation::Baseline), flows);
    // Also if the settings close no networks.
    let mut open = settings();
    open.egress.closed.clear();
    let excluded = [
        "169.254.169.254",
        "168.63.129.16",
        "64:ff9b::a9fe:a9fe",
        "fd00:ec2::254",
    ];
    let flows = excluded.map(|address| (service("game"), host(address), "TCP", 80, false));
    check(&policies(&open, Isolation::Baseline), flows.into());
}

#[test]
fn existing_leases_retain_their_flows_except_to_metadata() {
    check(
        &policies(&settings(), Isolation::Legacy),
        vec![
            (service("game"), host("169.254.169.254"), "TCP", 80, false),
            (service("game"), host("168.63.129.16"), "TCP", 80, false),
            (service("game"), host("169.254.20.10"), "UDP", 53, true),
            (service("game"), host("100.64.0.1"), "TCP", 80, true),
            (service("game"), host("10.0.0.1"), "TCP", 80, false),
            (service("game"), host("2606:4700::1111"), "TCP", 443, false),
            (host("2001:db8::1"), service("game"), "TCP", 443, false),
            (neighbour(), service("bot"), "TCP", 9000, false),
            (service("game"), dns(), "UDP", 53, true),
        ],
    );
}

#[test]
fn gateway_reaches_http_ports_of_pods() {
    let mut settings = settings();
    settings.ingress = IngressMode::gateway_api();
    check(
        &policies(&settings, Isolation::Baseline),
        vec![
            (gateway(), service("game"), "TCP", 8080, true),
            (neighbour(), service("game"), "TCP", 8080, false),
        ],
    );
}

#[test]
fn fully_closed_address_family_has_no_rule() {
    let mut settings = settings();
    settings.egress.closed = vec!["0.0.0.0/0".to_owned(), "fc00::/7".to_owned()];
    check(
        &policies(&settings, Isolation::Baseline),
        vec![
            (service("game"), host("1.1.1.1"), "TCP", 443, false),
            (service("game"), host("169.254.20.10"), "UDP", 53, true),
            (service("game"), host("2606:4700::1111"), "TCP", 443, true),
            (service("game"), host("fc00::1"), "TCP", 443, false),
        ],
    );
}

#[test]
fn closed_networks_must_be_valid() {
    for (bad, field) in [
        ("10.0.0.0/33", "settings.egress.closed[0]"),
        ("ten", "settings.egress.closed[0]"),
        ("", "settings.egress.closed[0]"),
    ] {
        let mut settings = settings();
        settings.egress.closed = vec![bad.to_owned()];
        let refusal = objects::check(&sdl::deployment(SDL), &settings).unwrap_err();
        assert_eq!(refusal.field, field, "{bad}");
    }
    let mut settings = settings();
    settings.egress.closed = vec![
        "10.1.2.3/8".to_owned(),
        "10.0.0.0/8".to_owned(),
        "10.1.0.0/16".to_owned(),
    ];
    let policies = serde_json::to_string(&policies(&settings, Isolation::Baseline)).unwrap();
    assert_eq!(
        policies.matches("\"10.").count(),
        1,
        "one network for all three: {policies}"
    );
}
