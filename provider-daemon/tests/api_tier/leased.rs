//! Lease with every kind of object, and the acts of its tenant and of another client of the API server.

use crate::requests::LoggedAccount;
use crate::scrape::scraped;
use crate::stage::{ADDRESS, Running, Stage, until};
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl;
use akash_provider_core::types::{Address, Coin, DeploymentId};
use serde_json::json;
use testbed::Testbed;

const WORDS: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";
const DSEQ: &str = "9";
pub(crate) const NODE: &str = "run-operators";
/// Public and private image, read permissions, and a volume.
const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: ghcr.io/team/web:1
    credentials: {host: ghcr.io, username: robot, password: "s3cret"}
    expose: [{port: 8080, as: 80, accept: [web.example.com, shop.example.com], to: [{global: true}]}]
    params: {permissions: {read: [logs]}}
  store:
    image: quay.io/minio/minio:1
    expose: [{port: 9000, to: [{service: web}]}]
    params: {storage: {data: {mount: /data}}}
profiles:
  compute:
    web: {resources: {cpu: {units: 500m}, memory: {size: 512Mi}, storage: {size: 1Gi}}}
    store:
      resources:
        cpu: {units: 500m}
        memory: {size: 512Mi}
        storage:
          - {size: 1Gi}
          - {name: data, size: 1Gi, attributes: {persistent: true, class: beta2}}
  placement:
    any: {pricing: {web: {denom: uact, amount: 1000}, store: {denom: uact, amount: 1000}}}
deployment:
  web: {any: {profile: web, count: 1}}
  store: {any: {profile: store, count: 1}}
"#;
/// Running provider with a tenant.
pub(crate) struct Leased<'a> {
    pub(crate) cluster: &'a Testbed,
    pub(crate) stage: &'a Stage,
    pub(crate) provider: &'a Running,
    pub(crate) url: String,
}

impl Leased<'_> {
    /// Creates a lease. Returns its deployment and its namespace.
    pub(crate) fn rent(&self, tenant: &Address) -> (DeploymentId, String) {
        let id = self.stage.order_from(tenant, DSEQ.parse().unwrap(), SDL);
        let bid = self.stage.bid(&id, self.provider).id;
        self.stage.accept(bid);
        self.provider.says("\"event\":\"lease_won\"");
        self.send(SDL, 1);
        let words = [
            "get",
            "namespaces",
            "--selector=akash.network=true",
            "--output=jsonpath={.items[*].metadata.name}",
        ];
        (id, self.cluster.kubectl(&words).unwrap())
    }

    /// Calls `run` with a command of the tenant.
    fn tenant<T>(&self, words: &[&str], run: impl FnOnce(&[&str]) -> T) -> T {
        let key = self.stage.path("tenant");
        let of = [
            "--dseq",
            DSEQ,
            "--provider",
            ADDRESS,
            "--provider-url",
            &self.url,
            "--key-file",
            key.to_str().unwrap(),
        ];
        run(&[words, &of].concat())
    }

    /// Sends a manifest, and waits for this number of deploys.
    fn send(&self, text: &str, deploys: usize) {
        let file = self.stage.path("sdl.yaml");
        std::fs::write(&file, text).unwrap();
        let words = ["send-manifest", file.to_str().unwrap()];
        let ran = || self.tenant(&words, |words| self.stage.ran(words));
        // The provider refuses an updated manifest until the block of the update.
        let dump = || format!("{:?}\n{}", ran(), self.provider.dump());
        until("an accepted manifest", dump, || ran().0 == 0);
        let deployed = || self.provider.output().matches("\"event\":\"deployed\"").count() == deploys;
        until("a deploy", || self.provider.dump(), deployed);
    }

    /// Marks a pod of the lease as running, and reads its log. The API server cannot connect to a kubelet.
    pub(crate) fn read_logs(&self, space: &str, account: &LoggedAccount<'_>) {
        let of = format!("--namespace={space}");
        let name = "--output=jsonpath={.items[0].metadata.name}";
        let pods = [
            "get",
            "pods",
            &of,
            "--selector=akash.network/manifest-service=web",
            name,
        ];
        let pod = || self.cluster.kubectl(&pods).unwrap_or_default();
        until("a pod", || self.provider.dump(), || !pod().is_empty());
        let pod = pod();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let path = format!("--raw=/api/v1/namespaces/{space}/pods/{pod}/binding");
        self.cluster
            .kubectl_input(&["create", &path, "--filename", "-"], &binding.to_string())
            .unwrap();
        let status = json!({"status": {"phase": "Running", "containerStatuses": [{
            "name": "web", "image": "web", "imageID": "web", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }]}});
        let patch = status.to_string();
        let words = [
            "patch",
            "pod",
            &pod,
            &of,
            "--subresource=status",
            "--type=merge",
            "--patch",
            &patch,
        ];
        self.cluster.kubectl(&words).unwrap();
        let mut logs = self.tenant(&["lease-logs"], |words| self.stage.running("logs", words));
        until(
            "a request",
            || self.provider.dump(),
            || account.has_made("pods-getlogs"),
        );
        logs.kill();
        // No kubelet confirms the end of the pod.
        let words = ["delete", "pod", &pod, &of, "--force", "--grace-period=0"];
        self.cluster.kubectl(&words).unwrap();
    }

    pub(crate) fn update(&self, id: &DeploymentId) {
        let options = "to: [{global: true}], http_options: {max_body_size: 2097152}";
        let text = SDL
            .replace("web:1", "web:2")
            .replace(", shop.example.com", "")
            .replace("s3cret", "another")
            .replace("read: [logs]", "read: [logs, events]")
            .replace("to: [{global: true}]", options);
        let (id, hash) = (id.clone(), sdl::parse(&text).unwrap().hash);
        self.stage
            .chain
            .tenant(TenantMsg::UpdateDeployment { id, hash })
            .unwrap();
        self.send(&text, 2);
    }

    /// Changes an object of each kind as another client, and waits until the provider has repaired all of them.
    pub(crate) fn drift(&self, space: &str, port: u16) {
        let of = format!("--namespace={space}");
        let kubectl = |words: &[&str]| self.cluster.kubectl(&[words, &[&of]].concat()).unwrap();
        let policy = kubectl(&[
            "get",
            "networkpolicies",
            "--output=jsonpath={.items[0].metadata.name}",
        ]);
        let label = json!({"akash.network/manifest-service": "other"});
        let (labels, selector) = (
            json!({"metadata": {"labels": label}}),
            json!({"spec": {"selector": label}}),
        );
        let (none, other) = (
            json!({"spec": {"replicas": 0}}),
            json!({"matchLabels": {"other": "true"}}),
        );
        let changes = [
            ("deployment", "web", &none),
            ("statefulset", "store", &none),
            ("service", "web", &selector),
            ("networkpolicy", &policy, &json!({"spec": {"podSelector": other}})),
            ("serviceaccount", "web", &labels),
            ("role", "web", &labels),
            ("rolebinding", "web", &labels),
        ];
        for (kind, name, patch) in changes {
            kubectl(&["patch", kind, name, "--type=merge", "--patch", &patch.to_string()]);
        }
        kubectl(&["delete", "service", "store"]);
        let repaired = [
            ("Deployment", 1.0),
            ("StatefulSet", 1.0),
            ("Service", 2.0),
            ("NetworkPolicy", 1.0),
            ("ServiceAccount", 1.0),
            ("Role", 1.0),
            ("RoleBinding", 1.0),
        ];
        let values = scraped(port, self.provider, "repairs", |values| {
            let sample =
                |kind| format!("akash_provider_drift_objects_total{{kind=\"{kind}\",outcome=\"repaired\"}}");
            repaired
                .iter()
                .all(|(kind, count)| values.get(&sample(kind)) == Some(count))
        });
        assert_eq!(values["akash_provider_hostnames"], 1.0);
    }

    /// Checks that the audit log contains the deleted route of the hostname that the update removed.
    pub(crate) fn check_audit(&self) {
        let acts = || self.stage.ran(&["audit"]).1;
        let line = "object_delete shop.example.com: done (reason record_removed, by provider)";
        until("a deleted route", acts, || acts().contains(line));
    }

    /// Checks the metrics of watches and operations after the end of the lease.
    pub(crate) fn check_metrics(&self, port: u16) {
        let values = scraped(port, self.provider, "the end of the lease", |values| {
            values.get("akash_provider_leases_closed_total") == Some(&1.0)
        });
        let operation = |part: &str, name: &str| {
            values[&format!("akash_provider_kubernetes_operation_{part}{{operation=\"{name}\"}}")]
        };
        assert_eq!(operation("duration_seconds_count", "deploy"), 2.0);
        assert!(operation("duration_seconds_count", "repair") >= 8.0);
        assert!(operation("duration_seconds_count", "teardown") >= 1.0);
        for name in ["deploy", "teardown"] {
            assert_eq!(operation("failures_total", name), 0.0);
        }
        let watches = |part: &str| -> Vec<f64> {
            let name = format!("akash_provider_kubernetes_watch_{part}{{");
            let found = values.iter().filter(|(sample, _)| sample.starts_with(&name));
            found.map(|(_, value)| *value).collect()
        };
        for part in ["up", "starts_total", "lists_total"] {
            assert!(
                watches(part).len() > 5 && watches(part).iter().all(|value| *value >= 1.0),
                "{part}"
            );
        }
        for part in ["down_seconds", "failures_total"] {
            assert!(watches(part).iter().all(|value| *value == 0.0), "{part}");
        }
        assert_eq!(values["akash_provider_drift_waiting_leases"], 0.0);
        assert_eq!(values["akash_provider_kubernetes_connected"], 1.0);
    }
}

/// Returns the address of a tenant with funds, and writes the key file `tenant`.
pub(crate) fn tenant(stage: &Stage) -> Address {
    std::fs::write(stage.path("tenant"), WORDS).unwrap();
    let key = derive_key(&WORDS.into(), &"".into(), DEFAULT_PATH).unwrap();
    stage.chain.market(|market| {
        let coin = Coin::new("uact", 1_000_000_000);
        market.fund(key.address(), &coin);
        market.set_pubkey(key.address(), key.public().as_bytes().to_vec());
    });
    key.address().clone()
}
