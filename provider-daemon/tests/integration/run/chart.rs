//! What today's chart does before it runs the provider, as a script of the same words with the same tools.

use crate::stage::{ADDRESS, Stage, WORDS};
use std::path::PathBuf;
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

/// The chart's container: the program under its name, the key's secret, an empty place for the certificate.
struct Container<'a> {
    stage: &'a Stage,
    folder: PathBuf,
    path: String,
    /// Name of the key.
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

    /// The exported key and its passphrase.
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

    /// Runs a script as the chart does; what it says.
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

/// Runs the steps until nothing is left to do, and again with another record.
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
    assert_eq!(container.runs(SCRIPT), "", "nothing is left to do");
    container.provider_file("us-east");
    assert_eq!(container.runs(SCRIPT), "updated\n");
}

#[test]
fn the_steps_of_today_s_chart_work_and_are_taken_once() {
    takes_its_steps("chart", "provider");
}

/// Guides set `from` to the account's address, which becomes the name of the key.
#[test]
fn the_steps_of_today_s_chart_work_with_a_key_named_by_its_address() {
    takes_its_steps("chart-address", ADDRESS);
}
