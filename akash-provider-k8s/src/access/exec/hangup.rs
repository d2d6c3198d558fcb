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
use tokio::sync::Notify;
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

/// Sessions of pods: two that began at about the same time cannot be told apart, and none begins while what is
/// left of another is ended.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Sessions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Mutex<All>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct All {
    under_way: Vec<(String, Instant)>,
    /// Pods in which what is left is being ended.
    ending: Vec<String>,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one in, as soon as nothing is being ended in its pod.
    async fn begin(&self, pod: &str) -> Instant {
        loop {
            let ended = self.0.ended.notified();
            {
                let mut all = self.all();
                if !all.ending.iter().any(|p| p == pod) {
                    let began = Instant::now();
                    all.under_way.push((pod.to_owned(), began));
                    return began;
                }
            }
            // Ending has a limit.
            ended.await;
        }
    }

    /// Takes one out. True when what is left of it shall be ended, which [`Sessions::ended`] concludes; false
    /// when it is over or another of its pod began at about the same time.
    fn end(&self, pod: &str, began: Instant, over: bool) -> bool {
        let mut all = self.all();
        if let Some(at) = all.under_way.iter().position(|(p, b)| p == pod && *b == began) {
            all.under_way.swap_remove(at);
        }
        let near = |other: &Instant| {
            let apart = other.max(&began).duration_since(*other.min(&began));
            apart <= Duration::from_secs(EARLIER + LATER)
        };
        let unclear = all.under_way.iter().any(|(p, b)| p == pod && near(b));
        let end = !over && !unclear;
        if end {
            all.ending.push(pod.to_owned());
        }
        end
    }

    fn ended(&self, pod: &str) {
        let mut all = self.all();
        if let Some(at) = all.ending.iter().position(|p| p == pod) {
            all.ending.swap_remove(at);
        }
        drop(all);
        self.0.ended.notify_waiters();
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
    pub(super) async fn begin(access: &Access, namespace: String, replica: Replica) -> Self {
        let began = access.sessions.begin(&replica.uid).await;
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
        let sessions = self.access.sessions.clone();
        if !sessions.end(&self.replica.uid, self.began, self.over) {
            return;
        }
        let (pod, uid) = (self.replica.name.clone(), self.replica.uid.clone());
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
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                end.await;
                sessions.ended(&uid);
            })),
            Err(_) => sessions.ended(&uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_of_one_pod_that_began_together_are_not_told_apart() {
        let sessions = Sessions::default();
        let first = sessions.begin("a").await;
        tokio::time::advance(Duration::from_secs(EARLIER + LATER)).await;
        let second = sessions.begin("a").await;
        let other = sessions.begin("b").await;
        assert!(!sessions.end("a", first, false), "the second is too near");
        assert!(sessions.end("a", second, false), "alone in its pod");
        assert!(!sessions.end("b", other, true), "it is over");
        assert!(sessions.all().under_way.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_command_begins_while_another_is_being_ended_in_its_pod() {
        let sessions = Sessions::default();
        let first = sessions.begin("a").await;
        assert!(sessions.end("a", first, false));
        sessions.begin("b").await;
        let waits = timeout(Duration::from_secs(5), sessions.begin("a")).await;
        assert!(waits.is_err(), "it would be taken for what is left");
        let later = sessions.clone();
        let ended = tokio::spawn(async move { later.ended("a") });
        timeout(Duration::from_secs(5), sessions.begin("a"))
            .await
            .unwrap();
        ended.await.unwrap();
    }
}
