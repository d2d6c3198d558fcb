//! Metrics of a program that embeds the crates and has its own registry.

use crate::scrape::parse;
use crate::stage::{ADDRESS, Stage};
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::chain::ChainQuery;
use akash_provider_gateway::GatewayCounters;
use akash_provider_k8s::statistics::ApiCalls;
use akash_provider_service::metrics::Metrics;
use http::{Request, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::convert::Infallible;
use tokio_util::sync::CancellationToken;
use tower::{Layer, ServiceExt, service_fn};

#[test]
fn registry_of_embedding_program_has_metrics_of_its_chain_client_gateway_and_cluster() {
    let mut stage = Stage::new("metrics-embedded", true);
    stage.start_node(None);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = ClientSettings::new(vec![stage.url()], "devnet");
    let (client, task) = AkashClient::start(settings, CancellationToken::new()).unwrap();
    runtime.spawn(task);
    let (calls, metrics) = (ApiCalls::default(), Metrics::default());
    metrics.add(client.clone());
    metrics.add(GatewayCounters::default());
    metrics.add(calls.clone());
    let server = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    for _ in 0..2 {
        let request = Request::get("/api/v1/namespaces/a").body(()).unwrap();
        runtime.block_on(calls.layer(server).oneshot(request)).unwrap();
    }
    let account = ADDRESS.parse().unwrap();
    runtime.block_on(client.balance(&account, "uact")).unwrap();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let values = parse(&text);
    let endpoint = format!("akash_provider_chain_endpoint_up{{endpoint=\"{}\"}}", stage.url());
    let expected = [
        (endpoint.as_str(), 1.0),
        (
            "provider_kube_calls{action=\"namespaces-get\",result=\"success\"}",
            2.0,
        ),
        (
            "akash_provider_gateway_accepted_connections_total{port=\"rest\"}",
            0.0,
        ),
    ];
    for (sample, value) in expected {
        assert_eq!(values.get(sample), Some(&value), "{sample}: {values:#?}");
    }
}
