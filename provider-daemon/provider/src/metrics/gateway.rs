//! Metrics of the gateway: requests, connections, streams, credentials, certificate.

use super::convert::{number, seconds};
use super::{Measure, MetricSource};
use akash_provider_gateway::{GatewayCounters, GatewayStatistics, PortStatistics, StreamKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Expiry of the gateway's certificate, in seconds since the Unix epoch. Clones share the value.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateExpiry(Arc<AtomicU64>);

#[derive(Debug)]
pub(crate) struct GatewaySource {
    counters: GatewayCounters,
    expiry: CertificateExpiry,
}

impl CertificateExpiry {
    /// Sets the expiry, since the Unix epoch.
    pub(crate) fn set(&self, at: Duration) {
        self.0.store(at.as_secs(), Ordering::Relaxed);
    }

    /// Returns the expiry, or `None` before a certificate is used.
    fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }
}

impl GatewaySource {
    pub(crate) const fn new(counters: GatewayCounters, expiry: CertificateExpiry) -> Self {
        Self { counters, expiry }
    }
}

impl MetricSource for GatewaySource {
    fn measures(&self) -> Vec<Measure> {
        let mut measures = self.counters.measures();
        let expiry = Measure::gauge(
            "akash_provider_gateway_certificate_expiry_timestamp_seconds",
            "Expiry of the provider's certificate, in seconds since the Unix epoch",
        );
        measures.push(match self.expiry.get() {
            Some(at) => expiry.with([], number(at)),
            None => expiry,
        });
        measures
    }
}

impl MetricSource for GatewayCounters {
    fn measures(&self) -> Vec<Measure> {
        measures(&self.statistics())
    }
}

fn measures(statistics: &GatewayStatistics) -> Vec<Measure> {
    let mut measures = Vec::new();
    measures.extend(requests(statistics));
    measures.extend(connections(statistics));
    measures.extend(streams(statistics));
    measures
}

fn requests(statistics: &GatewayStatistics) -> [Measure; 4] {
    let mut requests = Measure::counter("akash_provider_gateway_requests", "Requests by route and status");
    for (kind, count) in &statistics.requests {
        let (status, grpc) = (kind.status.to_string(), kind.grpc_status.to_string());
        let labels = [
            ("route", kind.route.as_str()),
            ("method", kind.method),
            ("status", status.as_str()),
            ("grpc_status", grpc.as_str()),
        ];
        requests = requests.with(labels, number(*count));
    }
    let durations = Measure::histogram(
        "akash_provider_gateway_request_duration_seconds",
        "Time until the response headers",
    );
    let mut rejected = Measure::counter(
        "akash_provider_gateway_rejected_credentials",
        "Requests and connections with rejected credentials",
    );
    for (reason, count) in &statistics.rejected_credentials {
        rejected = rejected.with([("reason", *reason)], number(*count));
    }
    let over_budget = Measure::counter(
        "akash_provider_gateway_over_budget",
        "Requests without credentials, refused at the limit of their network",
    );
    [
        requests,
        durations.with_histogram([], seconds(&statistics.durations)),
        rejected,
        over_budget.with([], number(statistics.over_budget)),
    ]
}

/// Name, help and getter of a counter for a gateway port.
type PortCounter = (&'static str, &'static str, fn(&PortStatistics) -> u64);

fn connections(statistics: &GatewayStatistics) -> Vec<Measure> {
    const COUNTERS: [PortCounter; 4] = [
        (
            "akash_provider_gateway_accepted_connections",
            "Accepted connections",
            |port| port.accepted,
        ),
        (
            "akash_provider_gateway_displaced_connections",
            "Connections closed to accept others, because a limit was reached",
            |port| port.displaced,
        ),
        (
            "akash_provider_gateway_delayed_connections",
            "Connections delayed by the limit of the port",
            |port| port.delayed,
        ),
        (
            "akash_provider_gateway_failed_handshakes",
            "Failed TLS handshakes",
            |port| port.failed_handshakes,
        ),
    ];
    let on_ports = |measure: Measure, value: fn(&PortStatistics) -> u64| {
        measure
            .with([("port", "rest")], number(value(&statistics.rest)))
            .with([("port", "grpc")], number(value(&statistics.grpc)))
    };
    let open = Measure::gauge(
        "akash_provider_gateway_connections",
        "Open connections, including streams",
    );
    let counters = COUNTERS.map(|(name, help, value)| on_ports(Measure::counter(name, help), value));
    let mut measures = vec![on_ports(open, |port| port.open)];
    measures.extend(counters);
    measures
}

fn streams(statistics: &GatewayStatistics) -> [Measure; 3] {
    let by_kind = |measure: Measure, counts: &BTreeMap<StreamKind, u64>| {
        StreamKind::ALL.into_iter().fold(measure, |measure, kind| {
            let count = counts.get(&kind).copied().unwrap_or(0);
            measure.with([("kind", kind.name())], number(count))
        })
    };
    let open = Measure::gauge("akash_provider_gateway_streams", "Open streams");
    let opened = Measure::counter("akash_provider_gateway_opened_streams", "Opened streams");
    let refused = Measure::counter(
        "akash_provider_gateway_refused_streams",
        "Streams that were refused because of a limit",
    );
    [
        by_kind(open, &statistics.open_streams),
        by_kind(opened, &statistics.streams),
        by_kind(refused, &statistics.refused_streams),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn scrape_has_each_count_of_a_gateway() {
        let mut counted = GatewayCounters::default().statistics();
        counted.rejected_credentials = [("token", 1), ("certificate", 2)].into();
        counted.over_budget = 3;
        counted.refused_streams = [(StreamKind::Logs, 4), (StreamKind::Shell, 5)].into();
        for (port, first) in [(&mut counted.rest, 6), (&mut counted.grpc, 11)] {
            *port = PortStatistics {
                open: first,
                accepted: first + 1,
                displaced: first + 2,
                delayed: first + 3,
                failed_handshakes: first + 4,
            };
        }
        let lines = r#"
            akash_provider_gateway_rejected_credentials_total{reason="token"} 1.0
            akash_provider_gateway_rejected_credentials_total{reason="certificate"} 2.0
            akash_provider_gateway_over_budget_total 3.0
            akash_provider_gateway_refused_streams_total{kind="logs"} 4.0
            akash_provider_gateway_refused_streams_total{kind="shell"} 5.0
            akash_provider_gateway_displaced_connections_total{port="rest"} 8.0
            akash_provider_gateway_delayed_connections_total{port="rest"} 9.0
            akash_provider_gateway_failed_handshakes_total{port="rest"} 10.0
            akash_provider_gateway_displaced_connections_total{port="grpc"} 13.0
            akash_provider_gateway_delayed_connections_total{port="grpc"} 14.0
            akash_provider_gateway_failed_handshakes_total{port="grpc"} 15.0"#;
        Metrics::of(measures(&counted)).check(lines);
    }
}
