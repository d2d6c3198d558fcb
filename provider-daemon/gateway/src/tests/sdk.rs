//! Log lines read by a websocket client of another project. The tests of the whole program in
//! `tests/integration/run/outside.rs` use other clients. Those tests cannot cover log lines, because the
//! in-memory cluster of the program has none.

use super::world::{SDL, World};
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_core::types::Msg;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;
use testbed::clients;

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

/// Returns the value in `found`. For an error, prints the reason and returns `None`.
fn had<T, E: std::fmt::Display>(what: &str, found: Result<T, E>) -> Option<T> {
    found
        .inspect_err(|why| println!("skipped: {what} is not available: {why}"))
        .ok()
}

/// Runs a program on a blocking thread, so that the gateway can respond to the program.
async fn run(mut command: Command) -> Output {
    let running = move || command.stdin(Stdio::null()).output().unwrap();
    tokio::task::spawn_blocking(running).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn program(path: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(words);
    command
}

/// Starts a world with a clock one minute ahead of the system clock, so that new tokens are valid.
async fn world_of_today() -> World {
    let world = World::start().await;
    world.set_time(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 60);
    world
}

async fn script(folder: &Path, asked: Value) -> Value {
    let mut command = program(Path::new("node"), &["gateway.mjs", &asked.to_string()]);
    command
        .current_dir(folder)
        .env("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    let output = run(command).await;
    assert!(output.status.success(), "{asked}\n{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
}

struct SdkTenant {
    folder: PathBuf,
    made: Value,
}

impl SdkTenant {
    /// Creates the credentials, publishes the certificate and starts a lease. `None` without the SDK.
    async fn with_lease(world: &World) -> Option<Self> {
        let folder = had("the TypeScript SDK", clients::node())?;
        let words = SecretString::from(WORDS.to_owned());
        let key = derive_key(&words, &"".into(), DEFAULT_PATH).unwrap();
        let made = script(&folder, json!({"act": "credentials", "mnemonic": WORDS})).await;
        assert_eq!(made["address"], key.address().as_str());
        world.register(key.address(), key.public().as_bytes());
        let pem = |name: &str| made["certificate"][name].as_str().unwrap().as_bytes().to_vec();
        world.publish(&Msg::CreateCertificate {
            owner: key.address().clone(),
            cert: pem("cert"),
            pubkey: pem("publicKey"),
        });
        let lease = world.running(key.address(), 7, SDL).await;
        assert!(world.cluster.log(&lease, "web", 0, "one <line>"));
        Some(Self { folder, made })
    }

    async fn asks(&self, world: &World, path: &str, token: Option<&str>, more: Value) -> Value {
        let websocket = more["act"] == "listen";
        let scheme = if websocket { "wss" } else { "https" };
        let mut asked = more;
        asked["url"] = json!(format!("{scheme}://{}{path}", world.address));
        match token {
            Some(name) => asked["token"] = self.made[name].clone(),
            None => {
                asked["cert"] = self.made["certificate"]["cert"].clone();
                asked["key"] = self.made["certificate"]["privateKey"].clone();
            }
        }
        script(&self.folder, asked).await
    }
}

#[tokio::test]
async fn websocket_client_of_the_sdk_reads_logs() {
    let world = world_of_today().await;
    let Some(stranger) = SdkTenant::with_lease(&world).await else {
        return world.stop().await;
    };
    let listen = || json!({"act": "listen"});
    for access in [Some("full"), Some("logs"), None] {
        let seen = stranger.asks(&world, "/lease/7/1/1/logs", access, listen()).await;
        let line = "{\"name\":\"web-0\",\"message\":\"one \\u003cline\\u003e\"}\n";
        assert_eq!(seen["frames"], json!([line]), "{access:?}: {seen}");
        assert_eq!(seen["code"], 1000);
    }
    world.stop().await;
}
