//! Benchmark of the IP operator with a thousand leased addresses that are already in the desired state.

use crate::hostnames::{LEASES, lease, make_leases};
use crate::lease::settings;
use crate::load::each;
use crate::program::{MeasuredProcess, is_in_step};
use crate::{Bench, Failed, MeasuredOperator, RECORDS, print};
use serde_json::json;

pub(crate) async fn measure(bench: &Bench) -> Result<(MeasuredOperator<'_>, MeasuredProcess), Failed> {
    make_leases(&bench.server.admin).await?;
    each(LEASES, |number| declare(bench, number)).await?;
    let provider = settings(1)?.provider.to_string();
    let operator = bench.operator("ip", RECORDS, &["--provider", &provider]).await?;
    // Its status is a cached text with this refresh interval.
    let often = ["--web-refresh-interval", "100ms"];
    let first = operator.start(&often).await?;
    let took = first.until("/status", is_in_step).await?;
    print("ips_1000_made_s", took.as_secs_f64(), "s");
    first.stop().await?;

    let before = operator.account.calls().await?;
    let again = operator.start(&often).await?;
    let took = again.until("/status", is_in_step).await?;
    let calls = operator.account.since(before).await?;
    eprintln!(
        "{LEASES} leased IP addresses: the operator had no pending work {took:?} after its start; API calls: {calls:?}"
    );
    print("ips_1000_start_ms", took.as_secs_f64() * 1e3, "ms");
    print("ips_1000_start_writes", calls.writes, "writes");
    again.stop().await?;
    // With the default interval.
    let program = operator.start(&[]).await?;
    program.until("/status", is_in_step).await?;
    Ok((operator, program))
}

async fn declare(bench: &Bench, number: usize) -> Result<(), Failed> {
    let lease = lease(number)?;
    let group = &lease.order.group;
    let key = format!("{}-ip-front-{number}", lease.owner());
    let record = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "ProviderLeasedIP",
        "metadata": {"name": format!("{key}-tcp-80"), "namespace": RECORDS},
        "spec": {
            "lease_id": {
                "owner": group.deployment.owner, "dseq": group.deployment.dseq.to_string(), "gseq": group.gseq,
                "oseq": lease.order.oseq, "provider": lease.provider,
            },
            "service_name": "web", "port": 80, "external_port": 80, "sharing_key": key, "protocol": "TCP",
        },
    });
    bench.server.put(&record).await
}
