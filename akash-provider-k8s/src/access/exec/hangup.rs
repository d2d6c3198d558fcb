//! Ends what a command left behind when nobody waits for it any more.
//!
//! Container runtimes let a command run on when its connection is gone, a terminal's too. So a command is begun by
//! `env`, which puts a mark into its environment that no other command has, and becomes it: arguments, exit code
//! and process are the command's own. What is ended is the session of the process that carries this very mark, and
//! so never a command of somebody else, however alike the two are and whenever they began.
//!
//! ```text
//! is there sh, env, grep? (once for each container) ─ yes ─► env MARK command
//!                                                   └ no ──► command, which is left to itself
//! dropped ─► sh: who has MARK? ─► HUP to its session ─► a second ─► KILL
//! ```

use super::super::Access;
use super::super::pods::Replica;
use super::{ask, outcome};
use akash_provider_core::error::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Variable of the mark.
const VARIABLE: &str = "AKASH_EXEC_ID";
/// Succeeds where a command can be marked, and found by its mark.
const TOOLS: &str = "{ command -v env && command -v grep; } >/dev/null && [ -r /proc/self/environ ]";
/// Succeeds where there is a file for the name of a command, as the container's runtime looks for it.
const THERE: &str = r#"
case $1 in
  */*) [ -f "$1" ] ;;
  *) IFS=:; for dir in $PATH; do [ -f "${dir:-.}/$1" ] && exit 0; done; exit 1 ;;
esac
"#;
/// Sends HUP and a second later KILL to the sessions whose first process came from outside and carries the mark,
/// or has ended and left others behind that carry it. A command begins a little after it was asked for. What made
/// a session of its own meant to stay. Without `-F`: busybox looks no further than the first variable with it.
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
/// Limit of all of the ending.
const LIMIT: Duration = Duration::from_secs(15);
/// Containers of which it is remembered what they have. Whoever was forgotten is asked again.
const CONTAINERS: usize = 4_096;

/// Which containers have what marking takes, by pod and container.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Tools(Arc<Mutex<Known>>);

type Known = BTreeMap<(String, Option<String>), bool>;

impl Tools {
    fn known(&self, replica: &Replica) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key(replica)).copied()
    }

    fn remember(&self, replica: &Replica, has_them: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CONTAINERS {
            known.clear();
        }
        known.insert(key(replica), has_them);
    }
}

fn key(replica: &Replica) -> (String, Option<String>) {
    (replica.uid.clone(), replica.container.clone())
}

/// A command under way. Dropping it before it is over ends what runs.
#[derive(Debug)]
pub(super) struct Session {
    access: Access,
    namespace: String,
    replica: Replica,
    /// Nothing where the container lacks what it takes.
    mark: Option<String>,
    over: bool,
}

impl Session {
    /// Looks what the container has. Nothing runs yet.
    pub(super) async fn begin(
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

    /// The command as it is begun.
    pub(super) fn command(&self, command: &[String]) -> Vec<String> {
        let marker = self.mark.iter().flat_map(|mark| ["env".to_owned(), mark.clone()]);
        marker.chain(command.iter().cloned()).collect()
    }

    /// It ended by itself, or never began.
    pub(super) const fn over(&mut self) {
        self.over = true;
    }

    /// True when nothing was run because there is no such command: `env` says so with this code, which a command
    /// may have of its own too.
    pub(super) async fn lacks(&self, code: i32, command: &[String]) -> bool {
        let Some(name) = command.first().filter(|_| self.mark.is_some() && code == 127) else {
            return false;
        };
        let script = ["sh", "-c", THERE, "there", name];
        let asked = ask(&self.access, &self.namespace, &self.replica, &script);
        let asked = timeout(self.access.call_timeout, asked).await;
        // Who cannot be asked has given the code himself, as far as anybody knows.
        matches!(asked, Ok(Ok(status)) if matches!(outcome(&status), Ok(1)))
    }
}

/// `env` takes a name with `=` in it for a variable.
fn can_be_marked(command: &[String]) -> bool {
    command.first().is_some_and(|name| !name.contains('='))
}

async fn has_tools(access: &Access, namespace: &str, replica: &Replica) -> Result<bool, Error> {
    if let Some(known) = access.tools.known(replica) {
        return Ok(known);
    }
    let asked = ask(access, namespace, replica, &["sh", "-c", TOOLS]);
    let limit = access.command_start_timeout;
    let status = match timeout(limit, asked).await.map_err(|_| super::too_slow(limit))? {
        Ok(status) => status,
        Err(error) => {
            let error = super::not_begun(error);
            // Some runtimes say so at once that there is no `sh`.
            if error.kind() == ErrorKind::Invalid {
                access.tools.remember(replica, false);
                return Ok(false);
            }
            return Err(error);
        }
    };
    let answer = outcome(&status);
    let has_them = matches!(answer, Ok(0));
    // A broken connection says nothing about the container: the next command asks again.
    let is_certain = match &answer {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::Invalid,
    };
    if is_certain {
        access.tools.remember(replica, has_them);
    }
    Ok(has_them)
}

/// A mark that no other command has: 128 bits that nobody can know before.
fn mark() -> String {
    let bits = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("{VARIABLE}={:016x}{:016x}", bits(), bits())
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take().filter(|_| !self.over) else {
            return;
        };
        // The process is ending: nothing can be asked any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (access, namespace, replica) =
            (self.access.clone(), self.namespace.clone(), self.replica.clone());
        let end = async move {
            let script = ["sh", "-c", SCRIPT, "hangup", &mark];
            // What it says of itself does not matter: nobody is there to hear it.
            let asked = timeout(LIMIT, ask(&access, &namespace, &replica, &script)).await;
            let pod = replica.name.as_str();
            match asked {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(pod, %error, "a command is left to itself"),
                Err(_) => tracing::debug!(pod, "a command is left to itself: no answer in time"),
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
    fn no_two_commands_have_one_mark() {
        let marks: std::collections::BTreeSet<_> = (0..1_000).map(|_| mark()).collect();
        assert_eq!(marks.len(), 1_000);
        assert!(marks.iter().all(|m| m.len() == VARIABLE.len() + 33), "{marks:?}");
    }

    #[test]
    fn what_containers_have_is_remembered_up_to_a_limit() {
        let tools = Tools::default();
        assert_eq!(tools.known(&replica("a")), None);
        tools.remember(&replica("a"), true);
        tools.remember(&replica("b"), false);
        assert_eq!(tools.known(&replica("a")), Some(true));
        assert_eq!(tools.known(&replica("b")), Some(false));
        for n in 0..CONTAINERS {
            tools.remember(&replica(&n.to_string()), true);
        }
        assert!(tools.0.lock().unwrap().len() <= CONTAINERS);
    }

    #[test]
    fn a_name_that_env_takes_for_a_variable_is_not_marked() {
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
    fn a_command_is_there_where_a_runtime_would_find_it() {
        assert!(there("sh") && there("/bin/sh"));
        // A shell's own word is no command, and neither is a folder.
        for name in ["nosuch", "/no/such", "/bin", "export", ""] {
            assert!(!there(name), "{name}");
        }
    }
}
