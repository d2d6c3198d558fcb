//! What today's chart does before it runs the provider, as a script of the same words with the same tools.

use crate::stage::{ADDRESS, Stage, WORDS};
use std::process::Command;
use std::time::Duration;

/// Its steps: import the key, register or update, and make a certificate where the chain has no good one. It says
/// which of them it took.
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

#[test]
fn the_steps_of_today_s_chart_work_and_are_taken_once() {
    for tool in ["bash", "bc", "jq", "openssl"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: {tool} is absent");
            return;
        }
    }
    let mut stage = Stage::new("chart", false);
    stage.start_node(Some(Duration::from_millis(250)));
    let folder = stage.path("");
    for name in ["bin", "boot", "config"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_provider-daemon"),
        folder.join("bin/provider-services"),
    )
    .unwrap();
    // The exported key and its passphrase, as the chart's secret holds them.
    let words = folder.join("words-of-the-key");
    std::fs::write(&words, WORDS).unwrap();
    let test = "--keyring-backend=test";
    let elsewhere = format!("--keyring-dir={}", folder.join("elsewhere").display());
    let source = format!("--source={}", words.display());
    let (code, _, err) = stage.ran(&["keys", "add", "k", &source, test, &elsewhere]);
    assert_eq!(code, 0, "{err}");
    let exported = Command::new("bash")
        .arg("-c")
        .arg(format!(
            "echo 'pass of the key' | provider-services keys export k {test} '{elsewhere}' > boot/key.txt"
        ))
        .env(
            "PATH",
            format!(
                "{}:{}",
                folder.join("bin").display(),
                std::env::var("PATH").unwrap()
            ),
        )
        .current_dir(&folder)
        .status();
    assert!(exported.unwrap().success());
    std::fs::write(folder.join("boot/key-pass.txt"), "pass of the key").unwrap();
    let file = |region: &str| {
        let text = format!(
            "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: {region}\n  - key: \
             feat\n    value: true\ninfo:\n  email: ops@example.com\n  website: \nowner: {ADDRESS}\n"
        );
        std::fs::write(folder.join("provider.yaml"), text).unwrap();
    };
    let script = || {
        let output = stage
            .command(&[])
            .get_envs()
            .fold(Command::new("bash"), |mut bash, (name, value)| {
                match value {
                    Some(value) => bash.env(name, value),
                    None => bash.env_remove(name),
                };
                bash
            })
            .env_remove("AKASH_KEY_FILE")
            .env("AKASH_FROM", "provider")
            .env("AKASH_KEYRING_BACKEND", "test")
            .env("AKASH_BOOT_KEYS", folder.join("boot"))
            .env("AKASH_YES", "true")
            .env("AKASH_GAS", "auto")
            .env("AKASH_GAS_PRICES", "0.025uakt")
            .env("AKASH_GAS_ADJUSTMENT", "1.5")
            .env(
                "PATH",
                format!(
                    "{}:{}",
                    folder.join("bin").display(),
                    std::env::var("PATH").unwrap()
                ),
            )
            .current_dir(&folder)
            .args(["-c", SCRIPT])
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
    };
    file("us-west");
    assert_eq!(script(), "created\ncertified\n");
    assert_eq!(script(), "", "nothing is left to do");
    file("us-east");
    assert_eq!(script(), "updated\n");
}
