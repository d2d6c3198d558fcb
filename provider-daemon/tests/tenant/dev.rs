//! What `dev` prints for tenants works when it is pasted.

use crate::stage::until;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

struct Dev {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Dev {
    fn start(words: &[&str]) -> Self {
        let address = [
            "dev",
            "--gateway-listen-address",
            "127.0.0.1:0",
            "--block-time",
            "200ms",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        command.args(address).args(words).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, said }
    }

    fn line(&self, begin: &str) -> Option<String> {
        let said = self.said.lock().unwrap();
        let mut lines = said.lines().map(str::trim);
        lines.find(|line| line.starts_with(begin)).map(str::to_owned)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn the_printed_commands_work(words: &[&str]) {
    let dev = Dev::start(words);
    until("the commands", || dev.line("curl").is_some());
    let mut environment = Vec::new();
    let line = dev.line("export ").unwrap();
    for pair in line.trim_start_matches("export ").split(' ') {
        let (name, value) = pair.split_once('=').unwrap();
        environment.push((name.to_owned(), value.trim_matches('\'').to_owned()));
    }
    let ran = |line: &str| {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("provider-daemon"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        let output = command
            .args(words)
            .envs(environment.clone())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let lease_status = dev.line("provider-daemon lease-status").unwrap();
    let mut last = String::new();
    until("a lease that runs", || {
        let (is_good, out, err) = ran(&lease_status);
        last = format!("{out}{err}");
        is_good && out.contains("\"uris\"") && out.contains("\"web\"")
    });
    let (is_good, out, err) = ran(&dev.line("provider-daemon status").unwrap());
    assert!(is_good && out.contains("\"cluster\""), "{out}{err}");
    let (is_good, out, err) = ran(&dev.line("provider-daemon lease-events").unwrap());
    assert!(is_good, "{out}{err}\n{last}");
}

#[test]
fn what_dev_prints_for_a_tenant_works() {
    the_printed_commands_work(&[]);
}

#[test]
fn what_dev_prints_for_a_tenant_works_over_the_wire_too() {
    the_printed_commands_work(&["--wire"]);
}
