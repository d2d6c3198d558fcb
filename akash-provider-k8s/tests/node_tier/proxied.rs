//! HTTP requests for a hostname, sent through a real proxy to real pods. Meanwhile the hostname moves between
//! leases and changes between Ingress and HTTPRoute. No request may fail.
//!
//! Three controllers run in front of the pods: one for Ingresses, one for HTTPRoutes, and one for both kinds behind one
//! address. A DNS name directs clients to one of the first two. The DNS name is changed when the kind of route changes.

use crate::tenant::{Tenant, WAIT_LIMIT, client, deployment, on_node, put};
use akash_provider_core::cluster::{Cluster, HostnameDeclaration, ReachState, WorkloadSpec};
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::handover::open_to_gateway;
use akash_provider_operators::hostname::live::Acceptance;
use akash_provider_operators::hostname::probe::{Probe, ProbeRequest, ProbeResponse, Prober};
use akash_provider_operators::hostname::route::{Controller as Annotations, GatewayProvider, Mode};
use akash_provider_operators::hostname::schedule::CheckRate;
use akash_provider_operators::hostname::{HostnameOperator, HostnameOperatorOptions, HostnameStatus};
use async_trait::async_trait;
use controller::Controller;
use futures::FutureExt;
use futures::future::join_all;
use kube::Client;
use routes::Scope;
use serde_json::json;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use traffic::{Traffic, ask};

#[path = "proxied/controller.rs"]
mod controller;
#[path = "proxied/definitions.rs"]
mod definitions;
#[path = "proxied/routes.rs"]
mod routes;
#[path = "proxied/traffic.rs"]
mod traffic;

const NAME: &str = "shop.example.com";
const GATEWAY: &str = "proxied-gateway";
const CLASS: &str = "proxied-class";

/// Defines HTTPRoute with a status subresource.
async fn define_routes(client: &Client) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "httproutes.gateway.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "HTTPRoute", "plural": "httproutes", "singular": "httproute"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    put(client, &definition).await;
}

fn responding(lease: &LeaseId, services: &[(&str, &str)]) -> WorkloadSpec {
    let mut wanted = deployment(lease, "", 1);
    let group = Arc::make_mut(&mut wanted.group);
    let like = group.services[0].clone();
    group.services = services
        .iter()
        .map(|(name, word)| {
            let mut service = like.clone();
            let script =
                format!("mkdir -p /www && echo {word} > /www/index.html && exec httpd -f -p 9000 -h /www");
            (service.name, service.args) = ((*name).to_owned(), Some(vec![script]));
            service.expose[0].external_port = 80;
            service.resources.cpu.units = 400;
            service
        })
        .collect();
    wanted
}

/// A prober that sends requests to the proxies.
#[derive(Debug)]
struct ProxyProber;

#[async_trait]
impl Prober for ProxyProber {
    async fn ask(&self, question: &ProbeRequest) -> Result<ProbeResponse, String> {
        assert!(question.address.ip().is_loopback(), "{question:?}");
        let (status, body) = ask(question.address.port(), &question.hostname).await?;
        let body = body.into_bytes();
        Ok(ProbeResponse { status, body })
    }
}

fn operator(client: &Client, records: &str, mode: Mode, keep_other_routes: bool) -> HostnameOperator {
    let mut options = HostnameOperatorOptions::default();
    options.manifest_namespace = records.to_owned();
    options.plan.mode = mode;
    options.plan.keep_other_routes = keep_other_routes;
    let budget = CheckRate {
        every: Duration::from_secs(1),
        per_minute: 600,
    };
    options.probe = Some(Probe::new(Arc::new(ProxyProber), budget));
    HostnameOperator::start(&WriteClient::without_election(client.clone()), options)
}

async fn declare(tenant: &Tenant, service: &str) -> Result<(), Error> {
    let names = tenant.cluster.hostnames().unwrap();
    let name = HostnameDeclaration::new(NAME.to_owned(), service, 80);
    names.declare_hostname(&tenant.lease, &name).await
}

struct Stage {
    client: Client,
    records: String,
    /// Lease with one service. The lease `two` has two services.
    one: Tenant,
    two: Tenant,
    ingresses: Controller,
    gateway: Controller,
    both: Controller,
}

impl Stage {
    fn operator(&self, mode: Mode, keep_other_routes: bool) -> HostnameOperator {
        operator(&self.client, &self.records, mode, keep_other_routes)
    }

    async fn declare(&self, tenant: &Tenant, service: &str) {
        declare(tenant, service).await.unwrap();
    }

    /// Waits until the operator's status of the hostname satisfies the condition.
    async fn until(&self, operator: &HostnameOperator, what: &str, is: impl Fn(&HostnameStatus) -> bool) {
        let met = async {
            while !operator.status().hostnames.get(NAME).is_some_and(&is) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let outcome = timeout(WAIT_LIMIT, met).await;
        assert!(
            outcome.is_ok(),
            "{what}: {:?}",
            operator.status().hostnames.get(NAME)
        );
    }

    /// Runs [`Controller::until_routed`] for each controller that handles this kind.
    async fn until_routed(&self, kind: &str, tenant: &Tenant, service: &str) {
        let home = tenant.lease.namespace();
        let own = if kind == "Ingress" {
            &self.ingresses
        } else {
            &self.gateway
        };
        for controller in [own, &self.both] {
            controller.until_routed(NAME, kind, &home, service).await;
        }
    }

    /// Moves the hostname to other services and leases, and back. Returns the number of requests.
    async fn moves(&self, kind: &str, traffic: &[&Traffic]) -> usize {
        let mut count = 0;
        let mut before = "one-web";
        for (tenant, service, word) in [
            (&self.two, "web", "two-web"),
            (&self.two, "other", "two-other"),
            (&self.one, "web", "one-web"),
        ] {
            self.declare(tenant, service).await;
            self.until_routed(kind, tenant, service).await;
            let allowed = [before, word];
            let asked = traffic.iter().map(|clients| clients.assert_responses(&allowed));
            count += join_all(asked).await.into_iter().sum::<usize>();
            before = word;
        }
        count
    }
}

fn ingress() -> Mode {
    Mode::Ingress {
        class: CLASS.to_owned(),
        controller: Annotations::Haproxy,
    }
}

fn gateway() -> Mode {
    Mode::GatewayApi {
        name: GATEWAY.to_owned(),
        namespace: GATEWAY.to_owned(),
        provider: GatewayProvider::Standard,
        buffer_size: "16k".to_owned(),
    }
}

/// Moves the hostname between services, leases and route kinds, and then removes its declaration.
async fn run_scenario(stage: &Stage) {
    let operator = stage.operator(ingress(), false);
    for controller in [&stage.ingresses, &stage.gateway, &stage.both] {
        let answer = ask(controller.port(), NAME).await.unwrap();
        assert_eq!(answer.0, 404, "the hostname is not declared");
    }
    stage.declare(&stage.one, "web").await;
    stage.until_routed("Ingress", &stage.one, "web").await;
    let by_dns = Traffic::start(NAME, stage.ingresses.port());
    let by_address = Traffic::start(NAME, stage.both.port());
    let all = [&by_dns, &by_address];
    let mut count = stage.moves("Ingress", &all).await;
    let answers = |state: &HostnameStatus| {
        let reachable = state.reachable.as_ref();
        reachable.is_some_and(|so| so.state == ReachState::Yes && so.why.contains("HTTP 200"))
    };
    stage
        .until(&operator, "the probe of its address succeeds", answers)
        .await;
    operator.stop().await;
    drop(operator);

    // Change to the Gateway: both routes exist until DNS points to the Gateway.
    let limit = Duration::from_secs(10);
    let opened = open_to_gateway(
        &WriteClient::without_election(stage.client.clone()),
        &stage.records,
        GATEWAY,
        limit,
    )
    .await
    .unwrap();
    assert_eq!(
        (opened.failed, opened.opened + opened.were_open),
        (0, 2),
        "{opened:?}"
    );
    count += hand_over(stage, &by_dns, gateway(), &stage.gateway, "HTTPRoute").await;
    count += by_address.assert_responses(&["one-web"]).await;
    assert_eq!(
        ask(stage.ingresses.port(), NAME).await.unwrap().0,
        404,
        "the Ingress is deleted"
    );
    let operator = stage.operator(gateway(), false);
    count += stage.moves("HTTPRoute", &all).await;
    operator.stop().await;
    drop(operator);

    // Change back to the Ingress.
    count += hand_over(stage, &by_dns, ingress(), &stage.ingresses, "Ingress").await;
    count += by_address.assert_responses(&["one-web"]).await;
    assert_eq!(
        ask(stage.gateway.port(), NAME).await.unwrap().0,
        404,
        "the HTTPRoute is deleted"
    );
    drop(by_dns);

    count += behind_one_address(stage, &by_address).await;
    println!("{count} requests without a failure");
    drop(by_address);
    is_taken_back(stage).await;
}

/// Switches to HTTPRoutes and then to Ingresses. One address serves both kinds of route. Returns the number
/// of requests.
async fn behind_one_address(stage: &Stage, clients: &Traffic) -> usize {
    let mut count = 0;
    for (mode, kind) in [(gateway(), "HTTPRoute"), (ingress(), "Ingress")] {
        let operator = stage.operator(mode, false);
        stage
            .both
            .until_routed(NAME, kind, &stage.one.lease.namespace(), "web")
            .await;
        stage
            .until(&operator, "the other route is deleted", |state| {
                state.other_routes.is_empty()
            })
            .await;
        count += clients.assert_responses(&["one-web"]).await;
        operator.stop().await;
    }
    count
}

async fn is_taken_back(stage: &Stage) {
    let operator = stage.operator(ingress(), false);
    let names = stage.one.cluster.hostnames().unwrap();
    names
        .purge_declared_hostname(&stage.one.lease, NAME)
        .await
        .unwrap();
    for controller in [&stage.ingresses, &stage.both] {
        controller.until_not_routed(NAME).await;
        assert_eq!(ask(controller.port(), NAME).await.unwrap().0, 404);
    }
    operator.stop().await;
}

/// Changes the kind of route. Then directs the clients to the new controller, as a DNS change would.
async fn hand_over(stage: &Stage, clients: &Traffic, mode: Mode, to: &Controller, kind: &str) -> usize {
    let operator = stage.operator(mode.clone(), true);
    let is_accepted = |state: &HostnameStatus| state.is_written && state.accepted == Acceptance::Yes;
    stage
        .until(&operator, "the new route is accepted", is_accepted)
        .await;
    to.until_routed(NAME, kind, &stage.one.lease.namespace(), "web")
        .await;
    clients.set_port(to.port());
    let count = clients.assert_responses(&["one-web"]).await;
    operator.stop().await;
    let operator = stage.operator(mode, false);
    let is_alone = |state: &HostnameStatus| state.is_written && state.other_routes.is_empty();
    stage
        .until(&operator, "the other route is deleted", is_alone)
        .await;
    let other = if kind == "Ingress" {
        &stage.gateway
    } else {
        &stage.ingresses
    };
    other.until_not_routed(NAME).await;
    operator.stop().await;
    count + clients.assert_responses(&["one-web"]).await
}

#[test]
fn hostname_moves_and_changes_kind_of_route_without_lost_requests() {
    on_node(async |place| {
        let client = client(&place.kubeconfig).await;
        define_routes(&client).await;
        let records = "proxied-state".to_owned();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": records}});
        put(&client, &namespace).await;
        let one = Tenant::with(&place.kubeconfig, |settings| {
            settings.manifest_namespace = records.clone()
        })
        .await;
        let mut lease = one.lease.clone();
        lease.order.group.deployment.dseq = 2;
        let two = Tenant {
            cluster: Arc::clone(&one.cluster),
            lease,
        };
        let follows = |class: bool, gateway: bool| Scope {
            class: class.then(|| CLASS.to_owned()),
            gateway: gateway.then(|| (GATEWAY.to_owned(), GATEWAY.to_owned())),
            is_silent: class && gateway,
        };
        let (ingresses, gateway, both) = tokio::join!(
            Controller::start(&client, "ingresses", follows(true, false)),
            Controller::start(&client, "gateway", follows(false, true)),
            Controller::start(&client, "both", follows(true, true)),
        );
        let stage = Stage {
            client,
            records,
            one,
            two,
            ingresses,
            gateway,
            both,
        };
        let whole = async {
            let first = responding(&stage.one.lease, &[("web", "one-web")]);
            let second = responding(&stage.two.lease, &[("web", "two-web"), ("other", "two-other")]);
            tokio::join!(stage.one.deploy_as(&first), stage.two.deploy_as(&second));
            run_scenario(&stage).await;
        };
        let outcome = AssertUnwindSafe(whole).catch_unwind().await;
        tokio::join!(stage.one.remove(), stage.two.remove());
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}
