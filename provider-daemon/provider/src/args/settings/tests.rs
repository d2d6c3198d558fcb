use super::*;
use crate::args::RunArgs;
use crate::args::run_line::RunLine;
use clap::FromArgMatches;
use std::fs;

fn parsed(words: &[&str]) -> Result<RunArgs, String> {
    let words = ["provider-daemon", "run"].iter().chain(words);
    let words = words.map(OsString::from).collect();
    let (matches, found) =
        parse(RunLine::root(), words, std::iter::empty(), |_| None).map_err(|error| error.to_string())?;
    let mut args = RunLine::from_arg_matches(&matches).unwrap().into_run();
    args.remarks = found.unwrap().remarks;
    Ok(*args)
}

fn of_run(words: &[&str]) -> RunArgs {
    parsed(words).unwrap_or_else(|error| panic!("{error}"))
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("settings-{}-{name}.yaml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn flag(&self, flag: &str) -> String {
        format!("--{flag}={}", self.0.display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn refused(name: &str, text: &str) -> String {
    let file = Scratch::new(name, text);
    let error = parsed(&[&file.flag("config")]).unwrap_err();
    assert!(error.contains(&file.0.display().to_string()), "{error}");
    error
}

#[test]
fn setting_without_effect_gets_one_note_that_names_what_it_needs() {
    let notes = |words: &[&str]| of_run(words).remarks.notes;
    for (words, expected) in [
        (
            &["--bid-price-policy=x"][..],
            "--bid-price-policy: no effect without --bid-price-strategy policy",
        ),
        (
            &["--bid-price-script-path=x", "--bid-price-script-process-limit=2"],
            "--bid-price-script-path, --bid-price-script-process-limit: no effect without --bid-price-strategy shellScript",
        ),
        (
            &["--ha-lease=12s", "--ha-name=x"],
            "--ha-name, --ha-lease: no effect without --ha kubernetes or --ha redis",
        ),
        (
            &["--nodes=3", "--cluster-k8s"],
            "--nodes: no effect with --cluster-k8s, which reads the nodes of the cluster",
        ),
    ] {
        assert_eq!(notes(words), [expected], "{words:?}");
    }
    for words in [
        &["--bid-price-strategy=policy", "--bid-price-policy=x"][..],
        &["--ha=redis", "--ha-lease=12s"],
        &["--nodes=3", "--cluster-k8s=false"],
        &["--cluster-k8s"],
    ] {
        assert_eq!(notes(words), [""; 0], "{words:?}");
    }
}

#[test]
fn empty_value_in_a_file_sets_nothing() {
    let file = Scratch::new(
        "empty",
        "reclamationWindow: \"\"\nbid-timeout: \"\"\nwithdrawal-period: \"\"\nprovider-configs-url: \"\"\n",
    );
    let args = of_run(&[&file.flag("config")]);
    assert_eq!(args.bids.bid_timeout.as_secs(), 300);
    assert_eq!(args.bids.reclamation_window.as_secs(), 0);
    assert_eq!(args.leases.withdrawal_period.as_secs(), 86_400);
    // This flag has an empty value, which disables the download.
    assert!(format!("{:?}", args.kubernetes).contains("ConfigsUrl(None)"));
}

#[test]
fn reads_every_value_of_the_go_chart() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../samples/values/akash-provider.yaml"
    );
    let args = of_run(&[&format!("--config={path}")]);
    assert_eq!(args.remarks.unknown, [""; 0]);
    assert_eq!(args.kubernetes.routes.ingress_class, "akash-ingress-class");
    assert_eq!(args.leases.deployment_ingress_domain, "ingress.example.com");
    let notes = args.remarks.notes.join("\n");
    for note in [
        "`home`: settings files cannot contain the home directory",
        "storage, tolerations",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    let error = refused("alias", "attestation: {enabled: true, webhookEnabled: false}\n");
    assert!(error.contains("are the same setting"), "{error}");
}

#[test]
fn reads_settings_of_a_provider_yaml_in_any_spelling() {
    let file = Scratch::new(
        "spelt",
        "host: https://provider.example.com:8443\nattributes:\n- key: region\n  value: us\nbidpricecpuscale: 0.004\n\
         deployment_ingress_domain: ingress.example.com\nBid-Timeout: 7m\nmonitor:\n  maxRetries: 3\n\
         bidmindeposit: 600000uakt\ndeploymentingressstatichosts: true\nnode:\n- http://a:1\n- http://b:2\n\
         storageclass: [a=1Gi, b=2Gi]\nprobe: true\nimage: {tag: x}\nkey: abc\nemail: ops@example.com\nnote:\n",
    );
    let args = of_run(&[&file.flag("provider-config")]);
    assert_eq!(args.pricing.bid_price_cpu_scale.to_string(), "0.004");
    assert_eq!(args.leases.deployment_ingress_domain, "ingress.example.com");
    assert_eq!(args.bids.bid_timeout.as_secs(), 420);
    assert_eq!(args.bids.bid_deposit, ["600000uakt"]);
    assert!(args.leases.deployment_ingress_static_hosts && args.kubernetes.names.probe);
    assert_eq!(args.node.node, ["http://a:1", "http://b:2"]);
    assert_eq!(args.cluster.storage_class.len(), 2);
    let notices = args.notices(|_| None).join("\n");
    assert!(
        notices.contains("--monitor-max-retries: leases are watched"),
        "{notices}"
    );
    assert!(
        notices.contains("--key-file") && notices.contains("image") && !notices.contains("abc"),
        "{notices}"
    );
    assert!(args.remarks.unknown.is_empty(), "{:?}", args.remarks);
}

#[test]
fn converts_chart_values_to_flags() {
    let text = "domain: example.com\ngatewayApi:\n  enabled: true\n  gatewayName: gate\nipoperator: true\n\
                withdrawalperiod: 12h\nchainid: akashnet-2\nletsEncrypt: {enabled: true}\n";
    let file = Scratch::new("chart", text);
    let args = of_run(&[&file.flag("config")]);
    assert_eq!(args.kubernetes.cluster_public_hostname, "provider.example.com");
    assert_eq!(args.leases.deployment_ingress_domain, "ingress.example.com");
    assert_eq!(args.kubernetes.routes.gateway_name, "gate");
    assert!(matches!(
        args.kubernetes.routes.ingress_mode,
        crate::args::kubernetes::IngressArg::GatewayApi
    ));
    assert!(args.kubernetes.ip_operator && args.leases.deployment_ingress_static_hosts);
    assert_eq!(args.node.chain_id.as_deref(), Some("akashnet-2"));
    assert!(args.remarks.unknown.is_empty(), "{:?}", args.remarks);
}

#[test]
fn prefers_flags_to_files_and_files_to_defaults() {
    let first = Scratch::new(
        "first",
        "bid-timeout: 1m\nmanifest-timeout: 1m\nwithdrawal-period: 1h\ngas: 5\n",
    );
    let second = Scratch::new("second", "bid-timeout: 2m\nrpc-query-timeout: 2m\n");
    let words = [
        &first.flag("config"),
        &second.flag("provider-config"),
        "--withdrawal-period=3h",
    ];
    let args = of_run(&words);
    let minutes = [
        args.bids.bid_timeout,
        args.leases.manifest_timeout,
        args.leases.rpc_query_timeout,
    ];
    assert_eq!(minutes.map(|time| time.as_secs() / 60), [1, 1, 2]);
    assert_eq!(args.leases.withdrawal_period.as_secs(), 3 * 3600);
    assert_eq!(args.leases.lease_funds_monitor_interval.as_secs(), 600);
}

#[test]
fn reports_unknown_keys_with_a_suggestion() {
    let file = Scratch::new("unknown", "bidpricecpuscal: 1\nzzz: 1\n");
    let notices = of_run(&[&file.flag("config")]).notices(|_| None).join("\n");
    assert!(
        notices.contains("unknown setting `bidpricecpuscal`; did you mean `bid-price-cpu-scale`?"),
        "{notices}"
    );
    assert!(
        notices.contains("unknown setting `zzz`\n") || notices.ends_with("unknown setting `zzz`"),
        "{notices}"
    );
}

#[test]
fn reports_errors_of_a_settings_file_with_its_name() {
    let error = refused("value", "bidtimeout: soon\n");
    assert!(
        error.contains("`bidtimeout`: invalid value 'soon' for '--bid-timeout"),
        "{error}"
    );
    assert!(error.contains("such as 500ms, 5m"), "{error}");
    let error = refused("twice", "bid-timeout: 1m\nbidtimeout: 2m\n");
    assert!(error.contains("are the same setting"), "{error}");
    let error = refused("type", "bid-timeout: [{a: 1}]\n");
    assert!(error.contains("must be a text or a list of texts"), "{error}");
    let error = refused("list", "- a\n- b\n");
    assert!(error.contains("contains no settings"), "{error}");
    let error = refused("flag", "probe: soon\n");
    assert!(error.contains("expected true or false"), "{error}");
    refused("syntax", "a: b: c\n");
    refused("cycle", "a: &a [*a]\n");
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c \
                  [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e \
                  [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    refused("laughs", laughs);
    let deep = format!("a: {}{}\n", "[".repeat(40), "]".repeat(40));
    refused("deep", &deep);
    let error = refused("large", &format!("note: {}\n", "x".repeat(10 << 20)));
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
    let error = parsed(&["--config=/no/such/file"]).unwrap_err();
    assert!(
        error.contains("cannot open settings file /no/such/file"),
        "{error}"
    );
}

#[test]
fn suggests_a_similar_flag_or_value() {
    let error = parsed(&["--bid-timeot=5m"]).unwrap_err();
    assert!(
        error.contains("--bid-timeot") && error.contains("--bid-timeout"),
        "{error}"
    );
    let error = parsed(&["--bid-price-strategy=scal"]).unwrap_err();
    assert!(
        error.contains("'scal'") && error.contains("randomRange"),
        "{error}"
    );
}

#[test]
fn limits_suggestions_for_unknown_keys() {
    let keys: String = (0..2000)
        .map(|n| format!("bid-price-cpu-scal-{n}: 1\n"))
        .collect();
    let file = Scratch::new("many-unknown", &keys);
    let unknown = of_run(&[&file.flag("config")]).remarks.unknown;
    let suggested = unknown.iter().filter(|line| line.contains("; did you mean"));
    assert_eq!((unknown.len(), suggested.count()), (2000, 100));
}

#[test]
fn chart_values_set_variables_of_the_price_script_unless_the_environment_does() {
    let file = Scratch::new(
        "variables",
        "price_target_cpu: 1.60\nprice_target_ip: 0\nprice-target-memory: 0.8\nwhitelist_url: https://a/b?c=d\n\
         debug_bid_script: true\nbid-price-script-variable: [PRICE_TARGET_TPU=3, LEVEL=]\n",
    );
    let config = file.flag("config");
    let words = [
        "provider-daemon",
        "run",
        config.as_str(),
        "--bid-price-script-variable=DEBUG_BID_SCRIPT=2",
    ];
    let words = words.map(OsString::from).to_vec();
    let look = |name: &str| (name == "PRICE_TARGET_MEMORY").then(|| "9".to_owned());
    let (matches, found) = parse(RunLine::root(), words, std::iter::empty(), look).unwrap();
    let args = RunLine::from_arg_matches(&matches).unwrap().into_run();
    let set = args.pricing.bid_price_script_variable.iter();
    let mut set: Vec<_> = set.map(|(name, value)| format!("{name}={value}")).collect();
    set.sort();
    assert_eq!(
        set,
        [
            "DEBUG_BID_SCRIPT=2",
            "LEVEL=",
            "PRICE_TARGET_CPU=1.6",
            "PRICE_TARGET_TPU=3",
            "WHITELIST_URL=https://a/b?c=d",
        ]
    );
    let found = found.unwrap();
    assert_eq!(found.remarks.unknown, [""; 0]);
    let error = refused("variable", "bid-price-script-variable: [PRICE]\n");
    assert!(error.contains("expected NAME=VALUE"), "{error}");
    let error = refused(
        "twice",
        "price_target_ip: 1\nbid-price-script-variable: PRICE_TARGET_IP=2\n",
    );
    assert!(error.contains("are the same setting"), "{error}");
}
