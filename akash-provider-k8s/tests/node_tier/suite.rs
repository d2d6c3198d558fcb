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
            let mut setup = conformance::Setup::new(world.settings.provider.clone());
            setup.image = "localhost/busybox:1".to_owned();
            setup.run = ["sh", "-c", "echo one; echo two; echo three; exec sleep 100000"]
                .map(str::to_owned)
                .to_vec();
            setup.timeout = Duration::from_secs(90);
            setup.quiet_time = Duration::from_secs(5);
            setup.poll_interval = Duration::from_millis(100);
            // A namespace takes ten seconds to terminate, regardless of their number.
            conformance::suite_concurrently(&*cluster, &setup).await;
        }
        .boxed()
    });
}
