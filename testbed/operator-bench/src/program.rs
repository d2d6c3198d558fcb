//! The measured program as a process: address, status, CPU time and memory.

use crate::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// Maximum wait for a condition.
const WAIT_LIMIT: Duration = Duration::from_secs(300);
/// Interval between two status requests.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running operator, killed when dropped.
pub(crate) struct MeasuredProcess {
    child: Child,
    pub(crate) began: Instant,
    rest: SocketAddr,
    /// URL of the gRPC endpoint.
    pub(crate) grpc: Option<String>,
}

/// Resident memory, in MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidentMemory {
    pub(crate) now: f64,
    /// Peak value.
    pub(crate) peak: f64,
}

impl MeasuredProcess {
    /// Starts the operator and waits until its HTTP endpoint listens.
    pub(crate) async fn start<'a>(
        program: &Path,
        operator: &str,
        kubeconfig: &Path,
        flags: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Failed> {
        let began = Instant::now();
        let mut child = Command::new(program)
            .args(["operator", operator, "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--rest-address", "127.0.0.1", "--rest-port", "0"])
            .args(flags)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("cannot read the output")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, at)) = line.split_once("listens at http://") {
                    return Ok::<_, Failed>(at.to_owned());
                }
            }
            Err("the program ended before it listened".into())
        };
        let at = timeout(WAIT_LIMIT, first).await??;
        // Continue reading, because a full pipe would block the program.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let rest = at.split('/').next().unwrap_or_default().parse()?;
        let grpc = at
            .rsplit_once("gRPC at ")
            .map(|(_, grpc)| format!("http://{}", grpc.trim()));
        Ok(Self {
            child,
            began,
            rest,
            grpc,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<String, Failed> {
        let mut stream = TcpStream::connect(self.rest).await?;
        let request = format!("GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", self.rest);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP response")?;
        Ok(body.to_owned())
    }

    /// Polls the status at `path` until `is_so` returns true. Returns the time since the start of the
    /// program.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Result<Duration, Failed> {
        loop {
            let status: Value = serde_json::from_str(&self.get(path).await?).unwrap_or_default();
            if is_so(&status) {
                return Ok(self.began.elapsed());
            }
            if self.began.elapsed() > WAIT_LIMIT {
                let mut text = status.to_string();
                text.truncate(2_000);
                return Err(format!("condition not reached: {text}").into());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    pub(crate) fn memory(&self) -> Result<ResidentMemory, Failed> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()?))?;
        let mib = |field: &str| -> Result<f64, Failed> {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kib = line.and_then(|line| line.split_whitespace().next());
            Ok(kib.ok_or("no memory")?.parse::<f64>()? / 1024.0)
        };
        Ok(ResidentMemory {
            now: mib("VmRSS:")?,
            peak: mib("VmHWM:")?,
        })
    }

    pub(crate) fn cpu(&self) -> Result<Duration, Failed> {
        // Clock tick of the kernel on all common platforms.
        const TICK: Duration = Duration::from_millis(10);
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.id()?))?;
        // The fields follow the name, which may contain any text.
        let (_, fields) = text.rsplit_once(')').ok_or("no times")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).map_or(Ok(0), |field| field.parse::<u32>());
        Ok(TICK * (ticks(11)? + ticks(12)?))
    }

    /// Stops the program with SIGTERM. Fails if the exit code is not 0.
    pub(crate) async fn stop(mut self) -> Result<(), Failed> {
        kill(Pid::from_raw(i32::try_from(self.id()?)?), Signal::SIGTERM)?;
        let ended = timeout(WAIT_LIMIT, self.child.wait()).await??;
        if !ended.success() {
            return Err(format!("the program ended with {ended}").into());
        }
        Ok(())
    }

    fn id(&self) -> Result<u32, Failed> {
        Ok(self.child.id().ok_or("the program has ended")?)
    }
}

/// Returns true if the operator is ready, leads and has no pending work.
pub(crate) fn is_in_step(status: &Value) -> bool {
    status["is_ready"] == true && status["busy"] == 0 && status["election"]["is_leader"] == true
}
