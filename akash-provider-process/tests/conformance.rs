//! Conformance suite of clusters, and tests of process handling.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use akash_provider_core::cluster::{
    Cluster, ClusterChange, ExecIo, ExecRequest, Health, LogOptions, WorkloadSpec, conformance,
};
use akash_provider_core::sdl;
use akash_provider_core::types::{Address, DeploymentId, GroupId, LeaseId, OrderId};
use akash_provider_core::{Error, ErrorKind};
use akash_provider_process::{Images, ProcessCluster};
use futures::{FutureExt, StreamExt};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: IMAGE
    env: [GREETING=hello]
    expose: [{port: 8080, to: [{global: true}]}]
profiles:
  compute: {small: {resources: {cpu: {units: 0.5}, memory: {size: 256Mi}, storage: {size: 512Mi}}}}
  placement: {anywhere: {pricing: {small: {denom: uact, amount: 50}}}}
deployment: {web: {anywhere: {profile: small, count: 1}}}
"#;

/// Folder removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn images() -> Images {
    let command = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    let talk = "echo one; echo two; echo three >&2; sleep 1000 & wait";
    Images::from([
        ("sleeper".to_owned(), command(&["sleep", "1000"])),
        ("talker".to_owned(), command(&["sh", "-c", talk])),
        (
            "stubborn".to_owned(),
            command(&["sh", "-c", "trap '' TERM; echo $$; sleep 1000 & echo $!; wait"]),
        ),
        (
            "mortal".to_owned(),
            command(&["sh", "-c", "echo born; sleep 0.2"]),
        ),
    ])
}

fn setup(image: &str) -> conformance::Setup {
    let mut setup = conformance::Setup::new(PROVIDER.parse().unwrap());
    setup.image = image.to_owned();
    setup.timeout = std::time::Duration::from_secs(20);
    // A restarted replica counts as healthy after half a second.
    setup.quiet_time = std::time::Duration::from_secs(1);
    setup
}

#[tokio::test]
async fn conformance_of_the_process_cluster() {
    let folder = Folder::new("processes");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    conformance::suite(&cluster, &setup("talker")).await;
    let left = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 0, "the folder is empty");
}

#[tokio::test]
async fn conformance_of_the_process_cluster_over_a_restart() {
    let folder = Folder::new("restarts");
    let path = folder.0.clone();
    let open = move || {
        let path = path.clone();
        async move { Arc::new(ProcessCluster::open(path, images()).await.unwrap()) as Arc<dyn Cluster> }
            .boxed()
    };
    conformance::a_restart_loses_no_lease(&open, &setup("sleeper")).await;
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_replaced_by_the_next_manifest() {
    let folder = Folder::new("garbage");
    let deployment = deployment("sleeper");
    let lease = &deployment.lease;
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    cluster.record(&deployment).await.unwrap();
    std::fs::write(
        folder.0.join(format!("{}.json", lease.namespace())),
        "{\"recorded\":",
    )
    .unwrap();
    let reopened = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let listing = reopened.deployments().await.unwrap();
    assert_eq!(listing.deployments, []);
    assert!(
        listing.unusable.iter().any(|u| u.belongs_to(lease)),
        "{listing:?}"
    );
    reopened.record(&deployment).await.unwrap();
    let listing = reopened.deployments().await.unwrap();
    assert_eq!((listing.deployments.len(), listing.unusable.len()), (1, 0));
    reopened.teardown_lease(lease).await.unwrap();
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

fn deployment(image: &str) -> WorkloadSpec {
    let sdl = sdl::parse(&SDL.replace("IMAGE", image)).unwrap();
    let owner = Address::from_bytes(&[7; 20]).unwrap();
    let deployment = DeploymentId { owner, dseq: 1 };
    let group = GroupId { deployment, gseq: 1 };
    WorkloadSpec {
        lease: LeaseId {
            order: OrderId { group, oseq: 1 },
            provider: PROVIDER.parse().unwrap(),
        },
        group: Arc::new(sdl.manifest.groups[0].clone()),
        params: Arc::default(),
        hostnames: Vec::new(),
        ips: Vec::new(),
        epoch: 1,
    }
}

async fn first_lines(cluster: &ProcessCluster, count: usize) -> Vec<String> {
    let lease = deployment("any").lease;
    let mut follow = LogOptions::default();
    follow.follow = true;
    let logs = cluster.lease_logs(&lease, follow).await.unwrap();
    logs.take(count).map(|line| line.unwrap().message).collect().await
}

fn is_alive(process: &str) -> bool {
    let asked = std::process::Command::new("sh")
        .args(["-c", "kill -0 $0 2>/dev/null", process])
        .status();
    asked.unwrap().success()
}

#[tokio::test]
async fn output_is_captured_and_tails_are_returned() {
    let folder = Folder::new("talker");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("talker");
    cluster.deploy(&deployment).await.unwrap();
    let mut lines = first_lines(&cluster, 3).await;
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    let mut tail = LogOptions::default();
    tail.tail_lines = Some(1);
    let logs = cluster.lease_logs(&deployment.lease, tail).await.unwrap();
    assert_eq!(logs.count().await, 1);
    cluster.teardown_lease(&deployment.lease).await.unwrap();
}

#[tokio::test]
async fn a_teardown_kills_the_whole_process_group() {
    let folder = Folder::new("stubborn");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("stubborn");
    cluster.deploy(&deployment).await.unwrap();
    let processes = first_lines(&cluster, 2).await;
    assert!(processes.iter().all(|p| is_alive(p)));
    cluster.teardown_lease(&deployment.lease).await.unwrap();
    assert!(gone(&processes).await, "{processes:?} still run");
}

#[tokio::test]
async fn a_process_that_exits_is_reported_unhealthy_and_restarted() {
    let folder = Folder::new("mortal");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("mortal");
    let mut changes = cluster.changes();
    cluster.deploy(&deployment).await.unwrap();
    let mut reports = Vec::new();
    while reports.len() < 4 {
        if let ClusterChange::Health { health, .. } = changes.next().await.unwrap().unwrap() {
            reports.push(health);
        }
    }
    assert_eq!(reports, [Health::Bad, Health::Good, Health::Bad, Health::Good]);
    assert_eq!(first_lines(&cluster, 2).await, ["born", "born"]);
    cluster.teardown_lease(&deployment.lease).await.unwrap();
}

#[tokio::test]
async fn an_invalid_deploy_leaves_running_processes_unchanged() {
    let folder = Folder::new("unknown");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("sleeper");
    cluster.deploy(&deployment).await.unwrap();
    let refused = cluster
        .deploy(&self::deployment("nobody-knows:1"))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.is_transient()),
        (ErrorKind::Invalid, false)
    );
    assert_eq!(
        cluster.deployments().await.unwrap().deployments,
        std::slice::from_ref(&deployment)
    );
    let mut older = deployment.clone();
    older.epoch = 0;
    assert_eq!(
        cluster.record(&older).await.unwrap_err().kind(),
        ErrorKind::Conflict
    );
    cluster.teardown_lease(&deployment.lease).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_cannot_start_does_not_prevent_others() {
    let folder = Folder::new("removed-image");
    let (gone, stays) = (deployment("sleeper"), second(deployment("talker")));
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    for deployment in [&gone, &stays] {
        cluster.deploy(deployment).await.unwrap();
    }
    cluster.close().await;
    let mut fewer = images();
    fewer.remove("sleeper");
    let reopened = ProcessCluster::open(&folder.0, fewer).await.unwrap();
    let listing = reopened.deployments().await.unwrap();
    // The engine repairs incomplete leases and then gets the reason.
    assert_eq!(listing.deployments.len(), 2);
    assert_eq!(listing.incomplete, std::slice::from_ref(&gone.lease));
    let refused = reopened.deploy(&gone).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    for deployment in [&gone, &stays] {
        reopened.teardown_lease(&deployment.lease).await.unwrap();
    }
}

/// Changes the deployment number of a workload to 2.
fn second(mut deployment: WorkloadSpec) -> WorkloadSpec {
    deployment.lease.order.group.deployment.dseq = 2;
    deployment
}

/// Runs a command with the environment of the first replica. Returns its exit code and output.
async fn exec(
    cluster: &ProcessCluster,
    words: &[&str],
    input: Option<&'static str>,
) -> Result<(i32, String), Error> {
    let (mut output_end, out) = tokio::io::duplex(4096);
    let io = ExecIo {
        stdin: input.map(|text| Box::new(text.as_bytes()) as Box<dyn AsyncRead + Send + Unpin>),
        stdout: Box::new(out),
        stderr: Box::new(tokio::io::sink()),
        resize: futures::stream::empty().boxed(),
    };
    let mut request = ExecRequest::default();
    request.service = "web".to_owned();
    request.command = words.iter().map(|w| (*w).to_owned()).collect();
    let (lease, mut output) = (deployment("any").lease, String::new());
    let shell = cluster.shell().unwrap();
    let (code, read) = tokio::join!(
        shell.exec(&lease, request, io),
        output_end.read_to_string(&mut output)
    );
    read.unwrap();
    Ok((code?, output))
}

#[tokio::test]
async fn a_command_has_the_variables_of_its_replica_and_ends_with_the_lease() {
    let folder = Folder::new("shell");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("sleeper");
    cluster.deploy(&deployment).await.unwrap();
    let ports = cluster.forwarded_port_status(&deployment.lease).await.unwrap();
    let port = ports["web"][0].external_port;
    let asked = [
        "sh",
        "-c",
        "echo $GREETING $PORT_8080 $(basename $PWD); cat; exit 7",
    ];
    let (code, output) = exec(&cluster, &asked, Some("given")).await.unwrap();
    assert_eq!((code, output), (7, format!("hello {port} web-0\ngiven")));
    // Without input, a command does not wait for it. Child processes end with the command.
    let asked = ["sh", "-c", "cat; sleep 1000 & echo $!"];
    let (code, child) = exec(&cluster, &asked, None).await.unwrap();
    assert_eq!(code, 0);
    assert!(gone(&[child.trim().to_owned()]).await);
    assert_eq!(
        exec(&cluster, &["sh", "-c", "kill -9 $$"], None).await.unwrap().0,
        137
    );
    assert_eq!(exec(&cluster, &["no-such-program"], None).await.unwrap().0, 127);
    // The end of the lease stops a running command.
    let endless = exec(&cluster, &["sleep", "1000"], None);
    let torn = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        cluster.teardown_lease(&deployment.lease).await.unwrap();
    };
    let (endless, ()) = tokio::join!(endless, torn);
    assert_eq!(endless.unwrap_err().kind(), ErrorKind::NotFound);
}

async fn gone(processes: &[String]) -> bool {
    for _ in 0..100 {
        if !processes.iter().any(|p| is_alive(p)) {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn a_closed_cluster_stops_and_restarts_when_it_is_opened() {
    let folder = Folder::new("closed");
    let cluster = ProcessCluster::open(&folder.0, images()).await.unwrap();
    let deployment = deployment("stubborn");
    cluster.deploy(&deployment).await.unwrap();
    let processes = first_lines(&cluster, 2).await;
    cluster.close().await;
    assert!(gone(&processes).await, "{processes:?} still run");
    let reopened = ProcessCluster::open(&folder.0, images()).await.unwrap();
    assert!(first_lines(&reopened, 2).await.iter().all(|p| is_alive(p)));
    reopened.teardown_lease(&deployment.lease).await.unwrap();
}
