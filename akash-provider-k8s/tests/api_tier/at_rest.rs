//! At rest operators ask nothing, whatever kinds the cluster lacks: the watch of definitions says when one comes.

use crate::hostname_operator;
use crate::ip_operator::corner::{self, POOLS};
use crate::world::{World, run_alone};
use akash_provider_core::manifest::HttpOptions;
use akash_provider_k8s::inventory::{KubeInventory, Options as CountOptions};
use akash_provider_k8s::operators::hostname::route::Mode;
use akash_provider_k8s::operators::ip::IpOperator;
use akash_provider_k8s::state::{Definitions, WatchConfig};
use futures::FutureExt;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use std::time::Duration;
use tokio::time::sleep;

const REST: Duration = Duration::from_secs(5);

/// A kind that is asked for again and again would be asked for many times while nothing happens.
fn eager() -> WatchConfig {
    WatchConfig {
        wait_absent: Duration::from_millis(200),
        wait_absent_max: Duration::from_millis(200),
        ..WatchConfig::default()
    }
}

/// The cluster has no pools of MetalLB.
async fn without_pools(world: &World) {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.admin.clone());
    let _ = definitions.delete(POOLS, &DeleteParams::default()).await;
    let gone = || async { definitions.get_opt(POOLS).await.unwrap().is_none() };
    world.until("pools are not defined", gone).await;
}

async fn assert_quiet(world: &World) {
    // What the last step led to is done.
    sleep(Duration::from_secs(2)).await;
    world.take_calls();
    sleep(REST).await;
    assert_eq!(world.take_calls(), [], "nothing happens");
}

fn knows_pools(operator: &IpOperator) -> bool {
    operator.usage().total.is_some()
}

#[test]
fn operators_at_rest_ask_nothing_and_hear_of_a_kind_that_comes() {
    run_alone("at-rest", |world, _| {
        async move {
            without_pools(world).await;
            hostname_operator::give_rights(world).await;
            let client = corner::account(world).await;
            let (named, leased) = (world.lease(1, 1), world.lease(2, 2));
            hostname_operator::record(world, &named, &HttpOptions::default()).await;
            hostname_operator::declare(world, &named, "a.example.com").await;
            corner::record(world, &leased).await;
            corner::declare(world, &leased, "front", 80).await;
            let definitions = Definitions::default();
            let mut options = hostname_operator::options(world, Mode::default());
            (options.watch_config, options.definitions) = (eager(), definitions.clone());
            let hostnames = hostname_operator::start(&world.client, options).await;
            let mut options = corner::options(world);
            (options.watch_config, options.definitions) = (eager(), Definitions::default());
            let addresses = corner::start(&client, options).await;
            let _count = KubeInventory::start_whole(
                &world.client,
                &CountOptions {
                    watch_config: eager(),
                    definitions,
                    ..CountOptions::default()
                },
            );
            let done = || async {
                hostname_operator::is_written(&hostnames, "a.example.com")
                    && corner::is_written(&addresses, &leased, 80)
                    && hostnames.status().front.is_there.is_some()
            };
            world.until("all is written", done).await;
            assert_quiet(world).await;
            for watches in [hostnames.status().watches, addresses.status().watches] {
                assert!(watches["customresourcedefinitions"].synced, "{watches:?}");
            }
            assert!(!knows_pools(&addresses));
            corner::define_pools(world).await;
            corner::pool(world, "default", &["203.0.113.0/28"]).await;
            let known = || async { addresses.usage().total == Some(16) };
            world.until("the pools are there", known).await;
            corner::give(world, &leased, 80, &["203.0.113.7"]).await;
            let asked = || async { addresses.status().metallb.at.is_some() };
            world.until("MetalLB is asked", asked).await;
            assert_quiet(world).await;
            hostnames.stop().await;
            addresses.stop().await;
            hostname_operator::take_rights(world).await;
            corner::take_rights(world).await;
        }
        .boxed()
    });
}

#[test]
fn without_the_right_to_definitions_kinds_are_asked_for_now_and_then() {
    run_alone("no-definitions", |world, _| {
        async move {
            without_pools(world).await;
            let client = corner::account(world).await;
            let roles: Api<ClusterRole> = Api::all(world.admin.clone());
            let mut role = roles.get(&corner::role(world)).await.unwrap();
            let is_of_definitions = |group: &String| group == "apiextensions.k8s.io";
            let rules = role.rules.get_or_insert_default();
            rules.retain(|rule| !rule.api_groups.iter().flatten().any(is_of_definitions));
            let name = corner::role(world);
            roles.replace(&name, &PostParams::default(), &role).await.unwrap();
            let mut options = corner::options(world);
            options.watch_config = eager();
            let operator = corner::start(&client, options).await;
            let told = || async {
                let watches = operator.status().watches;
                let watch = watches.get("customresourcedefinitions");
                let error = watch.and_then(|watch| watch.last_error.clone());
                error.is_some_and(|error| error.contains("forbidden"))
            };
            world.until("the right that is missing is told", told).await;
            corner::define_pools(world).await;
            let known = || async { knows_pools(&operator) };
            world.until("the pools are there", known).await;
            operator.stop().await;
            corner::take_rights(world).await;
        }
        .boxed()
    });
}
