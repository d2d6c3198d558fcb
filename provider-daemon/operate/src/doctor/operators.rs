//! Operators: in the process of the provider, or as Services of the cluster.

use super::DoctorContext;
use super::check::Check;
use super::kubernetes::{ClusterConnection, NoCluster};
use akash_provider_core::error::chain_text;
use akash_provider_service::args::operators::EmbeddedOperatorArg;
use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(3);
/// Port of the REST server of an operator, in the charts and by default.
const PORT: u16 = 8080;

/// Operator, with the name of its Service in the charts of the Go provider.
#[derive(Debug, Clone, Copy)]
struct OperatorService {
    kind: EmbeddedOperatorArg,
    name: &'static str,
    service: &'static str,
}

const OPERATORS: [OperatorService; 3] = [
    OperatorService {
        kind: EmbeddedOperatorArg::Hostname,
        name: "hostname",
        service: "operator-hostname",
    },
    OperatorService {
        kind: EmbeddedOperatorArg::Ip,
        name: "ip",
        service: "operator-ip",
    },
    OperatorService {
        kind: EmbeddedOperatorArg::Inventory,
        name: "inventory",
        service: "operator-inventory",
    },
];

#[derive(Debug, PartialEq, Eq)]
enum OperatorFacts {
    /// Configured as embedded in the provider. Contains the status of the operator while the provider runs.
    Embedded(Option<String>),
    /// The Service of the operator does not exist.
    NoService,
    /// HTTP status of the path `/health`, or the reason why there is no response.
    Health(Result<u16, String>),
    /// The query for Services failed with this error.
    Unknown(String),
}

pub(super) async fn checks(
    context: &DoctorContext<'_>,
    cluster: Result<ClusterConnection, NoCluster>,
) -> Vec<Check> {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(absence) => return vec![Check::skipped("operators", absence.reason())],
    };
    let kubernetes = &context.args.kubernetes;
    let limit = context.remaining(LIMIT);
    let each = OPERATORS.map(|operator| {
        let client = cluster.client.clone();
        async move {
            let facts = match kubernetes.runs(operator.kind) {
                true => OperatorFacts::Embedded(context.embedded_operator(operator.name)),
                false => match timeout(limit, query(&client, operator.service)).await {
                    Ok(facts) => facts,
                    Err(_) => OperatorFacts::Health(Err(format!("no response within {limit:.1?}"))),
                },
            };
            // The provider counts the capacity itself, so the inventory operator only sets labels.
            let is_required = match operator.kind {
                EmbeddedOperatorArg::Hostname => true,
                EmbeddedOperatorArg::Ip => kubernetes.ip_operator,
                _ => false,
            };
            judge(operator, &facts, is_required)
        }
    });
    futures::future::join_all(each).await
}

/// Finds the Service in any namespace, and queries its path `/health`.
async fn query(client: &Client, service: &str) -> OperatorFacts {
    let services: Api<Service> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={service}"));
    let found = match services.list(&params).await {
        Ok(found) => found.items.into_iter().next(),
        Err(error) => return OperatorFacts::Unknown(error.to_string()),
    };
    let Some(namespace) = found.and_then(|service| service.metadata.namespace) else {
        return OperatorFacts::NoService;
    };
    let is_in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if is_in_cluster {
        let health = health(&format!("{service}.{namespace}.svc")).await;
        return OperatorFacts::Health(health.map_err(|error| chain_text(error.as_ref())));
    }
    let path = format!("/api/v1/namespaces/{namespace}/services/{service}:rest/proxy/health");
    let request = match Request::get(path).body(Vec::new()) {
        Ok(request) => request,
        Err(error) => return OperatorFacts::Health(Err(error.to_string())),
    };
    match client.request_text(request).await {
        Ok(_) => OperatorFacts::Health(Ok(200)),
        Err(kube::Error::Api(status)) if status.code == 403 => OperatorFacts::Unknown(
            "this Kubernetes user has no right to the proxy of the API server".to_owned(),
        ),
        Err(error) => OperatorFacts::Health(Err(error.to_string())),
    }
}

/// Queries the path `/health` of a Service from inside a pod.
async fn health(host: &str) -> anyhow::Result<u16> {
    let stream = TcpStream::connect((host, PORT)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with the response.
    tokio::spawn(connection);
    let request = Request::get("/health")
        .header(HOST, host)
        .body(Empty::<Bytes>::new())?;
    Ok(sender.send_request(request).await?.status().as_u16())
}

fn judge(operator: OperatorService, facts: &OperatorFacts, is_required: bool) -> Check {
    let subject = format!("{} operator", operator.name);
    let embed = format!(
        "run the operator in this process with --with-operators {}",
        operator.name
    );
    match facts {
        OperatorFacts::Embedded(Some(status)) if status.contains("active") || status.contains("standby") => {
            Check::ok(subject, format!("in the process of the provider, {status}"))
        }
        OperatorFacts::Embedded(Some(status)) => Check::warning(
            subject,
            format!("in the process of the provider, {status}"),
            "run `operator status --output json`, and check the rights of deploy/operators",
        ),
        OperatorFacts::Embedded(None) => Check::skipped(subject, "starts with the provider"),
        OperatorFacts::NoService if !is_required => Check::skipped(subject, "not required by the settings"),
        OperatorFacts::NoService => Check::warning(
            subject,
            format!("the cluster has no Service `{}`", operator.service),
            format!("{embed}; ignore this warning if the operator runs without a Service"),
        ),
        OperatorFacts::Health(Ok(200)) => Check::ok(subject, "healthy"),
        OperatorFacts::Health(Ok(status)) => {
            Check::problem(!is_required, subject, format!("/health returns {status}"), embed)
        }
        OperatorFacts::Health(Err(why)) => {
            let help = format!("restart the pod of `{}`, or {embed}", operator.service);
            Check::problem(!is_required, subject, format!("/health: {why}"), help)
        }
        OperatorFacts::Unknown(why) => Check::skipped(subject, why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn required_operator_must_be_healthy() {
        use OperatorFacts::{Embedded, Health, NoService, Unknown};
        let [ok, skipped, warning, failure] = [
            Severity::Ok,
            Severity::Skipped,
            Severity::Warning,
            Severity::Failure,
        ];
        for (facts, is_required, wanted) in [
            (Embedded(Some("hostname: active".to_owned())), true, ok),
            (
                Embedded(Some("hostname: waiting for the cluster".to_owned())),
                true,
                warning,
            ),
            (Embedded(None), true, skipped),
            (NoService, true, warning),
            (NoService, false, skipped),
            (Health(Ok(200)), true, ok),
            (Health(Ok(503)), true, failure),
            (Health(Err("refused".to_owned())), true, failure),
            (Health(Err("refused".to_owned())), false, warning),
            (Unknown("forbidden".to_owned()), true, skipped),
        ] {
            let check = judge(OPERATORS[0], &facts, is_required);
            assert_eq!(check.severity(), wanted, "{facts:?}");
        }
    }
}
