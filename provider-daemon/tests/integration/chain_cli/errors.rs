//! Snapshot of frequent errors.

use super::Home;
use crate::snapshot;

const ADDRESS: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
const MNEMONIC: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

#[test]
fn frequent_errors_match_the_snapshot() {
    let home = Home::new("errors");
    home.write("invalid.yaml", "version: '2.0'\nservices: {web: {imag: nginx}}\n");
    home.write("settings.yaml", "bidpricecpuscal: 1\n");
    home.write("prices.yaml", "version: 1\nper: block\nprices: {cpuu: 1}\n");
    let key = home.write("key", MNEMONIC);
    let folder = home.path("").to_string_lossy().into_owned();
    let [settings, prices, missing, invalid] =
        ["settings.yaml", "prices.yaml", "missing.yaml", "invalid.yaml"]
            .map(|name| home.path(name).to_string_lossy().into_owned());
    let status = [
        "lease-status",
        "--dseq=1",
        "--gseq=1",
        "--oseq=1",
        "--provider",
        ADDRESS,
        "--key-file",
        &key,
        "--offline",
        "--provider-url",
    ];
    let commands: [Vec<&str>; 11] = [
        vec!["run", "--bid-timeot=5m"],
        vec!["run", "--bid-timeout=soon"],
        vec!["config", "check", &settings],
        vec!["price", "check", &prices],
        vec!["sdl", "validate", &missing],
        vec!["sdl", "validate", &invalid],
        vec!["query", "params", "--node=http://127.0.0.1:1"],
        vec!["tx", "deployment", "close", "--dseq=1"],
        vec!["leases"],
        [&status[..], &["http://127.0.0.1:1"]].concat(),
        [&status[..], &["https://127.0.0.1:1"]].concat(),
    ];
    let mut text = String::new();
    for command in commands {
        let ran = home.run(&command);
        assert_ne!(ran.code, 0, "{command:?}");
        let line = command.join(" ");
        text.push_str(&format!("$ provider-daemon {line}\n{}{}\n", ran.out, ran.err));
    }
    snapshot::check("errors.txt", &text.replace(&folder, "HOME/"));
}
