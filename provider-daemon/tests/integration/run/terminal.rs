//! Secrets that a user types at a terminal.

use crate::stage::Stage;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A command at a pseudo-terminal created by `script`.
struct Terminal {
    child: Child,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(stage: &Stage, words: &[&str]) -> Self {
        let daemon = stage.command(words);
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
        let line: Vec<String> = std::iter::once(daemon.get_program())
            .chain(daemon.get_args())
            .map(quoted)
            .collect();
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"]);
        for (name, value) in daemon.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let screen: Arc<Mutex<String>> = Arc::default();
        let (mut output, all) = (child.stdout.take().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                all.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, screen }
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// The terminal device of the command, from `/proc`.
    fn device(&self) -> Option<PathBuf> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let child = std::fs::read_to_string(children).ok()?;
        let child = child.split_whitespace().next()?.to_owned();
        std::fs::read_link(format!("/proc/{child}/fd/0")).ok()
    }

    fn echoes(&self) -> bool {
        let Some(device) = self.device() else { return true };
        let settings = Command::new("stty")
            .arg("--file")
            .arg(device)
            .arg("--all")
            .output();
        !settings.is_ok_and(|settings| String::from_utf8_lossy(&settings.stdout).contains("-echo "))
    }

    #[track_caller]
    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < PATIENCE, "{what}: {}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a prompt without echo, and then types the text.
    #[track_caller]
    fn type_at_prompt(&mut self, question: &str, answer: &str) {
        self.until(question, || self.screen().contains(question));
        self.until("the terminal does not echo", || !self.echoes());
        writeln!(self.child.stdin.as_ref().unwrap(), "{answer}").unwrap();
    }

    fn ended(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(began.elapsed() < PATIENCE, "{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn passphrases_are_prompted_without_echo() {
    for tool in ["script", "stty"] {
        if Command::new(tool).arg("--version").output().is_err() {
            println!("skipped: {tool} is absent");
            return;
        }
    }
    let stage = Stage::new("terminal", false);
    let (right, wrong) = ("right and secret", "wrong and secret");
    let mut add = Terminal::start(&stage, &["keys", "add", "main", "--keyring-backend=file"]);
    add.type_at_prompt("new passphrase of the keyring: ", right);
    add.type_at_prompt("new passphrase of the keyring again: ", right);
    assert_eq!(add.ended(), 0, "{}", add.screen());
    let show = ["keys", "show", "main", "-a", "--keyring-backend=file"];
    let mut show = Terminal::start(&stage, &show);
    show.type_at_prompt("passphrase of the keyring: ", wrong);
    show.until("another try", || show.screen().contains("try again"));
    let asked = |show: &Terminal| show.screen().matches("passphrase of the keyring: ").count();
    show.until("the second prompt", || asked(&show) == 2);
    show.type_at_prompt("passphrase of the keyring: ", right);
    assert_eq!(show.ended(), 0, "{}", show.screen());
    show.until("the address", || show.screen().contains("akash1"));
    for terminal in [&add, &show] {
        assert!(!terminal.screen().contains("and secret"), "{}", terminal.screen());
    }
}
