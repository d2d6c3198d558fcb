//! Transactions, tested without a chain: they fail at the first step that needs one.

use super::Home;
use serde_json::{Value, json};

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
const ADDRESS: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const FILE: &str = "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: us-west\n  \
                    - key: feature\n    value: true\ninfo:\n  email: ops@example.com\n  website: \nowner: main\n";

fn with_key(name: &str) -> Home {
    let home = Home::new(name);
    home.run_with(
        &["keys", "add", "main", "--recover", "--keyring-backend=test"],
        &[],
        WORDS,
    )
    .good();
    home
}

#[test]
fn provider_update_is_printed_in_comparable_form() {
    let home = Home::new("generate");
    let file = home.write("provider.yaml", FILE);
    let args = [
        "tx",
        "provider",
        "update",
        &file,
        "--offline",
        "--generate-only",
        "--from",
        ADDRESS,
    ];
    let printed: Value = serde_json::from_str(&home.run(&args).good()).unwrap();
    let message = &printed["body"]["messages"][0];
    assert_eq!(message["@type"], "/akash.provider.v1beta4.MsgUpdateProvider");
    let attributes = json!([{"key": "region", "value": "us-west"}, {"key": "feature", "value": "true"}]);
    assert_eq!(
        (&message["owner"], &message["attributes"]),
        (&ADDRESS.into(), &attributes)
    );
    assert_eq!(
        message["info"],
        json!({"email": "ops@example.com", "website": ""})
    );
    assert_eq!(printed["auth_info"]["fee"]["gas_limit"], "200000");
    assert_eq!(printed["signatures"], json!([]));
}

#[test]
fn certificate_is_generated_once_and_written_through_symlink() {
    let home = with_key("certificate");
    let set = [("AKASH_FROM", "main"), ("AKASH_KEYRING_BACKEND", "test")];
    let real = home.path("config/provider.pem");
    std::fs::create_dir_all(home.path("config")).unwrap();
    let link = home.path(&format!("{ADDRESS}.pem"));
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let generate = ["tx", "cert", "generate", "server", "provider.example.com"];
    home.run_with(&generate, &set, "").good();
    let first = std::fs::read_to_string(&real).unwrap();
    assert!(
        first.contains("BEGIN CERTIFICATE") && first.contains("BEGIN ENCRYPTED PRIVATE KEY"),
        "{first}"
    );
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    home.run_with(&generate, &set, "")
        .failed(&[ADDRESS, "--overwrite"]);
    home.run_with(&[&generate[..], &["--overwrite"]].concat(), &set, "")
        .good();
    assert_ne!(std::fs::read_to_string(&real).unwrap(), first);
    let bad = [
        "tx",
        "cert",
        "generate",
        "server",
        "https://provider.example.com:8443",
        "--overwrite",
    ];
    home.run_with(&bad, &set, "")
        .failed(&["https://provider", "without scheme and port"]);
    let publish = ["tx", "cert", "publish", "server", "--offline", "--generate-only"];
    let printed: Value = serde_json::from_str(&home.run_with(&publish, &set, "").good()).unwrap();
    assert_eq!(
        printed["body"]["messages"][0]["@type"],
        "/akash.cert.v1.MsgCreateCertificate"
    );
}

#[test]
fn signing_key_is_read_from_file_or_environment() {
    let home = with_key("secret");
    let armor = ["keys", "export", "main", "--keyring-backend=test"];
    let key = home.write("key.txt", &home.run_with(&armor, &[], "long enough\n").good());
    let pass = home.write("key-pass.txt", "long enough\n");
    let words = home.write("words", WORDS);
    let generate = ["tx", "cert", "generate", "client", "--overwrite"];
    let of = |more: &[&str], set: &[(&str, &str)]| {
        let _ = std::fs::remove_file(home.path(&format!("{ADDRESS}.pem")));
        home.run_with(&[&generate[..], more].concat(), set, "").good();
        assert!(home.path(&format!("{ADDRESS}.pem")).exists());
    };
    of(&["--key-file", &key, "--key-passphrase-file", &pass], &[]);
    of(&["--key-file", &words], &[]);
    of(&[], &[("AKASH_KEY_MNEMONIC", WORDS)]);
    of(&["--from", ADDRESS], &[("AP_KEY_MNEMONIC", WORDS)]);
    let other = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
    home.run(&[&generate[..], &["--key-file", &words, "--from", other]].concat())
        .failed(&[other, ADDRESS]);
    let wrong = home.write("wrong", "not that one\n");
    home.run(
        &[
            &generate[..],
            &["--key-file", &key, "--key-passphrase-file", &wrong],
        ]
        .concat(),
    )
    .failed(&["key.txt", "wrong passphrase"]);
    home.run(&generate).failed(&["missing --from"]);
}

#[test]
fn invalid_transaction_is_a_clear_error_and_not_sent() {
    let home = with_key("refused");
    let set = [
        ("AKASH_FROM", "main"),
        ("AKASH_KEYRING_BACKEND", "test"),
        ("AKASH_YES", "true"),
    ];
    let file = home.write("provider.yaml", FILE);
    let create = ["tx", "provider", "create", &file];
    home.run_with(&create, &set, "").failed(&["missing --chain-id"]);
    let named = [
        &create[..],
        &["--chain-id", "local", "--node", "http://127.0.0.1:1"],
    ]
    .concat();
    home.run_with(&named, &set, "")
        .failed(&["cannot connect to http://127.0.0.1:1 (connection refused): is the node running?"]);
    home.run_with(&[&create[..], &["--offline"]].concat(), &set, "")
        .failed(&["--offline", "--generate-only"]);
    home.run_with(&[&named[..], &["--gas-prices", "cheap"]].concat(), &set, "")
        .failed(&["\"cheap\" for --gas-prices"]);
    home.run_with(&[&named[..], &["--fees", "many"]].concat(), &set, "")
        .failed(&["--fees many", "5000uakt"]);
    home.run_with(&["tx", "provider", "create", "/nowhere.yaml"], &set, "")
        .failed(&["/nowhere.yaml"]);
    let bad = home.write("bad.yaml", "host: http://provider.example.com\n");
    home.run_with(&["tx", "provider", "create", &bad], &set, "")
        .failed(&["bad.yaml", "https"]);
    let twice = home.write(
        "twice.yaml",
        "host: https://h\nattributes:\n- key: ab\n  value: 1\n- key: ab\n  value: 2\n",
    );
    home.run_with(&["tx", "provider", "create", &twice], &set, "")
        .failed(&["twice.yaml", "attribute 2", "`ab`"]);
    home.run_with(&["tx", "cert", "publish", "server"], &set, "")
        .failed(&[ADDRESS, "tx cert generate"]);
}
