//! Queries as used by scripts, with recorded responses.

use super::Home;
use super::recorded::Recorded;
use serde_json::Value;

const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";

#[test]
fn provider_is_printed_in_comparable_form() {
    let node = Recorded::start();
    let home = Home::new("provider");
    let set = [("AKASH_NODE", node.url.as_str()), ("AP_CHAIN_ID", "local")];
    let json = home
        .run_with(&["query", "provider", "get", PROVIDER, "-o", "json"], &set, "")
        .good();
    let record = format!(
        "{{\"owner\":\"{PROVIDER}\",\"host_uri\":\"https://provider.localhost:8443\",\"attributes\":[{{\"key\":\"region\","
    );
    assert!(json.starts_with(&record), "{json}");
    let contact = "\"info\":{\"email\":\"ops@example.com\",\"website\":\"https://provider.example.com\"}}\n";
    assert!(json.ends_with(contact), "{json}");
    let yaml = home
        .run_with(&["query", "provider", "get", PROVIDER], &set, "")
        .good();
    let lines: Vec<&str> = yaml.lines().collect();
    assert_eq!(
        lines[..3],
        ["attributes:", "- key: region", "  value: us-west"],
        "{yaml}"
    );
    assert!(
        yaml.contains("\n  value: \"true\"\n")
            && yaml.contains("\nhost_uri: https://provider.localhost:8443\n")
    );
    let text = home
        .run_with(&["q", "provider", "get", PROVIDER, "-o", "text"], &set, "")
        .good();
    assert_eq!(yaml, text);
}

#[test]
fn deployment_parameters_are_printed_in_comparable_form() {
    let node = Recorded::start();
    let home = Home::new("params");
    let set = [("AKASH_NODE", node.url.as_str()), ("AKASH_OUTPUT", "json")];
    let json = home.run_with(&["query", "deployment", "params"], &set, "").good();
    let amounts = "{\"denom\":\"uakt\",\"amount\":\"500000\"},{\"denom\":\"uact\",\"amount\":\"500000\"}";
    assert_eq!(json, format!("{{\"params\":{{\"min_deposits\":[{amounts}]}}}}\n"));
}

#[test]
fn certificates_are_listed_in_the_format_of_the_go_provider() {
    let node = Recorded::start();
    let home = Home::new("cert");
    let set = [("AKASH_NODE", node.url.as_str()), ("AKASH_OUTPUT", "json")];
    let args = ["query", "cert", "list", "--owner", PROVIDER, "--reverse"];
    let listed: Value = serde_json::from_str(&home.run_with(&args, &set, "").good()).unwrap();
    let first = &listed["certificates"][0];
    assert_eq!(
        (&first["certificate"]["state"], &first["serial"]),
        (&"valid".into(), &"1795253704990464384".into())
    );
    assert!(
        first["certificate"]["cert"]
            .as_str()
            .unwrap()
            .starts_with("LS0tLS1CRUdJTi")
    );
    assert_eq!(listed["pagination"]["next_key"], Value::Null);
}

#[test]
fn every_query_returns_a_response() {
    let node = Recorded::start();
    let home = Home::new("all");
    let set = [("AKASH_NODE", node.url.as_str())];
    let id = ["--owner", TENANT, "--dseq", "1001"];
    let of = |words: &[&str], more: &[&str]| {
        let args = [&["query"][..], words, more, &["-o", "json"]].concat();
        let json: Value = serde_json::from_str(&home.run_with(&args, &set, "").good()).unwrap();
        json
    };
    assert!(of(&["provider", "list"], &[])["providers"].is_array());
    assert!(of(&["orders"], &["--state", "open"])["orders"].is_array());
    assert!(of(&["market", "order", "list"], &id)["orders"].is_array());
    assert_eq!(of(&["market", "order", "get"], &id)["id"]["dseq"], "1001");
    assert!(of(&["bids"], &["--provider", PROVIDER])["bids"].is_array());
    let provider = [&id[..], &["--provider", PROVIDER]].concat();
    assert_eq!(
        of(&["market", "bid", "get"], &provider)["bid"]["price"]["amount"],
        "40.000000000000000000"
    );
    let lease = of(&["market", "lease", "get"], &provider);
    assert_eq!(
        (&lease["lease"]["state"], &lease["lease"]["closed_on"]),
        (&"active".into(), &"0".into())
    );
    assert!(of(&["leases"], &["--state", "active"])["leases"].is_array());
    let deployment = of(&["deployment", "get"], &id);
    assert_eq!(
        deployment["groups"][0]["group_spec"]["resources"][0]["resource"]["cpu"]["units"]["val"],
        "100"
    );
    assert_eq!(of(&["deployment", "group", "get"], &id)["id"]["gseq"], 1);
    assert!(of(&["escrow", "accounts"], &[])["accounts"].is_array());
    assert!(of(&["escrow", "payments", "open"], &[])["payments"].is_array());
    assert!(of(&["audit", "get", PROVIDER], &[])["providers"].is_array());
    assert!(of(&["bank", "balances", PROVIDER], &[])["balances"].is_array());
    assert_eq!(
        of(&["auth", "account", PROVIDER], &[])["account"]["@type"],
        "/cosmos.auth.v1beta1.BaseAccount"
    );
    let params = of(&["params"], &[]);
    assert_eq!(params["market"]["order_max_bids"], 20);
    assert!(params["deployment"]["min_deposits"].is_array());
    assert_eq!(of(&["market", "params"], &[]), params["market"]);
}

#[test]
fn failed_query_is_a_clear_error() {
    let home = Home::new("errors");
    let dead = "http://127.0.0.1:1";
    home.run(&["query", "params", "--node", dead])
        .failed(&["127.0.0.1:1", "--node"]);
    home.run(&["query", "params", "--node", dead, "--chain-id", "local"])
        .failed(&[
            "error: cannot connect to http://127.0.0.1:1 (connection refused): is the node running?\nhelp: select another \
             node with --node\n",
        ]);
    let once = home.run(&["query", "params", "--node", dead, "--chain-id", "local"]);
    assert_eq!(once.err.lines().count(), 2, "{}", once.err);
    home.run(&["query", "params", "--node", "grpc://127.0.0.1:1"]).failed(&[
        "error: cannot connect to grpc://127.0.0.1:1 (connection refused): is the node running?\nhelp: select another node",
    ]);
    home.run(&["query", "params", "--node", "ftp://x"])
        .failed(&["ftp", "http://"]);
    home.run(&["query", "params", "--node", ","])
        .failed(&["missing node address in --node"]);
    let node = Recorded::start();
    let url = node.url.as_str();
    home.run(&["query", "params", "--node", url, "--chain-id", "akashnet-2"])
        .failed(&[url, "`local`", "`akashnet-2`", "chain id"]);
    let nobody = TENANT;
    let tls = url.replace("http://", "https://");
    home.run(&["query", "params", "--node", &tls]).failed(&[
        "(the port does not support TLS): use http:// or grpc://",
        "--node",
    ]);
    // The recorded response for an account that never registered.
    home.run(&["query", "provider", "get", nobody, "--node", url])
        .failed(&[
            nobody,
            "is not registered on this chain",
            "--chain-id",
            "tx provider create",
        ]);
    let page = ["query", "provider", "list", "--page-key", "%%", "--node", url];
    home.run(&page).failed(&["--page-key", "next_key"]);
    home.run(&["query", "orders", "--provider", PROVIDER, "--node", url])
        .failed(&["an order has no provider"]);
    let address = home.run(&["query", "provider", "get", "cosmos1xyz", "--node", url]);
    assert!(
        address.code != 0 && address.err.contains("cosmos1xyz"),
        "{}",
        address.err
    );
}
