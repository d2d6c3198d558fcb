//! Keys: create, recover, show, export, import and remove.

use super::Home;
use serde_json::Value;

/// A well-known mnemonic and its address.
const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
const ADDRESS: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const TEST: [&str; 2] = ["--keyring-backend", "test"];

fn keys(words: &[&str], backend: &[&str]) -> Vec<String> {
    let all = ["keys"].iter().chain(words).chain(backend);
    all.map(ToString::to_string).collect()
}

#[test]
fn key_is_recovered_from_mnemonic_and_shown() {
    let home = Home::new("recover");
    let add = ["keys", "add", "main", "--recover", "--keyring-backend", "test"];
    let added = home.run_with(&add, &[], &format!("{WORDS}\n")).good();
    let text = format!("- address: {ADDRESS}\n  name: main\n  pubkey: ");
    assert!(
        added.starts_with(&text) && added.ends_with("  type: local\n"),
        "{added}"
    );
    let show = |more: &[&str]| {
        let words = [&["show"][..], more].concat();
        let args = keys(&words, &TEST);
        home.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(show(&["main", "-a"]).good(), format!("{ADDRESS}\n"));
    assert_eq!(show(&[ADDRESS, "--address"]).good(), format!("{ADDRESS}\n"));
    let public: Value = serde_json::from_str(&show(&["main", "-p"]).good()).unwrap();
    assert_eq!(public["@type"], "/cosmos.crypto.secp256k1.PubKey");
    let record = show(&["main", "-o", "json"]).good();
    assert!(
        record.starts_with(r#"{"name":"main","type":"local","address":"akash19rl4"#),
        "{record}"
    );
    show(&["other"]).failed(&["`other`", "keyring-test", "keys list"]);
    let listed = home
        .run(&["keys", "list", "--keyring-backend", "test", "--output", "json"])
        .good();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed[0]["name"], listed.as_array().unwrap().len()),
        (&Value::from("main"), 1)
    );
    home.run(&["keys", "add", "main", "--keyring-backend", "test"])
        .failed(&["`main`", "already"]);
}

#[test]
fn new_key_is_printed_with_its_mnemonic() {
    let home = Home::new("new");
    let add = ["keys", "add", "fresh", "--keyring-backend", "test", "-o", "json"];
    let added: Value = serde_json::from_str(&home.run(&add).good()).unwrap();
    let words = added["mnemonic"].as_str().unwrap();
    assert_eq!(words.split(' ').count(), 24);
    let file = home.write("words", words);
    let again = [
        "keys",
        "add",
        "x",
        "--source",
        &file,
        "--dry-run",
        "--output",
        "json",
    ];
    let again: Value = serde_json::from_str(&home.run(&again).good()).unwrap();
    assert_eq!(again["address"], added["address"]);
    assert!(again.get("mnemonic").is_none());
    let secret = home.run(&["keys", "add", "y", "--keyring-backend=test", "--no-backup"]);
    assert_eq!(secret.err, "");
}

#[test]
fn key_moves_between_keyrings_by_export_and_import() {
    let home = Home::new("armor");
    home.run_with(
        &["keys", "add", "a", "--recover", "--keyring-backend=test"],
        &[],
        WORDS,
    )
    .good();
    let export = ["keys", "export", "a", "--keyring-backend=test"];
    let armor = home.run_with(&export, &[], "long enough\n").good();
    assert!(
        armor.starts_with("-----BEGIN TENDERMINT PRIVATE KEY-----\n"),
        "{armor}"
    );
    home.run_with(&export, &[], "short\n").failed(&["8 to 71"]);
    let file = home.write("key.txt", &armor);
    let import = ["keys", "import", "b", &file];
    // The Helm chart passes the key's passphrase, then the new keyring's passphrase twice.
    home.run_with(&import, &[], "long enough\nnew passphrase\nnew passphrase\n")
        .good();
    let show = ["keys", "show", "b", "-a"];
    assert_eq!(
        home.run_with(&show, &[], "new passphrase\n").good(),
        format!("{ADDRESS}\n")
    );
    let of_environment = home.run_with(&show, &[("AKASH_KEYRING_PASSPHRASE", "new passphrase")], "");
    assert_eq!(of_environment.good(), format!("{ADDRESS}\n"));
    let file_of = home.write("passphrase", "new passphrase\n");
    let of_file = home.run(&["keys", "show", "b", "-a", "--keyring-passphrase-file", &file_of]);
    assert_eq!(of_file.good(), format!("{ADDRESS}\n"));
    home.run_with(&show, &[], "another one\n")
        .failed(&["wrong passphrase", "keyring-file"]);
    home.run_with(&show, &[], "")
        .failed(&["the passphrase of the keyring is empty"]);
    home.run_with(&import, &[], "not that one\n")
        .failed(&["wrong passphrase", "exported key", "key.txt"]);
    let broken = home.write("broken.txt", &armor.replace("kdf", "kdx"));
    home.run_with(
        &["keys", "import", "c", &broken],
        &[],
        "long enough\nnew passphrase\n",
    )
    .failed(&["broken.txt", "kdf"]);
    home.run_with(&["keys", "import", "c", "/nowhere/key"], &[], "")
        .failed(&["/nowhere/key", "no such file"]);
}

#[test]
fn key_is_removed_only_after_confirmation() {
    let home = Home::new("delete");
    home.run_with(
        &["keys", "add", "a", "--recover", "--keyring-backend=test"],
        &[],
        WORDS,
    )
    .good();
    let delete = ["keys", "delete", "a", "--keyring-backend=test"];
    home.run_with(&delete, &[], "n\n")
        .failed(&["not deleted", "--yes"]);
    home.run_with(&delete, &[], "").failed(&["--yes"]);
    home.run_with(&delete, &[], "y\n").good();
    home.run(&["keys", "show", "a", "--keyring-backend=test"])
        .failed(&["no key `a`"]);
    home.run(&["keys", "delete", "a", "-y", "--keyring-backend=test"])
        .failed(&["no key `a`"]);
}

#[test]
fn desktop_backends_suggest_export() {
    let home = Home::new("backends");
    for backend in ["os", "pass", "kwallet"] {
        home.run(&["keys", "list", "--keyring-backend", backend])
            .failed(&[backend, "keys export", "keys import"]);
    }
    home.run(&["keys", "list", "--keyring-backend", "vault"])
        .failed(&["vault", "file or test"]);
}

#[test]
fn damaged_key_does_not_hide_other_keys() {
    let home = Home::new("damaged");
    home.run_with(
        &["keys", "add", "good", "--recover", "--keyring-backend=test"],
        &[],
        WORDS,
    )
    .good();
    std::fs::write(home.path("keyring-test/bad.info"), "not a key").unwrap();
    let listed = home.run(&["keys", "list", "--keyring-backend=test"]);
    assert!(listed.out.contains("name: good"), "{}", listed.out);
    listed.failed(&["bad.info", "invalid keyring file"]);
}

#[test]
fn invalid_mnemonic_is_not_printed() {
    let home = Home::new("mnemonic");
    let add = ["keys", "add", "a", "--recover", "--keyring-backend=test"];
    let ran = home.run_with(&add, &[], "these are secret words\n");
    assert!(!ran.err.contains("secret words"), "{}", ran.err);
    ran.failed(&["mnemonic"]);
    let path = [
        "keys",
        "add",
        "a",
        "--recover",
        "--keyring-backend=test",
        "--hd-path",
        "x/y",
    ];
    home.run_with(&path, &[], WORDS)
        .failed(&["x/y", "m/44'/118'/0'/0/0"]);
}

#[test]
fn keyrings_of_the_go_provider_are_opened() {
    let folder = testbed::recordings::folder("chain/keyring");
    let home = Home::new("recorded");
    let folder = folder.to_string_lossy().into_owned();
    let args = [
        "keys",
        "list",
        "--keyring-backend=test",
        "--keyring-dir",
        &folder,
        "-o",
        "json",
    ];
    let listed: Value = serde_json::from_str(&home.run(&args).good()).unwrap();
    assert!(!listed.as_array().unwrap().is_empty());
    assert!(
        listed
            .to_string()
            .contains("akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"),
        "{listed}"
    );
}
