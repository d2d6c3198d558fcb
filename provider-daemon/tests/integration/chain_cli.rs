//! `keys`, `query` and `tx` as used by scripts, without a chain or with recorded responses of a chain.

use crate::environment;
mod errors;
mod keys;
mod query;
mod recorded;
mod tx;

use environment::without_settings;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

struct RunOutput {
    code: i32,
    out: String,
    err: String,
}

impl RunOutput {
    #[track_caller]
    fn good(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    fn failed(self, words: &[&str]) {
        assert_eq!(self.code, 1, "{}\n{}", self.out, self.err);
        assert!(
            self.err.contains("error: ") && !self.err.contains("panicked"),
            "{}",
            self.err
        );
        for word in words {
            assert!(self.err.contains(word), "`{word}` is not in: {}", self.err);
        }
    }
}

/// A separate home folder, and commands that use it.
struct Home {
    folder: PathBuf,
}

impl Home {
    fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The number separates tests that use the same name.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("chain-cli-{}-{number}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn run(&self, args: &[&str]) -> RunOutput {
        self.run_with(args, &[], "")
    }

    /// Runs a command as [`Self::run`] does, with environment variables and standard input.
    fn run_with(&self, args: &[&str], environment: &[(&str, &str)], input: &str) -> RunOutput {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        without_settings(&mut command);
        let mut child = command
            .args(args)
            .env("AP_HOME", &self.folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that needs no input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        RunOutput {
            code: output.status.code().unwrap(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
