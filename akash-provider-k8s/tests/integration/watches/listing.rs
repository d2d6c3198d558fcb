//! Lists of leases while the API server returns invalid or incomplete data.

use crate::watches::objects::{lease, manifest, settings};
use crate::watches::server::{Part, Reply, Request, Server};
use akash_provider_core::cluster::{Cluster, Listing, RecordDefect};
use akash_provider_core::error::Error;
use akash_provider_k8s::cluster::KubeCluster;
use akash_provider_k8s::write_client::WriteClient;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// Size of a text in bytes, above every limit for texts in a manifest.
const HUGE: usize = 1 << 20;

fn record(change: impl Fn(&mut Value)) -> Value {
    let mut record = manifest(1, 1);
    change(&mut record);
    record
}

/// Returns an object as in a metadata-only list.
fn metadata(name: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": name}})
}

fn is_live(request: &Request) -> bool {
    !request.is_watch() && request.query.contains_key("limit") && !request.query.contains_key("labelSelector")
}

/// Lists the leases. Watches return `records`; other requests get `reply`.
async fn listed(
    records: Vec<Value>,
    live: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static,
) -> Result<Listing, Error> {
    let server = Server::start(move |request: &Request, _| {
        if request.is_watch() {
            return None;
        }
        if is_live(request)
            && let Some(reply) = live(&request.resource)
        {
            return Some(reply);
        }
        (request.resource == "manifests").then(|| Reply::list("10", records.clone()))
    })
    .await;
    let mut settings = settings();
    settings.call_timeout = Duration::from_secs(2);
    let cluster = KubeCluster::connect(WriteClient::without_election(server.client()), settings).unwrap();
    timeout(Duration::from_secs(20), cluster.state().ready())
        .await
        .unwrap();
    cluster.deployments().await
}

fn remains(listing: &Listing) -> Option<(RecordDefect, &str)> {
    let mut all = listing.unusable.iter().filter(|u| u.belongs_to(&lease(1)));
    let found = all.next().map(|u| (u.remains, u.problem.as_str()));
    assert_eq!(all.next(), None, "listed once");
    found
}

#[tokio::test]
async fn invalid_record_is_reported_and_never_left_out() {
    let cases: [(&str, Value); 6] = [
        (
            "another version",
            record(|r| {
                r["apiVersion"] = json!("akash.network/v9");
                r["spec"] = json!({"manifest": {"everything": "is elsewhere"}});
            }),
        ),
        (
            "no spec at all",
            record(|r| drop(r.as_object_mut().unwrap().remove("spec"))),
        ),
        ("a spec that is a number", record(|r| r["spec"] = json!(7))),
        (
            "a spec that was cut",
            record(|r| {
                drop(r["spec"]["group"].as_object_mut().unwrap().remove("services"));
            }),
        ),
        (
            "an oversized value",
            record(|r| {
                r["spec"]["group"]["services"][0]["resources"]["memory"]["size"] = json!("9".repeat(HUGE));
            }),
        ),
        (
            "another encoding",
            record(|r| {
                r["spec"]["group"]["services"][0]["expose"] =
                    json!([{"port": 80, "proto": "\u{fffd}\u{0}TCP"}]);
            }),
        ),
    ];
    for (what, case) in cases {
        let listing = listed(vec![case], |_| None).await.unwrap();
        let (found, problem) = remains(&listing).unwrap_or_else(|| panic!("{what}: {listing:?}"));
        assert_eq!(found, RecordDefect::Unreadable, "{what}: {problem}");
        assert_eq!(listing.deployments, [], "{what}");
        assert!(problem.len() < 4096, "{what}: {} bytes of problem", problem.len());
    }
    let listing = listed(vec![manifest(1, 1)], |_| None).await.unwrap();
    assert_eq!((listing.deployments.len(), remains(&listing)), (1, None));
    assert_eq!(listing.incomplete, [lease(1)], "the lease has no workload");
}

#[tokio::test]
async fn objects_missing_in_cache_are_read_from_api_server() {
    let name = lease(1).namespace();
    for (resource, wanted) in [
        ("manifests", RecordDefect::Unreadable),
        ("namespaces", RecordDefect::Unrecorded),
    ] {
        let name = name.clone();
        let live = move |of: &str| (of == resource).then(|| Reply::list("10", vec![metadata(&name)]));
        let listing = listed(Vec::new(), live).await.unwrap();
        assert_eq!(
            remains(&listing).map(|(found, _)| found),
            Some(wanted),
            "{resource}"
        );
    }
}

#[tokio::test]
async fn incomplete_list_is_an_error() {
    let broken: [fn() -> Reply; 4] = [
        || Reply::status(500, "InternalError"),
        || Reply::status(410, "Expired"),
        || {
            Reply::Text(
                200,
                Vec::new(),
                "{\"kind\":\"List\",\"items\":[{\"metadata\":{\"na",
            )
        },
        || Reply::Stream(vec![Part::Bytes(b"{\"kind\":\"List\",".to_vec()), Part::Cut]),
    ];
    for resource in ["manifests", "namespaces"] {
        for reply in broken {
            let live = move |of: &str| (of == resource).then(reply);
            let error = listed(Vec::new(), live).await.unwrap_err();
            assert!(!error.to_string().is_empty());
        }
        // The last page always names a next page.
        let live = move |of: &str| (of == resource).then(|| Reply::page("10", vec![metadata("x")], "more"));
        let error = listed(Vec::new(), live).await.unwrap_err();
        assert!(error.to_string().contains("pages"), "{error}");
    }
}
