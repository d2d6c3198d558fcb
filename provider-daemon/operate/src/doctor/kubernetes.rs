//! API server: access.

use super::DoctorContext;
use super::check::Check;
use super::cluster_read::{LIMIT, get};
use super::{definitions, rights, routes};
use akash_provider_service::cluster_client::client;
use kube::Client;
use serde::Deserialize;
use std::time::SystemTime;
use tokio::time::timeout;

pub(super) const SUBJECT: &str = "cluster";
const VERSION_BYTES: usize = 64 * 1024;

/// Connection to the API server.
#[derive(Clone)]
pub(super) struct ClusterConnection {
    pub(super) client: Client,
    version: String,
    /// Time of the API server, from the `Date` header of its response.
    pub(super) date: Option<SystemTime>,
}

/// Reason why there is no connection to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoCluster {
    /// The settings select no cluster, so leases run in memory.
    InMemory,
    /// The API server cannot be used.
    Unusable(String),
}

impl NoCluster {
    /// Returns the reason why checks of the cluster are skipped.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::InMemory => "leases run in memory, without --cluster-k8s",
            Self::Unusable(_) => "the cluster is not available",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesVersion {
    git_version: String,
}

pub(super) async fn connect(context: &DoctorContext<'_>) -> Result<ClusterConnection, NoCluster> {
    let kubernetes = &context.args.kubernetes;
    if !context.args.cluster_k8s && kubernetes.kubeconfig.is_none() {
        return Err(NoCluster::InMemory);
    }
    let connecting = async {
        let client = client(kubernetes.kubeconfig.as_deref()).await?;
        let response = get(&client, "/version", VERSION_BYTES).await?;
        let date = response.headers().get(http::header::DATE);
        let date = date.and_then(|date| date.to_str().ok()).and_then(parse_date);
        let version: KubernetesVersion = serde_json::from_slice(response.body())?;
        anyhow::Ok(ClusterConnection {
            client,
            version: version.git_version,
            date,
        })
    };
    match timeout(LIMIT, connecting).await {
        Ok(Ok(cluster)) => Ok(cluster),
        Ok(Err(error)) => Err(NoCluster::Unusable(format!("{error:#}"))),
        Err(_) => Err(NoCluster::Unusable(format!("no response within {LIMIT:?}"))),
    }
}

/// Parses the date of an HTTP header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = parts[..] else {
        return None;
    };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

pub(super) async fn checks(
    context: &DoctorContext<'_>,
    cluster: Result<ClusterConnection, NoCluster>,
) -> Vec<Check> {
    let cluster = match cluster {
        Ok(cluster) => cluster,
        Err(absence) => return vec![judge_absence(&absence)],
    };
    let (rights, leases, definitions, routes) = tokio::join!(
        rights::checks(context, &cluster.client),
        rights::lease_checks(context, &cluster.client),
        definitions::check(&cluster.client, context.remaining(LIMIT)),
        routes::checks(context, &cluster.client)
    );
    let mut checks = vec![Check::ok(SUBJECT, format!("Kubernetes {}", cluster.version))];
    checks.extend(rights);
    checks.extend(leases);
    checks.push(definitions);
    checks.extend(routes);
    checks
}

fn judge_absence(absence: &NoCluster) -> Check {
    match absence {
        NoCluster::InMemory => Check::skipped(SUBJECT, absence.reason()),
        NoCluster::Unusable(why) => Check::failure(
            SUBJECT,
            format!("cannot connect: {why}"),
            "check the address and the credentials in --kubeconfig, or run in a pod with a service account",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn date_of_a_response_is_parsed() {
        let date = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let seconds = date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(seconds, 784_111_777);
        assert_eq!(parse_date("Sun, 06 Foo 1994 08:49:37 GMT"), None);
        assert_eq!(parse_date("yesterday"), None);
    }

    #[test]
    fn cluster_must_be_usable() {
        assert_eq!(judge_absence(&NoCluster::InMemory).severity(), Severity::Skipped);
        let down = NoCluster::Unusable("refused".to_owned());
        assert_eq!(judge_absence(&down).severity(), Severity::Failure);
    }
}
