//! API server that counts the calls of a ServiceAccount.
//!
//! The ServiceAccount has its own flow schemas, one for each kind of call. The metrics of the API server
//! contain the number of dispatched requests of each flow schema.

use crate::Failed;
use http::Request;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Delay for the API server to update its counts of calls.
const SETTLE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// Lifetime of tokens, in seconds. No benchmark runs longer.
const TOKEN_SECONDS: i64 = 4 * 3600;

pub(crate) struct Server {
    /// Client with all rights.
    pub(crate) admin: Client,
    config: Config,
    cluster: Cluster,
}

/// ServiceAccount with separate call counters in the API server.
pub(crate) struct Account {
    name: String,
    admin: Client,
    config: Config,
    /// Kubeconfig of the ServiceAccount, for child processes.
    #[allow(dead_code, reason = "only some users of this file start programs")]
    pub(crate) kubeconfig: Value,
}

/// Number of requests of each kind that the API server dispatched for a ServiceAccount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) writes: f64,
    pub(crate) reads: f64,
    /// Number of started watches.
    pub(crate) watches: f64,
    /// Number of requests for the Lease objects of leader elections.
    pub(crate) elections: f64,
}

/// Kinds of calls. A call belongs to the first kind that matches.
const KINDS: [(&str, &[&str], &str); 4] = [
    ("elections", &["*"], "leases"),
    ("watches", &["watch"], "*"),
    (
        "writes",
        &["create", "update", "patch", "delete", "deletecollection"],
        "*",
    ),
    ("reads", &["*"], "*"),
];

impl Calls {
    pub(crate) fn all(&self) -> f64 {
        self.writes + self.reads + self.watches + self.elections
    }
}

impl Server {
    /// Connects to the API server of kubeconfig `file`, and applies the manifests `files` of the folder `deploy`.
    pub(crate) async fn open(file: &Path, files: &[&str]) -> Result<Self, Failed> {
        let kubeconfig = Kubeconfig::read_from(file)?;
        let cluster = kubeconfig
            .clusters
            .first()
            .and_then(|named| named.cluster.clone());
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let server = Self {
            admin: Client::try_from(config.clone())?,
            config,
            cluster: cluster.ok_or("the kubeconfig has no cluster")?,
        };
        server.apply(files).await?;
        Ok(server)
    }

    /// Creates or updates the objects in the manifests `files` of the folder `deploy`.
    pub(crate) async fn apply(&self, files: &[&str]) -> Result<(), Failed> {
        for file in files {
            for object in documents(file)? {
                self.put(&object).await?;
            }
        }
        Ok(())
    }

    /// Starts to count the calls of an existing ServiceAccount.
    pub(crate) async fn account(&self, namespace: &str, name: &str) -> Result<Account, Failed> {
        for (precedence, (kind, verbs, resource)) in (80..).zip(KINDS) {
            let schema = schema((namespace, name), kind, precedence, verbs, resource);
            self.put(&schema).await?;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let mut request = TokenRequest::default();
        request.spec.expiration_seconds = Some(TOKEN_SECONDS);
        let params = PostParams::default();
        let answer = accounts.create_token_request(name, &params, &request).await?;
        let token = answer.status.ok_or("no token")?.token;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": self.cluster}],
            "users": [{"name": "bench", "user": {"token": token}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        });
        let mut config = self.config.clone();
        config.auth_info = AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        };
        let account = Account {
            name: name.to_owned(),
            admin: self.admin.clone(),
            config,
            kubeconfig,
        };
        account.counts().await?;
        Ok(account)
    }

    pub(crate) async fn put(&self, object: &Value) -> Result<(), Failed> {
        put(&self.admin, object).await
    }
}

impl Account {
    pub(crate) fn client(&self) -> Result<Client, Failed> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// Waits until the API server has started to count the calls of the ServiceAccount.
    async fn counts(&self) -> Result<(), Failed> {
        let pods: Api<Pod> = Api::all(self.client()?);
        let began = Instant::now();
        while self.calls().await?.reads < 1.0 {
            if began.elapsed() > PATIENCE {
                return Err(format!("the API server does not count the calls of {}", self.name).into());
            }
            // Rejected requests count too.
            drop(pods.list(&ListParams::default().limit(1)).await);
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    pub(crate) async fn calls(&self) -> Result<Calls, Failed> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let metrics = self.admin.request_text(request).await?;
        let of = |kind: &str| {
            let label = format!("flow_schema=\"{}\"", schema_name(&self.name, kind));
            let dispatched = |line: &&str| {
                line.starts_with("apiserver_flowcontrol_dispatched_requests_total") && line.contains(&label)
            };
            let values = metrics
                .lines()
                .filter(dispatched)
                .filter_map(|l| l.rsplit(' ').next());
            values.filter_map(|v| v.parse::<f64>().ok()).sum()
        };
        Ok(Calls {
            writes: of("writes"),
            reads: of("reads"),
            watches: of("watches"),
            elections: of("elections"),
        })
    }

    /// Returns the number of calls made after `before` was read.
    pub(crate) async fn since(&self, before: Calls) -> Result<Calls, Failed> {
        sleep(SETTLE).await;
        let now = self.calls().await?;
        Ok(Calls {
            writes: now.writes - before.writes,
            reads: now.reads - before.reads,
            watches: now.watches - before.watches,
            elections: now.elections - before.elections,
        })
    }
}

fn schema_name(account: &str, kind: &str) -> String {
    format!("{account}-{kind}")
}

/// Returns the FlowSchema object that selects one kind of call of a ServiceAccount.
fn schema(
    (namespace, account): (&str, &str),
    kind: &str,
    precedence: u32,
    verbs: &[&str],
    resource: &str,
) -> Value {
    let subject =
        json!({"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": namespace}});
    let mut rule = json!({
        "subjects": [subject],
        "resourceRules": [{
            "verbs": verbs, "apiGroups": ["*"], "resources": [resource], "clusterScope": true, "namespaces": ["*"],
        }],
    });
    if resource == "*" {
        rule["nonResourceRules"] = json!([{"verbs": verbs, "nonResourceURLs": ["*"]}]);
    }
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": schema_name(account, kind)},
        "spec": {
            "matchingPrecedence": precedence,
            // Default priority level of service accounts.
            "priorityLevelConfiguration": {"name": "workload-low"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule],
        },
    })
}

fn documents(file: &str) -> Result<Vec<Value>, Failed> {
    let path = Path::new(crate::DEPLOY).join(file);
    let text = std::fs::read_to_string(path)?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

pub(crate) async fn put(client: &Client, object: &Value) -> Result<(), Failed> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("bench").force();
    api.patch(&text(&object["metadata"]["name"]), &params, &Patch::Apply(object))
        .await?;
    Ok(())
}
