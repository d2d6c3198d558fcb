//! Ends what a command left behind when nobody waits for it any more.
//!
//! Container runtimes let a command run on when its connection is gone, a terminal's too. A command is known
//! inside its container by three things: its parent is outside, it is not the first process, and it is as old as
//! the session. An image without a shell keeps it until it ends by itself.

use super::super::Access;
use super::super::pods::Replica;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::AttachParams;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Sends HUP and a second later KILL to the sessions whose first process is between so many seconds old.
const SCRIPT: &str = r#"
least=$1; most=$2; gone=" "
read -r now _ </proc/uptime || exit 0
stat() { { read -r line </proc/$1/stat; } 2>/dev/null; }
for dir in /proc/[0-9]*; do
  pid=${dir#/proc/}; stat $pid || continue
  set -- ${line##*) }
  [ "$2" = 0 ] && [ "$pid" != 1 ] && [ "$pid" != $$ ] || continue
  age=$((${now%%.*} - ${20} / 100))
  [ $age -ge $least ] && [ $age -le $most ] && gone="$gone$pid "
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
/// Ages are whole seconds, and a command begins a little after it was asked for.
const EARLIER: u64 = 3;
/// The script begins a little after it was asked for too.
const LATER: u64 = 4;
/// Limit of all of it.
const LIMIT: Duration = Duration::from_secs(15);

/// Sessions under way, by pod: two that began at about the same time cannot be told apart.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Sessions(Arc<Mutex<Vec<(String, Instant)>>>);

impl Sessions {
    fn all(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one out; true when another of its pod began at about the same time.
    fn end(&self, pod: &str, began: Instant) -> bool {
        let mut all = self.all();
        if let Some(at) = all.iter().position(|(p, b)| p == pod && *b == began) {
            all.swap_remove(at);
        }
        let near = |other: &Instant| {
            let apart = other.max(&began).duration_since(*other.min(&began));
            apart <= Duration::from_secs(EARLIER + LATER)
        };
        all.iter().any(|(p, b)| p == pod && near(b))
    }
}

/// A command under way. Dropping it before it is over ends what runs.
#[derive(Debug)]
pub(super) struct Session {
    access: Access,
    namespace: String,
    replica: Replica,
    began: Instant,
    over: bool,
}

impl Session {
    pub(super) fn begin(access: &Access, namespace: String, replica: Replica) -> Self {
        let began = Instant::now();
        access.sessions.all().push((replica.uid.clone(), began));
        Self {
            access: access.clone(),
            namespace,
            replica,
            began,
            over: false,
        }
    }

    /// It ended by itself, or never began.
    pub(super) const fn over(&mut self) {
        self.over = true;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let unclear = self.access.sessions.end(&self.replica.uid, self.began);
        if self.over {
            return;
        }
        let pod = self.replica.name.clone();
        if unclear {
            tracing::debug!(pod, "a command is left to itself: another began at the same time");
            return;
        }
        let age = self.began.elapsed().as_secs();
        let pods: Api<Pod> = Api::namespaced(self.access.client.clone(), &self.namespace);
        let (least, most) = (age.saturating_sub(EARLIER), age + LATER);
        let params = AttachParams {
            container: self.replica.container.clone(),
            ..AttachParams::default()
        };
        let end = async move {
            let (least, most) = (least.to_string(), most.to_string());
            let command = ["sh", "-c", SCRIPT, "hangup", &least, &most];
            let call = async {
                let ending = pods.exec(&pod, command, &params).await?;
                // What it says of itself does not matter: nobody is there to hear it.
                let _ = ending.join().await;
                Ok::<(), kube::Error>(())
            };
            match timeout(LIMIT, call).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(pod, %error, "a command is left to itself"),
                Err(_) => tracing::debug!(pod, "a command is left to itself: no answer in time"),
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_of_one_pod_that_began_together_are_not_told_apart() {
        let sessions = Sessions::default();
        let first = Instant::now();
        tokio::time::advance(Duration::from_secs(EARLIER + LATER)).await;
        let second = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        let third = Instant::now();
        let all = [("a", first), ("a", second), ("b", third)];
        let begin = |(pod, began): (&str, Instant)| sessions.all().push((pod.to_owned(), began));
        all.into_iter().for_each(begin);
        assert!(sessions.end("a", first), "the second is too near");
        assert!(!sessions.end("a", second), "alone in its pod");
        assert!(!sessions.end("b", third));
        assert!(sessions.all().is_empty());
        [("a", first), ("a", third)].into_iter().for_each(begin);
        assert!(!sessions.end("a", first), "far enough apart");
    }
}
