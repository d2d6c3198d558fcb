//! Log lines of a lease from all replicas. With `follow`, also from replicas that start later.

use super::budget::StreamBytes;
use super::lines::LogParser;
use super::pods::{Replica, has_started, is_done, is_running, replicas};
use super::{Access, task_stream, touch};
use crate::error::from_kube;
use akash_provider_core::cluster::{LogLine, LogOptions};
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, LeaseId};
use akash_provider_kube_kernel::watch::asked_to_wait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const LOGS: &str = "logs";
/// Maximum length of a line, in bytes. Longer lines are returned in pieces.
const LINE_MAX: usize = 1 << 20;
/// Maximum number of replicas that one reader reads concurrently.
const REPLICAS_MAX: usize = 128;
/// Maximum number of buffered batches. A batch has about the size of one read.
const BATCHES_MAX: usize = 8;
/// A stream is reopened after this duration without data, because the connection may be dead.
const SILENCE: Duration = Duration::from_secs(120);
/// A log stream with `follow` ends after this duration without a successful call.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// Maximum back-off between two calls for the logs of a replica.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Log lines and their size. The memory budget includes this size until the reader receives the lines.
type Batch = Result<(Vec<LogLine>, StreamBytes), Error>;
type BatchSender = mpsc::Sender<Batch>;

impl Access {
    /// Returns the log lines of a lease.
    ///
    /// With `follow`, the stream ends only when the lease is torn down. Dropping the stream closes its
    /// connections to the API server.
    ///
    /// # Errors
    /// `NotFound` for an unknown lease or service, `Unavailable` while the watches are not synchronized.
    pub fn logs(
        &self,
        lease: &LeaseId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, Error>>, Error> {
        self.check(LOGS, lease, &options.services)?;
        let reader = LogReader {
            access: self.clone(),
            namespace: lease.namespace(),
            tenant: lease.owner().clone(),
            options: Arc::new(options),
        };
        let batches = task_stream(BATCHES_MAX, |sender| reader.run(sender));
        let lines = batches.flat_map(|batch| {
            let (lines, memory): (Vec<Result<LogLine, Error>>, _) = match batch {
                Ok((lines, memory)) => (lines.into_iter().map(Ok).collect(), Some(memory)),
                Err(error) => (vec![Err(error)], None),
            };
            stream::iter(lines).inspect(move |_| {
                // Released after the last line.
                let _held = &memory;
            })
        });
        Ok(lines.boxed())
    }
}

#[derive(Clone)]
struct LogReader {
    access: Access,
    namespace: String,
    tenant: Address,
    options: Arc<LogOptions>,
}

impl LogReader {
    async fn run(self, sender: BatchSender) {
        // Subscribes before the first read, so that no change is missed between the two.
        let mut touched = self.access.state.touched();
        let mut begun: BTreeSet<String> = BTreeSet::new();
        let mut reading = JoinSet::new();
        let mut first = true;
        loop {
            let all = self.ready_to_read();
            for replica in all
                .into_iter()
                .filter(|r| !begun.contains(&r.uid))
                .collect::<Vec<_>>()
            {
                // The others start when one of these ends.
                if reading.len() >= REPLICAS_MAX {
                    break;
                }
                begun.insert(replica.uid.clone());
                // A later replica is read from its start.
                let tail = if first { self.options.tail_lines } else { None };
                reading.spawn(ReplicaReader::new(self.clone(), replica, tail).run(sender.clone()));
            }
            let waiting = reading.len() >= REPLICAS_MAX;
            // Replicas that wait for a free slot belong to the first batch.
            first = first && waiting;
            let over = self.access.is_over(&self.namespace);
            if reading.is_empty() && (over || !self.options.follow) {
                return;
            }
            tokio::select! {
                () = sender.closed() => return,
                _ = reading.join_next(), if !reading.is_empty() => {}
                () = touch(&mut touched, &self.namespace), if self.options.follow => {}
            }
        }
    }

    fn ready_to_read(&self) -> Vec<Replica> {
        let view = self.access.state.lease_in(&self.namespace);
        let all = replicas(&view, &self.options.services);
        let begun = |replica: &Replica| {
            let pod = view.pods.get(&replica.name);
            pod.is_some_and(|pod| has_started(pod, replica.container.as_deref()))
        };
        all.into_iter().filter(begun).collect()
    }
}

/// Reason why the log stream of a replica ended.
enum End {
    /// The API server ended the stream.
    Eof,
    /// The reader was dropped.
    Dropped,
    /// The connection broke or was silent for too long.
    Cut,
    /// The buffered log lines exceed a memory limit of [`LogMemoryBudget`](super::budget::LogMemoryBudget).
    Refused(Error),
}

fn memory_of(line: &LogLine) -> usize {
    size_of::<LogLine>() + line.name.len() + line.message.len()
}

struct ReplicaReader {
    reader: LogReader,
    replica: Replica,
    tail: Option<u64>,
    lines: LogParser,
    /// Memory counted for the unfinished line.
    memory: StreamBytes,
    back_off: ExponentialBackoff,
}

fn back_off() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(WAIT_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}

impl ReplicaReader {
    fn new(reader: LogReader, replica: Replica, tail: Option<u64>) -> Self {
        Self {
            memory: reader.access.log_memory.part(&reader.tenant),
            reader,
            replica,
            tail,
            lines: LogParser::new(LINE_MAX),
            back_off: back_off(),
        }
    }

    async fn run(mut self, sender: BatchSender) {
        let access = self.reader.access.clone();
        let pods: Api<Pod> = Api::namespaced(access.client.clone(), &self.reader.namespace);
        let follow = self.reader.options.follow;
        let patience = if follow {
            GIVE_UP_AFTER
        } else {
            access.call_timeout
        };
        let mut touched = access.state.touched();
        let mut worked = Instant::now();
        loop {
            // State of the replica before the call: if it had ended, the end of the stream is final.
            let ended = !self.runs();
            let wait = match self.open(&pods, access.call_timeout).await {
                Ok(stream) => {
                    worked = Instant::now();
                    match self.read(stream, &sender).await {
                        End::Dropped => return,
                        End::Refused(error) => {
                            let _ = sender.send(Err(error)).await;
                            return;
                        }
                        End::Eof if !follow || (ended && !self.may_run()) => return,
                        End::Eof => None,
                        End::Cut => Some(Duration::ZERO),
                    }
                }
                // The pod and its log are deleted.
                Err(kube::Error::Api(status)) if status.code == 404 => return,
                // The container has not started, or its log is deleted.
                Err(kube::Error::Api(status)) if status.code == 400 => {
                    if !follow || !self.may_run() {
                        return;
                    }
                    None
                }
                Err(error) => {
                    if worked.elapsed() >= patience {
                        let _ = sender.send(Err(from_kube(LOGS, error))).await;
                        return;
                    }
                    let asked = match &error {
                        kube::Error::Api(status) => asked_to_wait(status),
                        _ => None,
                    };
                    Some(asked.unwrap_or_default())
                }
            };
            self.lines.cut();
            // A decrease cannot fail.
            let _ = self.memory.resize(self.lines.memory());
            let least = self.back_off.next().unwrap_or(WAIT_MAX);
            sleep(least.max(wait.unwrap_or_default())).await;
            // Without a log to read, waits for a change of the replica.
            if wait.is_none() && !self.runs() && self.may_run() {
                let _ = timeout(SILENCE, touch(&mut touched, &self.reader.namespace)).await;
            }
        }
    }

    async fn open(&self, pods: &Api<Pod>, limit: Duration) -> kube::Result<impl AsyncBufRead + Send + use<>> {
        let since = self.lines.since();
        // After a broken connection, the whole rest is needed.
        let tail = self.tail.filter(|_| since.is_none());
        let params = LogParams {
            container: self.replica.container.clone(),
            follow: self.reader.options.follow,
            since_time: since,
            tail_lines: tail.map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
            timestamps: true,
            ..LogParams::default()
        };
        match timeout(limit, pods.log_stream(&self.replica.name, &params)).await {
            Ok(answer) => answer,
            // Handled as a broken connection, with a retry.
            Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
        }
    }

    async fn read(&mut self, stream: impl AsyncBufRead, sender: &BatchSender) -> End {
        let mut stream = pin!(stream);
        loop {
            let mut lines = Vec::new();
            let end = match timeout(SILENCE, stream.fill_buf()).await {
                Err(_) | Ok(Err(_)) => Some(End::Cut),
                Ok(Ok([])) => {
                    self.lines.end(&mut lines);
                    Some(End::Eof)
                }
                Ok(Ok(bytes)) => {
                    self.lines.push(bytes, &mut lines);
                    let read = bytes.len();
                    stream.as_mut().consume(read);
                    None
                }
            };
            if !lines.is_empty() {
                // Only data reset the back-off: a stream may open and return nothing.
                self.back_off = back_off();
                let name = &self.replica.name;
                let line = |message| LogLine {
                    name: name.clone(),
                    message,
                };
                let batch: Vec<LogLine> = lines.into_iter().map(line).collect();
                let mut memory = self.reader.access.log_memory.part(&self.reader.tenant);
                if let Err(error) = memory.resize(batch.iter().map(memory_of).sum()) {
                    return End::Refused(error);
                }
                if sender.send(Ok((batch, memory))).await.is_err() {
                    return End::Dropped;
                }
            }
            if let Err(error) = self.memory.resize(self.lines.memory()) {
                return End::Refused(error);
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    fn pod(&self) -> Option<Arc<Pod>> {
        let view = self.reader.access.state.lease_in(&self.reader.namespace);
        let pod = view.pods.get(&self.replica.name)?;
        (pod.metadata.uid.as_ref() == Some(&self.replica.uid)).then(|| Arc::clone(pod))
    }

    fn runs(&self) -> bool {
        let container = self.replica.container.as_deref();
        self.pod().is_some_and(|pod| is_running(&pod, container))
    }

    /// Returns true if the container can start again.
    fn may_run(&self) -> bool {
        let going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        // Outdated caches prove no end.
        self.pod().is_some_and(|pod| !is_done(&pod) && !going(&pod)) || !self.reader.access.state.is_known()
    }
}
