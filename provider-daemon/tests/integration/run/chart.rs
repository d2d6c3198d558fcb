//! The commands that the Helm chart of the Go provider runs before it starts the provider. The test runs them
//! in a script with the same tools.

use super::doctor::Results;
use crate::stage::{ADDRESS, Stage, WORDS};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Steps of the chart: import the key, register or update, and create a missing certificate. Prints the
/// executed steps.
const SCRIPT: &str = r#"
set -u
cat "$AKASH_BOOT_KEYS/key-pass.txt" | { cat ; echo ; } \
  | provider-services --home="$AKASH_HOME" keys import --keyring-backend="$AKASH_KEYRING_BACKEND" "$AKASH_FROM" "$AKASH_BOOT_KEYS/key.txt"
address="$(provider-services keys show $AKASH_FROM -a)"
test -n "$address" || exit 1
if ! provider-services query provider get $address -o json >/dev/null ; then
  provider-services tx provider create provider.yaml >create.log || exit 2
  echo created
fi
there="$(provider-services query provider get $address -o json | jq | sha1sum)"
here="$(provider-services tx provider update provider.yaml --offline --generate-only --from $address \
  | jq -r '.body.messages[]' | jq -r 'del(."@type")' | sha1sum)"
if [ "$there" != "$here" ] ; then
  provider-services tx provider update provider.yaml >update.log || exit 3
  echo updated
fi
link="$AKASH_HOME/$address.pem"
rm -f "$link" && ln -s "$PWD/config/provider.pem" "$link"
fresh=no
if [ -f config/provider.pem ] ; then
  serial="$(openssl x509 -serial -noout < config/provider.pem | cut -d= -f2)"
  serial="$(echo "obase=10; ibase=16; $serial" | bc)"
  state="$(AKASH_OUTPUT=json provider-services query cert list --owner $address --state valid --serial $serial --reverse \
    | jq -r '.certificates[0].certificate.state')"
  AKASH_OUTPUT=json provider-services query cert list --owner $address --state valid --reverse \
    | jq -r '.certificates[0].certificate.cert' | openssl base64 -A -d | openssl x509 -checkend 604800 -noout >/dev/null \
    && [ "$state" = valid ] && fresh=yes
fi
if [ $fresh = no ] ; then
  rm -f config/provider.pem
  provider-services tx cert generate server provider.example.com || exit 4
  provider-services tx cert publish server >publish.log || exit 5
  echo certified
fi
"#;

/// Container of the chart: the program, the Secret with the key, and a directory for the certificate.
struct Container<'a> {
    stage: &'a Stage,
    folder: PathBuf,
    path: String,
    /// Name of the key (`from` in the chart).
    from: &'static str,
}

impl<'a> Container<'a> {
    fn new(stage: &'a Stage, from: &'static str) -> Self {
        let folder = stage.path("");
        for name in ["bin", "boot", "config"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_provider-daemon");
        std::os::unix::fs::symlink(program, folder.join("bin/provider-services")).unwrap();
        let path = format!(
            "{}:{}",
            folder.join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let container = Self {
            stage,
            folder,
            path,
            from,
        };
        container.secret();
        container
    }

    /// Writes the exported key and its passphrase.
    fn secret(&self) {
        let words = self.folder.join("words-of-the-key");
        std::fs::write(&words, WORDS).unwrap();
        let elsewhere = format!("--keyring-dir={}", self.folder.join("elsewhere").display());
        let source = format!("--source={}", words.display());
        let add = ["keys", "add", "k", &source, "--keyring-backend=test", &elsewhere];
        let (code, _, err) = self.stage.ran(&add);
        assert_eq!(code, 0, "{err}");
        self.runs(&format!(
            "echo 'pass of the key' | provider-services keys export k --keyring-backend=test '{elsewhere}' > boot/key.txt"
        ));
        std::fs::write(self.folder.join("boot/key-pass.txt"), "pass of the key").unwrap();
    }

    fn provider_file(&self, region: &str) {
        let text = format!(
            "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: {region}\n  - key: \
             feat\n    value: true\ninfo:\n  email: ops@example.com\n  website: \nowner: {ADDRESS}\n"
        );
        std::fs::write(self.folder.join("provider.yaml"), text).unwrap();
    }

    /// Runs a script as the chart does, and returns its output.
    fn runs(&self, script: &str) -> String {
        let mut bash = Command::new("bash");
        for (name, value) in self.stage.command(&[]).get_envs() {
            match value {
                Some(value) => bash.env(name, value),
                None => bash.env_remove(name),
            };
        }
        let set = [
            ("AKASH_FROM", self.from),
            ("AKASH_KEYRING_BACKEND", "test"),
            ("AKASH_YES", "true"),
            ("AKASH_GAS", "auto"),
            ("AKASH_GAS_PRICES", "0.025uakt"),
            ("AKASH_GAS_ADJUSTMENT", "1.5"),
            ("PATH", &self.path),
        ];
        bash.env_remove("AKASH_KEY_FILE").envs(set);
        bash.env("AKASH_BOOT_KEYS", self.folder.join("boot"));
        let output = bash
            .current_dir(&self.folder)
            .args(["-c", script])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}

/// Runs the script until all steps are done. Then changes the provider record, and runs the script again.
fn takes_its_steps(name: &str, from: &'static str) {
    for tool in ["bash", "bc", "jq", "openssl"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: {tool} is absent");
            return;
        }
    }
    let mut stage = Stage::new(name, false);
    stage.start_node(Some(Duration::from_millis(250)));
    let container = Container::new(&stage, from);
    container.provider_file("us-west");
    assert_eq!(container.runs(SCRIPT), "created\ncertified\n");
    assert_eq!(container.runs(SCRIPT), "", "the script has no more steps");
    container.provider_file("us-east");
    assert_eq!(container.runs(SCRIPT), "updated\n");
}

#[test]
fn steps_of_the_chart_work_and_run_once() {
    takes_its_steps("chart", "provider");
}

/// `from` is the address of the account, as guides recommend, and not the name of the key.
#[test]
fn steps_of_the_chart_work_with_key_named_by_address() {
    takes_its_steps("chart-address", ADDRESS);
}

/// Environment variables that the chart sets by default if gateway and ACME certificates are enabled. The
/// chart also passes the flag [`ISSUER`].
const SET: [(&str, &str); 59] = [
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
    ("AP_CERT_ISSUER_CA_DIR_URL", "https://acme.example/directory"),
    ("AP_CERT_ISSUER_HTTP_CHALLENGE_PORT", "5002"),
    ("AP_CERT_ISSUER_DNS_PROVIDERS", "cloudflare"),
    ("AP_CERT_ISSUER_HMAC", "a secret"),
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
        "--cert-issuer-enabled, AP_CERT_ISSUER_EMAIL",
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
    assert!(!text.contains("a secret"), "{text}");
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
        "--cert-issuer-enabled, AP_CERT_ISSUER_EMAIL",
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
