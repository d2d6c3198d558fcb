//! The complete conformance suite of the cluster port, with real pods and the account of the provider.

use crate::world::run;
use akash_provider_core::cluster::conformance;
use futures::FutureExt;
use std::time::Duration;

#[test]
fn cluster_passes_conformance_suite() {
    run("node-suite", |world| {
        async move {
            let mut settings = world.settings.clone();
            settings.leased_ips = true;
            settings.leased_ip_pool = 4;
            let cluster = world.connect_with(settings).await;
            let setup = conformance::Setup {
                image: "localhost/busybox:1".to_owned(),
                run: ["sh", "-c", "echo one; echo two; echo three; exec sleep 100000"]
                    .map(str::to_owned)
                    .to_vec(),
                timeout: Duration::from_secs(90),
                quiet_time: Duration::from_secs(5),
                poll_interval: Duration::from_millis(100),
                ..conformance::Setup::new(world.settings.provider.clone())
            };
            // A namespace takes ten seconds to terminate, regardless of their number.
            conformance::suite_concurrently(&*cluster, &setup).await;
        }
        .boxed()
    });
}
