//! Failures of an API server, and their counters in a scrape.

use super::super::Metrics;
use super::*;
use crate::args::KubernetesArgs;
use crate::backend::{Backend, Kubernetes};
use crate::operators::OperatorPlan;
use crate::writers::Writers;
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::sdl;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::inventory::CapacityOptions;
use akash_provider_k8s::labels;
use akash_provider_k8s::write_client::WriteClient;
use bytes::Bytes;
use clap::Parser;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::client::{Body, ClientBuilder};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::util::BoxCloneService;

const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

fn lease() -> LeaseId {
    format!("{OWNER}/7/1/1/{PROVIDER}").parse().unwrap()
}

/// Returns the namespace of a lease that was deployed completely.
fn namespace() -> Value {
    let mut all = labels::selector(&lease().namespace());
    all.extend(labels::lease(&lease()));
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": lease().namespace(), "uid": "u", "resourceVersion": "1", "labels": all,
        "annotations": {labels::APPLIED: "x"},
    }})
}

/// API server with one node and one lease. Rejects all writes except those of an election.
#[derive(Debug, Clone, Default)]
struct ApiServer {
    /// Whether the server rejects the lists of two kinds.
    rejects_lists: bool,
    /// Methods and paths of the rejected requests.
    rejected: Arc<Mutex<Vec<String>>>,
}

/// Service of a client without connections.
type ApiService = BoxCloneService<Request<Body>, Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible>;

impl ApiServer {
    fn client(&self) -> ClientBuilder<ApiService> {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let query = request.uri().query().unwrap_or_default();
                if query.contains("watch=") {
                    let events = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
                    return Ok(Response::new(StreamBody::new(events).boxed_unsync()));
                }
                let (code, body) = this.respond(request).await;
                let body = Full::new(body.to_string().into()).boxed_unsync();
                Ok(Response::builder().status(code).body(body).unwrap())
            }
        });
        ClientBuilder::new(BoxCloneService::new(service), "default")
    }

    async fn respond(&self, request: Request<Body>) -> (u16, Value) {
        let (path, method) = (request.uri().path().to_owned(), request.method().to_string());
        let home = lease().namespace();
        let items = match (&*method, path.rsplit('/').next().unwrap()) {
            ("GET", _) if path.contains("/leases/") => {
                return (404, json!({"code": 404, "reason": "NotFound"}));
            }
            _ if path.contains("/leases") => {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let mut claim: Value = serde_json::from_slice(&body).unwrap();
                claim["metadata"]["resourceVersion"] = "1".into();
                return (200, claim);
            }
            ("GET", name) if *name == home && !path.contains("/lease/") => return (200, namespace()),
            ("GET", "nodes") => vec![json!({
                "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })],
            ("GET", "namespaces") => vec![namespace()],
            ("GET", name)
                if !self.rejects_lists || !["persistentvolumes", "resourcequotas"].contains(&name) =>
            {
                Vec::new()
            }
            _ => {
                self.rejected.lock().unwrap().push(format!("{method} {path}"));
                return (500, json!({"code": 500, "reason": "InternalError"}));
            }
        };
        (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
    }

    /// Returns the number of rejected requests with this method and this part of the path, at least 1.
    fn rejected(&self, method: &str, part: &str) -> usize {
        let rejected = self.rejected.lock().unwrap();
        let of = rejected
            .iter()
            .filter(|request| request.starts_with(method) && request.contains(part));
        of.count().max(1)
    }
}

fn workload() -> WorkloadSpec {
    let mut groups = sdl::parse(crate::trial::SAMPLE).unwrap().manifest.groups;
    WorkloadSpec {
        lease: lease(),
        group: Arc::new(groups.remove(0)),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 1,
    }
}

#[tokio::test]
async fn each_failure_of_the_api_server_is_counted_in_a_scrape() {
    let of_operators = ApiServer::default();
    let server = ApiServer {
        rejects_lists: true,
        ..ApiServer::default()
    };
    let args =
        Flags::parse_from(["test", "--with-operators=inventory", "--provider-configs-url="]).kubernetes;
    let (writers, gate) = (Writers::new(None, Duration::ZERO), LeadershipGate::new(true));
    let client = server.client().with_layer(writers.calls()).build();
    let clients = (
        of_operators.client().build(),
        WriteClient::without_election(client),
    );
    let (provider, options) = (PROVIDER.parse().unwrap(), CapacityOptions::default());
    let started = Kubernetes::start(
        clients,
        &args,
        provider,
        "",
        &options,
        gate,
        DeletionLog::default(),
    );
    let kubernetes = started.await.unwrap();
    kubernetes.run_operators(OperatorPlan::read(&args, &[], "", None).unwrap());
    let cluster = ClusterProxy::new(false);
    cluster.set(Backend::Kubernetes(Box::new(kubernetes)));
    let metrics = Metrics::of(KubernetesSource::new(writers.calls().clone(), cluster.clone()));
    for _ in 0..2 {
        cluster.deploy(&workload()).await.unwrap_err();
    }
    for _ in 0..3 {
        cluster.teardown_lease(&lease()).await.unwrap_err();
    }
    let lines = || {
        let quotas = server.rejected("GET", "/resourcequotas");
        let volumes = server.rejected("GET", "/persistentvolumes");
        let policies = server.rejected("PATCH", "/networkpolicies/");
        let nodes = of_operators.rejected("PATCH", "/nodes/");
        format!(
            r#"akash_provider_kubernetes_watch_failures_total{{kind="resourcequotas"}} {quotas}.0
            akash_provider_kubernetes_requests_total{{verb="list",resource="resourcequotas",result="error"}} {quotas}.0
            akash_provider_inventory_watch_failures_total{{kind="persistentvolumes"}} {volumes}.0
            akash_provider_kubernetes_operation_failures_total{{operation="deploy"}} 2.0
            akash_provider_kubernetes_operation_failures_total{{operation="teardown"}} 3.0
            akash_provider_kubernetes_operation_failures_total{{operation="repair"}} {policies}.0
            akash_provider_drift_objects_total{{kind="NetworkPolicy",outcome="failed"}} {policies}.0
            provider_kube_calls{{action="networking-policies-update",result="fail"}} {policies}.0
            akash_provider_operator_failures_total{{operator="inventory"}} {nodes}.0"#
        )
    };
    for _ in 0..3_000 {
        if metrics.missing(&lines()).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{:#?}", server.rejected);
    metrics.check(&lines());
}
