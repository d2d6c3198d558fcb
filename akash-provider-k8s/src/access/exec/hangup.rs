//! Stops processes of a command after its client disconnected.
//!
//! Container runtimes do not stop a command when its connection closes, even with a terminal. Therefore the
//! provider starts each command through `env` with a unique variable (the mark). `env` executes the command
//! in its own process, so arguments, exit code and process are those of the command. When the client
//! disconnects, the provider sends signals to the session of the process with the mark, and to no other
//! command.
//!
//! ```text
//! sh, env and grep exist? (checked once per container) ─ yes ─► env MARK command
//!                                                      └ no ──► command, not stopped on disconnect
//! dropped ─► sh finds the process with MARK ─► HUP to its session ─► 1 s ─► KILL
//! ```

use super::super::Access;
use super::super::pods::Replica;
use super::{outcome, run};
use akash_provider_core::error::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Environment variable that marks the processes of one command.
const VARIABLE: &str = "AKASH_EXEC_ID";
/// Script that succeeds if the container has `env`, `grep` and a readable `/proc`.
const TOOLS: &str = "{ command -v env && command -v grep; } >/dev/null && [ -r /proc/self/environ ]";
/// Script that succeeds if the container runtime would find the executable `$1`.
const THERE: &str = r#"
case $1 in
  */*) [ -f "$1" ] ;;
  *) IFS=:; for dir in $PATH; do [ -f "${dir:-.}/$1" ] && exit 0; done; exit 1 ;;
esac
"#;
/// Script that stops the sessions of marked processes with SIGHUP, and one second later with SIGKILL.
/// A session that the command created, for example with `setsid`, gets no signal.
///
/// `grep` runs without `-F`, because busybox with `-F` searches only the first variable.
const SCRIPT: &str = r#"
stat() { { read -r line </proc/$1/stat; } 2>/dev/null; }
gone=" "; tries=0
while [ "$gone" = " " ] && [ $tries -lt 4 ]; do
  [ $tries = 0 ] || sleep 1
  tries=$((tries + 1))
  for file in $(grep -l "$1" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}; pid=${pid%/environ}; mark=$1
    stat $pid || continue
    set -- ${line##*) }; session=$4; set -- "$mark"
    if stat $session; then
      set -- ${line##*) }; parent=$2; set -- "$mark"
      [ "$parent" = 0 ] || continue
    fi
    [ "$session" -gt 1 ] && gone="$gone$session "
  done
done
[ "$gone" = " " ] && exit 0
for signal in HUP KILL; do
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}; stat $pid || continue
    set -- ${line##*) }
    case "$gone" in *" $4 "*) kill -$signal $pid 2>/dev/null ;; esac
  done
  [ $signal = HUP ] && sleep 1
done
"#;
/// Maximum duration of the script that stops a command.
const LIMIT: Duration = Duration::from_secs(15);
/// Maximum number of cached containers. A full cache is cleared.
const CONTAINERS: usize = 4_096;

/// Cached results by pod and container: whether the container has the tools to mark commands.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Tools(Arc<Mutex<Checked>>);

type Checked = BTreeMap<(String, Option<String>), bool>;

impl Tools {
    fn get(&self, replica: &Replica) -> Option<bool> {
        let checked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checked.get(&key(replica)).copied()
    }

    fn insert(&self, replica: &Replica, has_tools: bool) {
        let mut checked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.len() >= CONTAINERS {
            checked.clear();
        }
        checked.insert(key(replica), has_tools);
    }
}

fn key(replica: &Replica) -> (String, Option<String>) {
    (replica.uid.clone(), replica.container.clone())
}

/// Running command. If the session is dropped before [`Session::over`] is called, the command is stopped.
#[derive(Debug)]
pub(super) struct Session {
    access: Access,
    namespace: String,
    replica: Replica,
    /// Variable that marks the command; `None` if the command cannot be marked.
    mark: Option<String>,
    over: bool,
}

impl Session {
    /// Creates a session for `command`. Checks whether the container has the programs that stop the command
    /// later. Does not start the command.
    pub(super) async fn new(
        access: &Access,
        namespace: String,
        replica: Replica,
        command: &[String],
    ) -> Result<Self, Error> {
        let marked = can_be_marked(command) && has_tools(access, &namespace, &replica).await?;
        Ok(Self {
            access: access.clone(),
            namespace,
            replica,
            mark: marked.then(mark),
            over: false,
        })
    }

    /// Returns a command line that sets the environment variable of this session and then runs `command`.
    pub(super) fn command(&self, command: &[String]) -> Vec<String> {
        let marker = self.mark.iter().flat_map(|mark| ["env".to_owned(), mark.clone()]);
        marker.chain(command.iter().cloned()).collect()
    }

    /// Records that the command ended or was never started. After this call, dropping the session does not
    /// stop any process.
    pub(super) const fn over(&mut self) {
        self.over = true;
    }

    /// Returns true if the executable does not exist. The exit code is not sufficient, because the command
    /// itself can return 127.
    pub(super) async fn is_missing(&self, code: i32, command: &[String]) -> bool {
        let Some(name) = command.first().filter(|_| self.mark.is_some() && code == 127) else {
            return false;
        };
        let script = ["sh", "-c", THERE, "there", name];
        let check = run(&self.access, &self.namespace, &self.replica, &script);
        let check = timeout(self.access.call_timeout, check).await;
        // If the check fails, the code counts as the command's.
        matches!(check, Ok(Ok(status)) if matches!(outcome(&status), Ok(1)))
    }
}

/// Returns false for an executable that `env` would parse as a variable.
fn can_be_marked(command: &[String]) -> bool {
    command.first().is_some_and(|name| !name.contains('='))
}

async fn has_tools(access: &Access, namespace: &str, replica: &Replica) -> Result<bool, Error> {
    if let Some(has_tools) = access.tools.get(replica) {
        return Ok(has_tools);
    }
    let check = run(access, namespace, replica, &["sh", "-c", TOOLS]);
    let limit = access.command_start_timeout;
    let status = match timeout(limit, check).await.map_err(|_| super::too_slow(limit))? {
        Ok(status) => status,
        Err(error) => {
            let error = super::not_started(error);
            // Some runtimes report a missing `sh` this way.
            if error.kind() == ErrorKind::Invalid {
                access.tools.insert(replica, false);
                return Ok(false);
            }
            return Err(error);
        }
    };
    let result = outcome(&status);
    let has_tools = matches!(result, Ok(0));
    // A broken connection proves nothing about the container: the next command checks again.
    let is_certain = match &result {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::Invalid,
    };
    if is_certain {
        access.tools.insert(replica, has_tools);
    }
    Ok(has_tools)
}

/// Returns an environment variable that marks the processes of one command. The value has 128 unpredictable
/// bits.
fn mark() -> String {
    let bits = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("{VARIABLE}={:016x}{:016x}", bits(), bits())
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take().filter(|_| !self.over) else {
            return;
        };
        // Without a runtime the process is exiting, and no call is possible.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (access, namespace, replica) =
            (self.access.clone(), self.namespace.clone(), self.replica.clone());
        let end = async move {
            let script = ["sh", "-c", SCRIPT, "hangup", &mark];
            // The exit code does not matter: no client waits for it.
            let result = timeout(LIMIT, run(&access, &namespace, &replica, &script)).await;
            let pod = replica.name.as_str();
            match result {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(pod, %error, "cannot stop command"),
                Err(_) => tracing::debug!(pod, error = "timeout", "cannot stop command"),
            }
        };
        drop(runtime.spawn(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn replica(uid: &str) -> Replica {
        Replica {
            name: "web-1".to_owned(),
            uid: uid.to_owned(),
            service: "web".to_owned(),
            container: Some("web".to_owned()),
        }
    }

    #[test]
    fn marks_are_unique() {
        let marks: std::collections::BTreeSet<_> = (0..1_000).map(|_| mark()).collect();
        assert_eq!(marks.len(), 1_000);
        assert!(marks.iter().all(|m| m.len() == VARIABLE.len() + 33), "{marks:?}");
    }

    #[test]
    fn the_cache_of_tools_is_bounded() {
        let tools = Tools::default();
        assert_eq!(tools.get(&replica("a")), None);
        tools.insert(&replica("a"), true);
        tools.insert(&replica("b"), false);
        assert_eq!(tools.get(&replica("a")), Some(true));
        assert_eq!(tools.get(&replica("b")), Some(false));
        for n in 0..CONTAINERS {
            tools.insert(&replica(&n.to_string()), true);
        }
        assert!(tools.0.lock().unwrap().len() <= CONTAINERS);
    }

    #[test]
    fn an_executable_with_an_equals_sign_is_not_marked() {
        let can = |command: &[&str]| {
            let command: Vec<_> = command.iter().map(|&s| s.to_owned()).collect();
            can_be_marked(&command)
        };
        assert!(can(&["sh", "-c", "a=b"]) && can(&["/bin/ls"]));
        assert!(!can(&["a=b"]) && !can(&[]));
    }

    fn there(name: &str) -> bool {
        let script = ["-c", THERE, "there", name];
        let status = Command::new("sh")
            .args(script)
            .env("PATH", "/nowhere:/bin:/usr/bin")
            .status();
        status.unwrap().success()
    }

    #[test]
    fn finds_executables_like_a_container_runtime() {
        assert!(there("sh") && there("/bin/sh"));
        // Builtins of the shell and folders are no executables.
        for name in ["nosuch", "/no/such", "/bin", "export", ""] {
            assert!(!there(name), "{name}");
        }
    }
}
