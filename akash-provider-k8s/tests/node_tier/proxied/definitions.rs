//! Requests for a hostname while the definitions of the records are deleted and restored.

use super::controller::Controller;
use super::routes::Scope;
use super::traffic::Traffic;
use super::{CLASS, NAME, declare, define_routes, ingress, operator, responding};
use crate::tenant::{Tenant, WAIT_LIMIT, client, put};
use crate::test_cluster::block_on;
use crate::world::{define, undefine};
use akash_provider_core::cluster::Cluster;
use akash_provider_operators::hostname::HostnameOperator;
use futures::FutureExt;
use kube::Client;
use serde_json::json;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;
use testbed::Tier;
use tokio::time::{sleep, timeout};

const RECORDS: &str = "undefined-state";

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let met = async {
        while !is_so().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(
        timeout(WAIT_LIMIT, met).await.is_ok(),
        "condition not reached in time: {what}"
    );
}

/// Deletes and restores the record definitions and the records while clients send requests.
async fn run_scenario(client: &Client, tenant: &Tenant, operator: &HostnameOperator, proxy: &Controller) {
    let wanted = responding(&tenant.lease, &[("web", "web")]);
    tenant.deploy_as(&wanted).await;
    declare(tenant, "web").await.unwrap();
    proxy
        .until_routed(NAME, "Ingress", &tenant.lease.namespace(), "web")
        .await;
    let traffic = Traffic::start(NAME, proxy.port());
    undefine(client).await;
    // Longer than the interval between two reads of the operator.
    sleep(Duration::from_secs(6)).await;
    define(client).await;
    until("the deletion is held", async || operator.status().hold.is_some()).await;
    until("the records are written again", async || {
        tenant.cluster.record(&wanted).await.is_ok() && declare(tenant, "web").await.is_ok()
    })
    .await;
    until("the hold has ended", async || operator.status().hold.is_none()).await;
    let count = traffic.assert_responses(&["web"]).await;
    println!("{count} requests without definitions and without a failure");
    assert_eq!(operator.status().counts.deleted, 0);
}

#[test]
#[ignore = "takes most of a minute: cargo xtask campaign definitions"]
fn deleted_definitions_lose_no_request() {
    let Some((testbed, _alone)) = testbed::Testbed::exclusive_from_env(Tier::Node).unwrap() else {
        return;
    };
    block_on(async {
        let client = client(&testbed.kubeconfig()).await;
        // The controller watches both kinds of routes.
        define_routes(&client).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RECORDS}});
        put(&client, &namespace).await;
        let tenant = Tenant::with(&testbed.kubeconfig(), |settings| {
            settings.manifest_namespace = RECORDS.to_owned();
        })
        .await;
        let follows = Scope {
            class: Some(CLASS.to_owned()),
            gateway: None,
            is_silent: false,
        };
        let proxy = Controller::start(&client, "undefined", follows).await;
        let operator = operator(&client, RECORDS, ingress(), false);
        let outcome = AssertUnwindSafe(run_scenario(&client, &tenant, &operator, &proxy))
            .catch_unwind()
            .await;
        operator.stop().await;
        define(&client).await;
        tenant.remove().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}
