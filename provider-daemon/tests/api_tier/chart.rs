//! Helm charts: values files of the Go charts are installed unchanged, with the rights of `deploy`.

use crate::PATIENCE;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

#[path = "chart/checks.rs"]
mod checks;

const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
const VALUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/values");
const PROVIDER: &str = "akash-provider";
/// Charts of the operators, with the name of the Deployment.
const OPERATORS: [(&str, &str); 3] = [
    ("akash-hostname-operator", "operator-hostname"),
    ("akash-ip-operator", "operator-ip"),
    ("akash-inventory-operator", "operator-inventory"),
];
/// Other tests of the tier leave cluster roles with the same names.
const OWN: &str = "--take-ownership";
/// Namespace of the releases, with the restricted pod security profile.
const SPACE: &str = "akash-services";

/// Returns the folder of a chart, and the values file of the Go chart.
fn sources(chart: &str) -> (String, String) {
    (format!("{CHARTS}/{chart}"), format!("{VALUES}/{chart}.yaml"))
}

struct Helm<'a> {
    cluster: &'a Testbed,
    program: PathBuf,
}

impl<'a> Helm<'a> {
    fn new(cluster: &'a Testbed) -> Self {
        let restricted = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {SPACE}, labels: {{\
             pod-security.kubernetes.io/enforce: restricted}}}}}}"
        );
        cluster
            .kubectl_input(&["apply", "--filename=-"], &restricted)
            .unwrap();
        let program = testbed::helm().unwrap();
        Self { cluster, program }
    }

    fn output(&self, args: &[&str]) -> Output {
        let mut helm = Command::new(&self.program);
        helm.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        helm.arg("--namespace").arg(SPACE).args(args).output().unwrap()
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "helm {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Installs a chart with the values file of the Go chart. Returns the notes.
    fn install(&self, chart: &str) -> String {
        let (folder, values) = sources(chart);
        self.run(&["install", chart, &folder, "--values", &values, OWN])
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        let space = format!("--namespace={SPACE}");
        let text = self
            .cluster
            .kubectl(&["get", kind, name, &space, "--output=json"])
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn can(&self, account: &str, verb: &str, resource: &str) -> bool {
        let user = format!("--as=system:serviceaccount:{SPACE}:{account}");
        // `can-i` fails if the right is missing.
        let result = self
            .cluster
            .kubectl(&["auth", "can-i", verb, resource, &user, "--all-namespaces"]);
        result.is_ok_and(|result| result.trim() == "yes")
    }

    /// Waits until each workload has a pod, so the profile of the namespace admits the pods.
    fn until_pods(&self, names: &[&str]) {
        let space = format!("--namespace={SPACE}");
        let began = Instant::now();
        loop {
            let pods = self
                .cluster
                .kubectl(&["get", "pods", &space, "--output=name"])
                .unwrap();
            let is_there = |name: &&str| pods.lines().any(|pod| pod.starts_with(&format!("pod/{name}-")));
            if names.iter().all(is_there) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{names:?}: {pods}");
            sleep(Duration::from_millis(200));
        }
    }
}

/// Removes the releases, also after a failed test.
impl Drop for Helm<'_> {
    fn drop(&mut self) {
        for name in [PROVIDER].into_iter().chain(OPERATORS.map(|(chart, _)| chart)) {
            drop(self.output(&["uninstall", name, "--ignore-not-found"]));
        }
    }
}

fn provider_daemon(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
        .args(args)
        // Variables of the test command look like settings.
        .env_remove("AKASH_TESTBED_DIR")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// The settings that the chart passes to the provider are valid.
fn check_settings(helm: &Helm<'_>) {
    let config = helm.get("configmap", "akash-provider-main");
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.txt").display().to_string();
    let passphrase = folder.path().join("passphrase").display().to_string();
    for path in [&key, &passphrase] {
        std::fs::write(path, "x").unwrap();
    }
    let text = config["data"]["settings.yaml"].as_str().unwrap();
    let text = text.replace("/boot-keys/key.txt", &key);
    let text = text.replace("/boot-keys/key-pass.txt", &passphrase);
    let text = text.replace("/scripts/price_script.sh", "/bin/true");
    let settings = folder.path().join("settings.yaml").display().to_string();
    std::fs::write(&settings, &text).unwrap();
    let record = folder.path().join("provider.yaml").display().to_string();
    std::fs::write(&record, config["data"]["provider.yaml"].as_str().unwrap()).unwrap();
    let (is_valid, output) = provider_daemon(&[
        "config",
        "check",
        &format!("--config={settings}"),
        &format!("--provider-config={record}"),
        "--from=akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0",
    ]);
    assert!(
        is_valid && !output.contains("unknown setting"),
        "{output}\n{text}"
    );
    for line in [
        "bid-deposit: 500000uakt",
        "bid-price-strategy: shellScript",
        "reclamation-window: 24h",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// Kubernetes does not allow to change these fields, so an upgrade from the Go chart needs equal fields.
fn check_immutable_fields(helm: &Helm<'_>) {
    let spec = helm.get("statefulset", PROVIDER)["spec"].clone();
    let labels = json!({
        "app": "akash-provider",
        "app.kubernetes.io/name": "provider",
        "app.kubernetes.io/instance": "akash-provider",
    });
    assert_eq!(spec["selector"]["matchLabels"], labels);
    assert_eq!(spec["serviceName"], "akash-provider");
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!(claim["metadata"]["name"], "home");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "10Gi");
    // The attributes of the values name this class.
    assert_eq!(claim["spec"]["storageClassName"], "beta2");
    for (chart, name) in OPERATORS {
        let kind = name.trim_start_matches("operator-");
        let labels = json!({
            "app.kubernetes.io/name": kind,
            "app.kubernetes.io/instance": format!("{kind}-service"),
            "app.kubernetes.io/component": "operator",
            "app.kubernetes.io/part-of": "provider",
        });
        let selector = helm.get("deployment", name)["spec"]["selector"]["matchLabels"].clone();
        assert_eq!(selector, labels, "{chart}");
        assert_eq!(helm.get("service", name)["spec"]["selector"], labels, "{chart}");
    }
}

/// Each variable of an operator's pod is a setting of that operator.
fn check_variables(helm: &Helm<'_>, deployment: &str) {
    let pod = helm.get("deployment", deployment)["spec"]["template"]["spec"]["containers"][0].clone();
    let kind = deployment.trim_start_matches("operator-");
    let (_, help) = provider_daemon(&["operator", kind, "--help"]);
    let variables = pod["env"].as_array().unwrap().iter();
    let names: BTreeSet<&str> = variables
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    let is_separator = |letter: char| letter != '_' && !letter.is_ascii_alphanumeric();
    let documented: BTreeSet<&str> = help.split(is_separator).collect();
    let unknown: Vec<_> = names.difference(&documented).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn values_files_of_go_charts_install_upgrade_and_roll_back() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let notes = helm.install(PROVIDER);
    for without_effect in ["monitor", "minimumbalance", "letsEncrypt", "tx_broadcast_timeout"] {
        assert!(notes.contains(&format!("  {without_effect}: ")), "{notes}");
    }
    assert!(notes.contains("the values contain the key"), "{notes}");
    assert!(!notes.contains("unknown value"), "{notes}");
    check_settings(&helm);
    for (chart, deployment) in OPERATORS {
        let notes = helm.install(chart);
        assert!(
            notes.contains("provider-daemon:"),
            "the Go image is replaced: {notes}"
        );
        check_variables(&helm, deployment);
    }
    check_immutable_fields(&helm);
    helm.until_pods(&[PROVIDER, "operator-hostname", "operator-ip", "operator-inventory"]);
    for (account, verb, resource, is_allowed) in [
        (PROVIDER, "create", "namespaces", true),
        (PROVIDER, "patch", "nodes", false),
        (PROVIDER, "list", "secrets", false),
        ("operator-inventory", "patch", "nodes", true),
        ("operator-inventory", "delete", "nodes", false),
        ("operator-ip", "create", "services", true),
        ("operator-ip", "create", "pods", false),
        ("operator-hostname", "patch", "ingresses.networking.k8s.io", true),
        ("operator-hostname", "list", "secrets", false),
    ] {
        let can = helm.can(account, verb, resource);
        assert_eq!(can, is_allowed, "{account} {verb} {resource}");
    }
    let level = || {
        helm.get("statefulset", PROVIDER)["spec"]["template"]["spec"]["containers"][0]["env"][2]["value"]
            .clone()
    };
    let folder = format!("{CHARTS}/{PROVIDER}");
    helm.run(&[
        "upgrade",
        PROVIDER,
        &folder,
        "--reuse-values",
        "--set=logLevel=debug",
    ]);
    assert_eq!(level(), "debug");
    helm.run(&["rollback", PROVIDER, "1"]);
    assert_eq!(level(), "info");
    helm.run(&["uninstall", PROVIDER]);
    for kept in [
        "namespace/lease",
        "customresourcedefinition/manifests.akash.network",
    ] {
        cluster.kubectl(&["get", kept]).unwrap();
    }
}

/// The charts of the operators start the program in `image.program`.
#[test]
fn charts_of_operators_run_the_program_of_the_selected_image() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let command = "command: [/usr/bin/provider-operators]\n          args:\n            - ";
    for (chart, name) in OPERATORS {
        let (folder, values) = sources(chart);
        let program = "--set=image.program=provider-operators";
        let version = "--kube-version=1.34.0";
        let template = ["template", chart, &folder, "--values", &values, version, program];
        let text = helm.run(&template);
        let kind = name.trim_start_matches("operator-");
        assert!(text.contains(&format!("{command}{kind}\n")), "{text}");
        assert!(
            text.contains("image: ghcr.io/akash-network/provider-operators:"),
            "{text}"
        );
        if kind == "inventory" {
            let discovery = [&template[..], &["--set=discovery.enabled=true"]].concat();
            let output = helm.output(&discovery);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                stderr.contains("settings.discovery-image is required"),
                "{stderr}"
            );
            let image = "--set=settings.discovery-image=registry.example.com/provider:1";
            let text = helm.run(&[&discovery[..], &[image]].concat());
            assert!(
                text.contains("value: \"registry.example.com/provider:1\""),
                "{text}"
            );
        }
    }
}

#[test]
fn invalid_values_get_one_error_and_install_nothing() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let (folder, values) = sources(PROVIDER);
    for (set, error) in [
        ("--set=domain=", "domain is required"),
        ("--set=from=", "from is required"),
        ("--set=key=", "key is required"),
        ("--set=storage.home=5", "storage"),
        ("--set=attributes=5", "attributes"),
        ("--set=settings.unhealthy-limt=1h", "unhealthy-limt"),
    ] {
        let output = helm.output(&["install", PROVIDER, &folder, "--values", &values, set]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && stderr.contains(error),
            "{set}: {stderr}"
        );
    }
    assert_eq!(helm.run(&["list", "--all", "--short"]).trim(), "");
    let notes = helm.run(&[
        "install",
        PROVIDER,
        &folder,
        "--values",
        &values,
        "--set=bidpricecpuscal=1",
        OWN,
    ]);
    assert!(notes.contains("unknown value `bidpricecpuscal`"), "{notes}");
}
