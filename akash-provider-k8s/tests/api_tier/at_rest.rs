//! Idle operators make no API calls, for every set of kinds that the cluster lacks. A watch of the
//! definitions reports a new kind.

use crate::hostname_operator;
use crate::ip_operator::fixture::{self, POOLS};
use crate::world::{World, run_alone};
use akash_provider_core::manifest::HttpOptions;
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::state::{Definitions, WatchConfig};
use akash_provider_operators::hostname::route::Mode;
use akash_provider_operators::ip::IpOperator;
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use std::time::Duration;
use tokio::time::sleep;

const REST: Duration = Duration::from_secs(5);

/// Returns short retry delays, so that the test detects polling.
fn eager() -> WatchConfig {
    let mut config = WatchConfig::default();
    config.wait_absent = Duration::from_millis(200);
    config.wait_absent_max = Duration::from_millis(200);
    config
}

/// Deletes the definition of MetalLB's pools.
async fn delete_pools(world: &World) {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
    let _ = definitions.delete(POOLS, &DeleteParams::default()).await;
    let gone = || async { definitions.get_opt(POOLS).await.unwrap().is_none() };
    world.until("pools are not defined", gone).await;
}

async fn assert_quiet(world: &World) {
    // Wait until the effects of the last step are over.
    sleep(Duration::from_secs(2)).await;
    world.take_calls();
    sleep(REST).await;
    assert_eq!(world.take_calls(), [], "an idle operator makes no call");
}

fn has_pools(operator: &IpOperator) -> bool {
    operator.usage().total.is_some()
}

#[test]
fn idle_operators_make_no_calls_and_notice_new_kinds() {
    run_alone("at-rest", |world, _| {
        async move {
            delete_pools(world).await;
            hostname_operator::give_rights(world).await;
            let client = fixture::account(world).await;
            let (named, leased) = (world.lease(1, 1), world.lease(2, 2));
            hostname_operator::record(world, &named, &HttpOptions::default()).await;
            hostname_operator::declare(world, &named, "a.example.com").await;
            fixture::record(world, &leased).await;
            fixture::declare(world, &leased, "front", 80).await;
            let definitions = Definitions::default();
            let mut options = hostname_operator::options(world, Mode::default());
            (options.watch_config, options.definitions) = (eager(), definitions.clone());
            let hostnames = hostname_operator::start(&world.client, options).await;
            let mut options = fixture::options(world);
            (options.watch_config, options.definitions) = (eager(), Definitions::default());
            let addresses = fixture::start(&client, options).await;
            let mut options = CapacityOptions::default();
            (options.watch_config, options.definitions) = (eager(), definitions);
            let _count = KubeInventory::start_whole(&world.client, &options);
            let done = || async {
                hostname_operator::is_written(&hostnames, "a.example.com")
                    && fixture::is_written(&addresses, &leased, 80)
                    && hostnames.status().front.is_there.is_some()
            };
            world.until("all objects are written", done).await;
            assert_quiet(world).await;
            for watches in [hostnames.status().watches, addresses.status().watches] {
                assert!(watches["customresourcedefinitions"].synced, "{watches:?}");
            }
            assert!(!has_pools(&addresses));
            fixture::define_pools(world).await;
            fixture::pool(world, "default", &["203.0.113.0/28"]).await;
            let has_total = || async { addresses.usage().total == Some(16) };
            world
                .until("the operator has read the address pools", has_total)
                .await;
            fixture::give(world, &leased, 80, &["203.0.113.7"]).await;
            let asked = || async { addresses.status().metallb.at.is_some() };
            world.until("MetalLB is queried", asked).await;
            assert_quiet(world).await;
            hostnames.stop().await;
            addresses.stop().await;
            hostname_operator::take_rights(world).await;
            fixture::take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn missing_kinds_are_polled_without_right_to_definitions() {
    run_alone("no-definitions", |world, _| {
        async move {
            delete_pools(world).await;
            let client = fixture::account(world).await;
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let mut role = roles.get(&fixture::role(world)).await.unwrap();
            let is_of_definitions = |group: &String| group == "apiextensions.k8s.io";
            let rules = role.rules.get_or_insert_default();
            rules.retain(|rule| !rule.api_groups.iter().flatten().any(is_of_definitions));
            let name = fixture::role(world);
            roles.replace(&name, &PostParams::default(), &role).await.unwrap();
            let mut options = fixture::options(world);
            options.watch_config = eager();
            let operator = fixture::start(&client, options).await;
            let is_reported = || async {
                let watches = operator.status().watches;
                let watch = watches.get("customresourcedefinitions");
                let error = watch.and_then(|watch| watch.last_error.clone());
                error.is_some_and(|error| error.contains("forbidden"))
            };
            world.until("the missing right is reported", is_reported).await;
            fixture::define_pools(world).await;
            let has_total = || async { has_pools(&operator) };
            world
                .until("the operator has read the address pools", has_total)
                .await;
            operator.stop().await;
            fixture::take_rights(world).await;
        }
        .boxed()
    });
}
