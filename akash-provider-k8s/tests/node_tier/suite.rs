//! The suite of the port, whole, with real pods and under the provider's own account.

use crate::world::run;
use akash_provider_core::cluster::conformance;
use futures::FutureExt;
use std::time::Duration;

#[test]
fn the_suite_passes() {
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
                patience: Duration::from_secs(90),
                quiet: Duration::from_secs(5),
                pause: Duration::from_millis(100),
                ..conformance::Setup::new(world.settings.provider.clone())
            };
            // Namespaces take ten seconds to end, however many do.
            conformance::suite_at_once(&*cluster, &setup).await;
        }
        .boxed()
    });
}
