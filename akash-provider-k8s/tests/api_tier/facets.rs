//! Hostnames and leased IP addresses.

use crate::world::{World, run};
use akash_provider_core::cluster::{Cluster, HostnameDeclaration, IpDeclaration, LeasedIps};
use akash_provider_core::error::ErrorKind;
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::{LeaseId, id::ip_sharing_key};
use akash_provider_k8s::labels;
use futures::FutureExt;
use serde_json::json;
use std::sync::Arc;

fn name(hostname: &str, service: &str) -> HostnameDeclaration {
    HostnameDeclaration::new(hostname, service, 80)
}

fn address(lease: &LeaseId, endpoint: &str, port: u16, proto: Proto) -> IpDeclaration {
    IpDeclaration {
        service: "web".to_owned(),
        port,
        external_port: port,
        proto,
        sharing_key: ip_sharing_key(lease.owner(), endpoint),
    }
}

async fn with_ips(world: &World, pool: u32) -> Arc<dyn LeasedIps> {
    let mut settings = world.settings.clone();
    settings.leased_ips = true;
    settings.leased_ip_pool = pool;
    world.connect_with(settings).await.leased_ips().unwrap()
}

#[test]
fn unchanged_hostname_is_not_written() {
    run("hostname", |world| {
        async move {
            let hosts = world.connect().await.hostnames().unwrap();
            let (one, two) = (world.lease(1, 1), world.lease(2, 2));
            hosts
                .declare_hostname(&one, &name("a.example", "web"))
                .await
                .unwrap();
            let own = &world.settings.manifest_namespace;
            let before = world.get("ProviderHost", own, "a.example").await.unwrap();
            world.take_calls();
            hosts
                .declare_hostname(&one, &name("a.example", "web"))
                .await
                .unwrap();
            assert_eq!(world.take_calls(), []);
            hosts
                .declare_hostname(&two, &name("a.example", "api"))
                .await
                .unwrap();
            let after = world.get("ProviderHost", own, "a.example").await.unwrap();
            assert_eq!(after["spec"]["dseq"], json!(2));
            assert_eq!(after["spec"]["service_name"], json!("api"));
            assert_eq!(after["metadata"]["labels"][labels::LEASE_DSEQ], json!("2"));
            let uid = |o: &serde_json::Value| o["metadata"]["uid"].clone();
            assert_eq!(uid(&after), uid(&before), "the route was moved without a gap");
            let at = after["metadata"]["annotations"][labels::UPDATED_AT]
                .as_str()
                .unwrap();
            assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
        }
        .boxed()
    });
}

#[test]
fn hostname_of_another_provider_is_unchanged() {
    run("other-host", |world| {
        async move {
            let hosts = world.connect().await.hostnames().unwrap();
            let own = &world.settings.manifest_namespace;
            let other = akash_provider_core::types::Address::from_bytes(&[77; 20])
                .unwrap()
                .to_string();
            let object = json!({
                "apiVersion": "akash.network/v2beta2", "kind": "ProviderHost",
                "metadata": {"name": "a.example", "namespace": own},
                "spec": {
                    "owner": other, "provider": other, "hostname": "a.example",
                    "dseq": 1, "gseq": 1, "oseq": 1, "service_name": "web", "external_port": 80,
                },
            });
            crate::world::put(&world.admin, &object, "somebody").await;
            let lease = world.lease(1, 1);
            let refused = hosts.declare_hostname(&lease, &name("a.example", "web")).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
            hosts.purge_declared_hostname(&lease, "a.example").await.unwrap();
            assert!(world.get("ProviderHost", own, "a.example").await.is_some());
        }
        .boxed()
    });
}

#[test]
fn withdrawn_address_does_not_affect_others() {
    run("one-ip", |world| {
        async move {
            let ips = with_ips(world, 9).await;
            let (one, two) = (world.lease(1, 1), world.lease(2, 2));
            let declared = [
                (&one, address(&one, "front", 80, Proto::Tcp)),
                (&one, address(&one, "front", 53, Proto::Udp)),
                (&two, address(&two, "front", 53, Proto::Tcp)),
            ];
            let gone = address(&one, "front", 53, Proto::Tcp);
            for (lease, ip) in &declared {
                ips.declare_ip(lease, ip, false).await.unwrap();
            }
            ips.declare_ip(&one, &gone, false).await.unwrap();
            ips.purge_declared_ip(&two, &gone).await.unwrap();
            assert_eq!(
                ips.declared_ips(&one).await.unwrap().len(),
                3,
                "only the owner withdraws an address"
            );
            ips.purge_declared_ip(&one, &gone).await.unwrap();
            let mut left = ips.declared_ips(&one).await.unwrap();
            left.sort();
            let mut wanted = [declared[0].1.clone(), declared[1].1.clone()];
            wanted.sort();
            assert_eq!(left, wanted);
            assert_eq!(ips.declared_ips(&two).await.unwrap(), [declared[2].1.clone()]);
            let usage = ips.usage().await.unwrap();
            assert_eq!((usage.total, usage.in_use, usage.confirmed.len()), (9, 2, 2));
        }
        .boxed()
    });
}

#[test]
fn address_never_moves_to_another_tenant() {
    run("tenants", |world| {
        async move {
            let ips = with_ips(world, 2).await;
            let (one, other) = (world.lease(1, 1), world.lease(2, 2));
            let ip = address(&one, "front", 80, Proto::Tcp);
            ips.declare_ip(&one, &ip, false).await.unwrap();
            for overwrite in [false, true] {
                let refused = ips.declare_ip(&other, &ip, overwrite).await;
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
            }
            // Endpoints with the same name in different deployments have different addresses.
            ips.declare_ip(&other, &address(&other, "front", 80, Proto::Tcp), false)
                .await
                .unwrap();
            assert_eq!(ips.usage().await.unwrap().in_use, 2);
            let full = ips
                .declare_ip(&one, &address(&one, "back", 80, Proto::Tcp), false)
                .await;
            assert_eq!(
                full.unwrap_err().kind(),
                ErrorKind::Unavailable,
                "the pool is exhausted"
            );
            // All ports of an address move together.
            let third = world.lease(1, 3);
            ips.declare_ip(&one, &address(&one, "front", 81, Proto::Tcp), false)
                .await
                .unwrap();
            ips.declare_ip(&third, &ip, true).await.unwrap();
            assert_eq!(ips.declared_ips(&one).await.unwrap(), []);
            assert_eq!(ips.declared_ips(&third).await.unwrap(), [ip]);
        }
        .boxed()
    });
}
