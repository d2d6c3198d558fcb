//! Manifest records of leases, with a cache that lags behind the API server.

use crate::watches::objects::{lease, manifest, settings};
use crate::watches::server::{Reply, Request, Server};
use akash_provider_core::cluster::{Cluster, WorkloadSpec};
use akash_provider_core::error::ErrorKind;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::crd::convert::{from_manifest, to_manifest};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

fn deployed(epoch: u64) -> WorkloadSpec {
    let there = serde_json::from_value(manifest(1, 1)).unwrap();
    let mut deployment = from_manifest(&there).unwrap().deployment;
    deployment.epoch = epoch;
    deployment
}

fn recorded(epoch: u64) -> Value {
    let mut record = serde_json::to_value(to_manifest(&deployed(epoch), &settings()).unwrap()).unwrap();
    record["metadata"]["uid"] = json!("m");
    record["metadata"]["namespace"] = json!("lease");
    record["metadata"]["resourceVersion"] = json!(epoch.to_string());
    record
}

/// Starts a server with one record: with epoch 5 in lists, and with epoch `there` in direct reads.
async fn behind(there: u64) -> (Server, std::sync::Arc<KubeCluster>) {
    let server = Server::start(move |request: &Request, _| {
        if request.is_watch() {
            return None;
        }
        match request.resource.as_str() {
            "manifests" => Some(Reply::list("10", vec![recorded(5)])),
            name if name == lease(1).namespace() => Some(Reply::Json(200, Vec::new(), recorded(there))),
            _ => None,
        }
    })
    .await;
    let cluster = KubeCluster::connect(WriteClient::without_election(server.client()), settings()).unwrap();
    timeout(Duration::from_secs(20), cluster.state().ready())
        .await
        .unwrap();
    (server, cluster)
}

#[tokio::test]
async fn cached_record_is_confirmed_by_a_read() {
    let (_server, cluster) = behind(6).await;
    let error = cluster.record(&deployed(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let (server, cluster) = behind(5).await;
    cluster.record(&deployed(5)).await.unwrap();
    let name = lease(1).namespace();
    assert_eq!(
        server.calls(&name, false).len(),
        1,
        "the record is read and not written"
    );
}
