//! The API server: set up, and asked how often it was called.

use crate::{Failed, SETTLE};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Group, HttpOptions, Proto, Service, ServiceExpose};
use akash_provider_core::types::{
    Address, Cpu, DeploymentId, Gpu, GroupId, LeaseId, Memory, OrderId, Resources, Storage,
};
use akash_provider_k8s::settings::Settings;
use http::Request;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const ACCOUNT: &str = "akash-provider";
const NAMESPACE: &str = "lease";
const WRITES: &str = "akash-provider-writes";
const READS: &str = "akash-provider-reads";
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests of the provider's account that the API server dispatched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) writes: f64,
    pub(crate) reads: f64,
}

/// Two clients of one API server.
pub(crate) struct Server {
    /// May do anything.
    pub(crate) admin: Client,
    config: Config,
}

impl Server {
    pub(crate) async fn open(file: &Path) -> Result<Self, Failed> {
        let kubeconfig = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let admin = Client::try_from(config.clone())?;
        for file in [
            "crds/manifests.yaml",
            "crds/providerhosts.yaml",
            "crds/providerleasedips.yaml",
            "rbac/provider.yaml",
            "rbac/confined.yaml",
        ] {
            for object in documents(file)? {
                put(&admin, &object).await?;
            }
        }
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        put(&admin, &schema(WRITES, 90, &writes)).await?;
        put(&admin, &schema(READS, 91, &["*"])).await?;
        let mut server = Self { admin, config };
        server.config.auth_info = server.token().await?;
        server.counts().await?;
        Ok(server)
    }

    async fn token(&self) -> Result<AuthInfo, Failed> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let (params, request) = (PostParams::default(), TokenRequest::default());
        let answer = accounts.create_token_request(ACCOUNT, &params, &request).await?;
        let token = answer.status.ok_or("no token")?.token;
        Ok(AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        })
    }

    /// A client of the provider's account, with connections of its own.
    pub(crate) fn client(&self) -> Result<Client, Failed> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// A schema takes effect a moment after it was made.
    async fn counts(&self) -> Result<(), Failed> {
        let accounts: Api<k8s_openapi::api::core::v1::Pod> = Api::all(self.client()?);
        let began = Instant::now();
        while self.calls().await?.reads < 1.0 {
            if began.elapsed() > PATIENCE {
                return Err("the API server does not count the calls of the account".into());
            }
            accounts.list(&kube::api::ListParams::default().limit(1)).await?;
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// What the API server counted so far.
    pub(crate) async fn calls(&self) -> Result<Calls, Failed> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let metrics = self.admin.request_text(request).await?;
        let of = |schema: &str| {
            let label = format!("flow_schema=\"{schema}\"");
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
            writes: of(WRITES),
            reads: of(READS),
        })
    }

    /// What it counted since.
    pub(crate) async fn since(&self, before: Calls) -> Result<Calls, Failed> {
        sleep(SETTLE).await;
        let now = self.calls().await?;
        Ok(Calls {
            writes: now.writes - before.writes,
            reads: now.reads - before.reads,
        })
    }
}

/// Requests of the account with one of these verbs.
fn schema(name: &str, precedence: u32, verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            // The level that service accounts have by default.
            "priorityLevelConfiguration": {"name": "workload-low"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": ACCOUNT, "namespace": NAMESPACE}}],
                "resourceRules": [{
                    "verbs": verbs, "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
                }],
                "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}],
            }],
        },
    })
}

fn documents(file: &str) -> Result<Vec<Value>, Failed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file);
    let text = std::fs::read_to_string(path)?;
    Ok(serde_saphyr::from_multiple(&text)?)
}

async fn put(client: &Client, object: &Value) -> Result<(), Failed> {
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

/// The settings of a provider.
pub(crate) fn settings(number: u8) -> Result<Settings, Failed> {
    let mut settings = Settings::new(Address::from_bytes(&[number; 20])?);
    settings.chain_id = "bench".to_owned();
    settings.public_hostname = "provider.localhost".to_owned();
    Ok(settings)
}

/// A lease of one service with a port for HTTP and one on the node.
pub(crate) fn deployment(settings: &Settings, dseq: u64) -> Result<WorkloadSpec, Failed> {
    let owner = Address::from_bytes(&[200; 20])?;
    let group = GroupId {
        deployment: DeploymentId { owner, dseq },
        gseq: 1,
    };
    let lease = LeaseId {
        order: OrderId { group, oseq: 1 },
        provider: settings.provider.clone(),
    };
    Ok(WorkloadSpec {
        lease,
        group: Arc::new(Group {
            name: "bench".to_owned(),
            services: vec![service()],
        }),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 1,
    })
}

fn service() -> Service {
    Service {
        name: "web".to_owned(),
        image: "nginx:1.27".to_owned(),
        command: None,
        args: None,
        env: Some(vec!["A=1".to_owned()]),
        resources: Resources {
            id: 1,
            cpu: Cpu {
                units: 100,
                attributes: Vec::new(),
            },
            memory: Memory {
                bytes: 64 << 20,
                attributes: Vec::new(),
            },
            storage: vec![Storage {
                name: "default".to_owned(),
                bytes: 64 << 20,
                attributes: Vec::new(),
            }],
            gpu: Gpu::default(),
            endpoints: Vec::new(),
        },
        count: 1,
        expose: [80, 9000].map(expose).to_vec(),
        params: None,
        credentials: None,
    }
}

fn expose(port: u16) -> ServiceExpose {
    ServiceExpose {
        port,
        external_port: 0,
        proto: Proto::Tcp,
        service: String::new(),
        global: true,
        hosts: None,
        http_options: HttpOptions::default(),
        ip: String::new(),
        endpoint_sequence_number: 0,
    }
}
