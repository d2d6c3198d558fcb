//! Environment variables and flags of the Helm chart of the Go provider.

use super::doctor::Results;
use crate::stage::Stage;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Environment variables that the chart sets by default if gateway and ACME certificates are enabled. The
/// chart also passes the flag [`ISSUER`].
pub(super) const SET: [(&str, &str); 60] = [
    ("AKASH_DEBUG", "false"),
    ("AKASH_BOOT_KEYS", "/boot-keys"),
    ("AKASH_KEYRING_BACKEND", "test"),
    ("AKASH_BROADCAST_MODE", "block"),
    ("AKASH_VERSION", "0.10.6"),
    ("AKASH_YES", "true"),
    ("AKASH_LOG_LEVEL", "info"),
    ("AKASH_IP_OPERATOR", "false"),
    ("AKASH_DEPLOYMENT_INGRESS_DOMAIN", "ingress.example.com"),
    ("DEPLOYMENT_NETWORK_POLICIES_ENABLED", "false"),
    ("AKASH_DEPLOYMENT_INGRESS_STATIC_HOSTS", "true"),
    ("AKASH_DEPLOYMENT_BLOCKED_HOSTNAMES", ""),
    ("AKASH_CLUSTER_NODE_PORT_QUANTITY", "2500"),
    ("AKASH_GAS_PRICES", "0.025uakt"),
    ("AKASH_GAS", "auto"),
    ("AKASH_GAS_ADJUSTMENT", "1.5"),
    ("AP_MINIMUM_GAS_PRICES", "0.0025uakt"),
    ("AKASH_CLUSTER_PUBLIC_HOSTNAME", "provider.example.com"),
    ("AKASH_BID_PRICE_STRATEGY", "scale"),
    ("AKASH_BID_PRICE_CPU_SCALE", "0.004"),
    ("AKASH_BID_PRICE_MEMORY_SCALE", "0.0016"),
    ("AKASH_BID_PRICE_ENDPOINT_SCALE", ""),
    ("AKASH_BID_PRICE_STORAGE_SCALE", "0.00016,beta2=0.00016"),
    ("AKASH_BID_PRICE_IP_SCALE", "60"),
    ("AKASH_OVERCOMMIT_PCT_CPU", "0"),
    ("AKASH_OVERCOMMIT_PCT_MEM", "0"),
    ("AKASH_OVERCOMMIT_PCT_STORAGE", "0"),
    ("AKASH_CLUSTER_K8S", "true"),
    ("KUBE_CONFIG", "/kubeconfig"),
    ("AKASH_DEPLOYMENT_RUNTIME_CLASS", "none"),
    ("AKASH_WITHDRAWAL_PERIOD", "1h"),
    ("AKASH_MINIMUM_BALANCE", "10000000"),
    ("AKASH_BID_DEPOSIT", "500000uakt"),
    ("AKASH_TX_BROADCAST_TIMEOUT", "60s"),
    ("AKASH_MONITOR_MAX_RETRIES", "626"),
    ("AKASH_MONITOR_RETRY_PERIOD", "4s"),
    ("AKASH_MONITOR_RETRY_PERIOD_JITTER", "15s"),
    ("AKASH_MONITOR_HEALTHCHECK_PERIOD", "10s"),
    ("AKASH_MONITOR_HEALTHCHECK_PERIOD_JITTER", "5s"),
    ("AP_INGRESS_MODE", "gateway-api"),
    ("AP_GATEWAY_NAME", ""),
    ("AP_GATEWAY_NAMESPACE", "akash-services"),
    ("AP_GATEWAY_IMPLEMENTATION", "nginx"),
    ("AKASH_ATTESTATION_WEBHOOK_ENABLED", "true"),
    (
        "AKASH_ATTESTATION_SIDECAR_IMAGE",
        "registry.example/attestation:1",
    ),
    ("AKASH_ATTESTATION_WEBHOOK_PORT", "9443"),
    ("AP_CC_PERSISTENT_STORAGE_CLASSES", "beta2 beta3"),
    ("AP_CERT_ISSUER_ENABLED", "true"),
    ("AP_CERT_ISSUER_EMAIL", "ops@example.com"),
    ("AP_CERT_ISSUER_CA_DIR_URL", "https://127.0.0.1:1/directory"),
    ("AP_CERT_ISSUER_HTTP_CHALLENGE_PORT", "5002"),
    ("AP_CERT_ISSUER_DNS_PROVIDERS", "cloudflare"),
    ("AP_CERT_ISSUER_KID", "key-1"),
    ("AP_CERT_ISSUER_HMAC", "YS1zZWNyZXQ"),
    ("AKASH_PROVIDER_SERVICE_HOST", "10.0.0.1"),
    ("AKASH_PROVIDER_PORT_8443_TCP", "tcp://10.0.0.1:8443"),
    ("AKASH_METRICS_LISTENER", "127.0.0.1:0"),
    ("AKASH_MIGRATIONS_ENABLED", "true"),
    ("AKASH_PERSISTENT_CONFIG_BACKEND", "bbolt"),
    ("AKASH_BID_TIMEOUT", "7m"),
];
const ISSUER: &str = "--cert-issuer-enabled=true";

#[test]
fn doctor_lists_what_changes_for_the_configuration_of_the_chart() {
    let mut stage = Stage::new("chart-doctor", true);
    stage.start_node(None);
    let home = stage.path("new");
    let mut doctor = stage.command(&["doctor", "--output=json", ISSUER]);
    doctor.envs(SET).env("AKASH_HOME", &home);
    doctor.env("KUBECONFIG", stage.path("no-cluster"));
    let results = Results::from_command(&mut doctor);
    for setting in [
        "AP_CERT_ISSUER_DNS_PROVIDERS",
        "AKASH_MONITOR_MAX_RETRIES",
        "AKASH_ATTESTATION_WEBHOOK_ENABLED",
        "AKASH_PERSISTENT_CONFIG_BACKEND",
        "AKASH_MINIMUM_BALANCE",
    ] {
        let named = |check: &&Value| check["detail"].as_str().unwrap().contains(setting);
        let check = results.checks().find(named);
        let check = check.unwrap_or_else(|| panic!("{setting}: {}", results.report()));
        assert_eq!(check["severity"], "warning", "{check}");
        assert!(check["help"].is_string(), "{check}");
    }
    results.expect("home directory", "warning");
    assert!(!home.exists(), "before the first start, `doctor` changes nothing");
}

#[test]
fn variables_and_arguments_of_the_chart_start_the_provider_and_unused_ones_are_reported() {
    let mut stage = Stage::new("chart-run", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let kubeconfig = stage.path("no-cluster");
    let cluster = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \
                   'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: \
                   c, user: u}}]\n";
    std::fs::write(&kubeconfig, cluster).unwrap();
    let set = |command: &mut Command| {
        command.envs(SET).env("KUBECONFIG", &kubeconfig);
    };
    let mut show = stage.command(&["config", "show", "--output=json", ISSUER]);
    set(&mut show);
    let output = show.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("YS1zZWNyZXQ"), "{text}");
    let all: Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| {
        let settings = all["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.cloned().unwrap_or_default()
    };
    let timeout = of("bid-timeout");
    let setting = (&timeout["value"][0], &timeout["source"], &timeout["from"]);
    assert_eq!(
        setting,
        (&"7m".into(), &"env".into(), &"AKASH_BID_TIMEOUT".into())
    );
    assert_eq!(of("cert-issuer-enabled")["source"], "flag");
    assert_eq!(of("gateway-namespace")["value"][0], "akash-services");
    assert_eq!(
        of("gateway-name")["source"],
        "default",
        "an empty variable sets nothing"
    );
    assert_eq!(of("bid-price-endpoint-scale")["value"][0], "0");
    for (name, value) in SET {
        let prefixes = ["AKASH_", "AP_"];
        let Some(flag) = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
            continue;
        };
        let flag = flag.to_ascii_lowercase().replace('_', "-");
        let is_for_others =
            ["debug", "boot-keys", "version"].contains(&flag.as_str()) || flag.starts_with("provider-");
        if !value.is_empty() && !is_for_others {
            assert_ne!(of(&flag), Value::Null, "{name}");
        }
    }
    let mut run = stage.running_with("chart", &["run", ISSUER], set);
    // The provider handles signals from this line on.
    run.says(" on chain ");
    for notice in [
        "AP_CERT_ISSUER_DNS_PROVIDERS",
        "AKASH_MONITOR_MAX_RETRIES",
        "AKASH_ATTESTATION_WEBHOOK_ENABLED",
        "AKASH_PERSISTENT_CONFIG_BACKEND",
    ] {
        run.says(notice);
    }
    assert!(!run.output().contains("unknown variable"), "{}", run.dump());
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(run.ended(), Some(0), "{}", run.dump());
}
