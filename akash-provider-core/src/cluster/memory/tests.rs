use super::*;
use crate::cluster::{Cluster, EventOptions, ExecIo, ExecRequest, LogOptions};
use crate::manifest::{Group, Proto, Service, ServiceExpose};
use crate::types::{Address, DeploymentId, Resources};
use futures::{FutureExt, StreamExt, future, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn lease(dseq: u64) -> LeaseId {
    let address = |n| Address::from_bytes(&[n; 20]).unwrap();
    let group = DeploymentId::new(address(1), dseq).group(1);
    group.order(1).bid(address(2))
}

fn deployment(dseq: u64) -> WorkloadSpec {
    let service = Service {
        count: 2,
        ..Service::new("web", "nginx", Resources::default())
    };
    let group = Group::new("dc", vec![service]);
    WorkloadSpec {
        epoch: 2,
        ..WorkloadSpec::new(lease(dseq), Arc::new(group))
    }
}

fn health(dseq: u64, health: Health) -> ClusterChange {
    ClusterChange::Health {
        lease: lease(dseq),
        health,
    }
}

#[tokio::test]
async fn starting_workloads_become_healthy_tick_by_tick() {
    let cluster = MemoryCluster::default();
    cluster.set_start_ticks(2);
    let mut changes = cluster.changes().filter_map(|c| future::ready(c.ok()));
    cluster.deploy(&deployment(1)).await.unwrap();
    cluster.tick();
    let available = async || cluster.service_status(&lease(1), "web").await.unwrap().available;
    assert_eq!(available().await, 0);
    cluster.tick();
    cluster.tick();
    assert_eq!(available().await, 2);
    assert!(matches!(
        changes.next().await,
        Some(ClusterChange::Snapshot { .. })
    ));
    let starts = Health::Out(Outage::Starting);
    assert_eq!(changes.next().await, Some(health(1, starts)));
    assert_eq!(changes.next().await, Some(health(1, Health::Good)));
    assert_eq!(changes.next().now_or_never(), None);
}

#[tokio::test]
async fn forwarded_ports_are_at_the_public_host() {
    let cluster = MemoryCluster::default();
    let mut deployment = deployment(1);
    let group = Arc::make_mut(&mut deployment.group);
    let expose = ServiceExpose {
        external_port: 9000,
        global: true,
        ..ServiceExpose::new(9000)
    };
    group
        .services
        .iter_mut()
        .for_each(|service| service.expose.push(expose.clone()));
    cluster.deploy(&deployment).await.unwrap();
    let hosts = async || -> Vec<String> {
        let ports = cluster.forwarded_port_status(&lease(1)).await.unwrap();
        ports.into_values().flatten().map(|port| port.host).collect()
    };
    assert_eq!(hosts().await, ["localhost"]);
    cluster.set_public_host("provider.example.com");
    assert_eq!(hosts().await, ["provider.example.com"]);
}

#[tokio::test]
async fn a_repeated_deploy_changes_nothing_and_an_older_epoch_is_refused() {
    let cluster = MemoryCluster::default();
    cluster.deploy(&deployment(1)).await.unwrap();
    cluster.set_health(&lease(1), Health::Bad);
    cluster.deploy(&deployment(1)).await.unwrap();
    let mut late = deployment(1);
    late.epoch = 1;
    for write in [cluster.deploy(&late).await, cluster.record(&late).await] {
        assert_eq!(write.unwrap_err().kind(), ErrorKind::Conflict);
    }
    let Some(Ok(ClusterChange::Snapshot { health })) = cluster.changes().next().await else {
        panic!("a watch starts with a snapshot")
    };
    assert_eq!(health[&lease(1)], Health::Bad);
}

#[tokio::test]
async fn a_lost_watch_is_reported_and_resumes_with_a_snapshot() {
    let cluster = MemoryCluster::default();
    cluster.deploy(&deployment(1)).await.unwrap();
    let mut changes = cluster.changes();
    changes.next().await;
    cluster.lose_watch();
    cluster.set_health(&lease(1), Health::Bad);
    assert!(matches!(changes.next().await, Some(Ok(ClusterChange::Lost))));
    assert!(changes.next().now_or_never().is_none());
    cluster.restore_watch();
    let Some(Ok(ClusterChange::Snapshot { health })) = changes.next().await else {
        panic!("a gap ends with a snapshot")
    };
    assert_eq!(health[&lease(1)], Health::Bad);
}

#[tokio::test]
async fn injected_failures_occur_the_given_number_of_times() {
    let cluster = MemoryCluster::default();
    cluster.fail_next(Operation::Deploy, 1, ErrorKind::Unavailable);
    let failed = cluster.deploy(&deployment(1)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert!(cluster.contents().is_empty());
    cluster.restore(Operation::Deploy);
    cluster.lose_responses(Operation::Deploy, 1);
    let lost = cluster.deploy(&deployment(1)).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Timeout);
    assert_eq!(cluster.contents().running.len(), 1);
    assert_eq!(cluster.calls(&lease(1)).of(Operation::Deploy), 2);
}

#[tokio::test]
async fn a_hanging_call_resumes_on_release_and_overlaps_are_counted() {
    let cluster = MemoryCluster::default();
    cluster.hang(Operation::Deploy);
    let first = deployment(1);
    let mut call = cluster.deploy(&first);
    for _ in 0..3 {
        assert!((&mut call).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.teardown_lease(&lease(2)).await.unwrap(), Teardown::Done);
    assert_eq!(cluster.calls(&lease(1)).overlaps, 0);
    cluster.teardown_lease(&lease(1)).await.unwrap();
    assert_eq!(cluster.calls(&lease(1)).overlaps, 1);
    assert_eq!(cluster.calls(&lease(2)).overlaps, 0);
    cluster.restore(Operation::Deploy);
    call.await.unwrap();
    // A dropped call is no longer in progress.
    cluster.hang(Operation::Record);
    assert!(cluster.record(&first).now_or_never().is_none());
    cluster.teardown_lease(&lease(1)).await.unwrap();
    assert_eq!(cluster.calls(&lease(1)).overlaps, 1);
}

#[tokio::test]
async fn calls_are_counted_for_the_newest_leases_and_leases_in_a_call() {
    let cluster = MemoryCluster::default();
    cluster.hang(Operation::Record);
    let first = deployment(0);
    let mut call = cluster.record(&first);
    assert!((&mut call).now_or_never().is_none());
    let last = u64::try_from(calls::COUNTED_MAX).unwrap() + 50;
    for dseq in 1..=last {
        cluster.teardown_lease(&lease(dseq)).await.unwrap();
    }
    assert_eq!(cluster.all_calls().len(), calls::COUNTED_MAX);
    assert_eq!(cluster.calls(&lease(1)).of(Operation::Teardown), 0);
    assert_eq!(cluster.calls(&lease(last)).of(Operation::Teardown), 1);
    assert_eq!(
        cluster.calls(&lease(0)).of(Operation::Record),
        1,
        "the call is in progress"
    );
}

#[tokio::test]
async fn a_slow_teardown_keeps_the_lease_listed() {
    let cluster = MemoryCluster::default();
    cluster.deploy(&deployment(1)).await.unwrap();
    cluster.set_teardown_delay(2);
    for _ in 0..2 {
        let answer = cluster.teardown_lease(&lease(1)).await.unwrap();
        assert_eq!(answer, Teardown::InProgress);
        assert_eq!(cluster.deployments().await.unwrap().deployments.len(), 1);
    }
    assert_eq!(cluster.teardown_lease(&lease(1)).await.unwrap(), Teardown::Done);
    assert_eq!(cluster.deployments().await.unwrap().deployments, []);
}

#[tokio::test]
async fn logs_are_filtered_and_followed() {
    let cluster = MemoryCluster::default();
    cluster.deploy(&deployment(1)).await.unwrap();
    for (service, replica, message) in [("web", 0, "a"), ("web", 1, "b"), ("web", 0, "c"), ("db", 0, "d")] {
        assert!(cluster.log(&lease(1), service, replica, message));
    }
    let options = LogOptions {
        services: vec!["web".to_owned()],
        follow: true,
        tail_lines: Some(1),
    };
    let logs = cluster.lease_logs(&lease(1), options).await.unwrap();
    cluster.log(&lease(1), "web", 1, "e");
    cluster.log(&lease(1), "db", 0, "f");
    let id = lease(1);
    let events = cluster.lease_events(&id, EventOptions::default());
    let reasons: Vec<_> = events.await.unwrap().map(|e| e.unwrap().reason).collect().await;
    assert_eq!(reasons, ["Deployed", "Healthy"]);
    cluster.teardown_lease(&lease(1)).await.unwrap();
    let lines: Vec<_> = logs.map(|l| l.unwrap().message).collect().await;
    assert_eq!(lines, ["b", "c", "e"]);
    assert!(!cluster.log(&lease(1), "web", 0, "late"));
}

#[tokio::test]
async fn an_exhausted_pool_refuses_addresses_and_other_tenants_are_not_affected() {
    let facets = Facets {
        leased_ips: Some(1),
        ..Facets::default()
    };
    let cluster = MemoryCluster::new(facets);
    let ips = cluster.leased_ips().unwrap();
    let ip = |key: &str| IpDeclaration {
        service: "web".to_owned(),
        port: 80,
        external_port: 80,
        proto: Proto::Tcp,
        sharing_key: key.to_owned(),
    };
    ips.declare_ip(&lease(1), &ip("a"), false).await.unwrap();
    let none_left = ips.declare_ip(&lease(2), &ip("b"), false).await.unwrap_err();
    assert_eq!(none_left.kind(), ErrorKind::Unavailable);
    let mut other = lease(3);
    other.order.group.deployment.owner = lease(1).provider;
    let theirs = ips.declare_ip(&other, &ip("a"), true).await.unwrap_err();
    assert_eq!(theirs.kind(), ErrorKind::Conflict);
    let usage = ips.usage().await.unwrap();
    assert_eq!(
        (usage.total, usage.in_use, usage.confirmed),
        (1, 1, vec![lease(1)])
    );
}

#[tokio::test]
async fn commands_run_the_injected_function() {
    let cluster = MemoryCluster::default();
    cluster.deploy(&deployment(1)).await.unwrap();
    let shell = cluster.shell().unwrap();
    let run = async |input: &'static [u8]| {
        let (stdout, mut output) = tokio::io::duplex(64);
        let io = ExecIo {
            stdin: Some(Box::new(input)),
            stdout: Box::new(stdout),
            stderr: Box::new(tokio::io::sink()),
            resize: stream::empty().boxed(),
        };
        let request = ExecRequest {
            service: "web".to_owned(),
            ..ExecRequest::default()
        };
        let code = shell.exec(&lease(1), request, io).await.unwrap();
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut output, &mut text)
            .await
            .unwrap();
        (code, text)
    };
    assert_eq!(run(b"echo").await, (0, "echo".to_owned()));
    let exec: ExecFn = Arc::new(|_, _, input| ExecResult {
        stdout: input.to_ascii_uppercase(),
        stderr: Vec::new(),
        code: 3,
    });
    cluster.set_exec(exec);
    assert_eq!(run(b"loud").await, (3, "LOUD".to_owned()));
}

/// Returns the output and the exit code of a session with the given input.
async fn typed(cluster: &MemoryCluster, tty: bool, input: &'static [u8]) -> (String, String, i32) {
    let (out, mut output) = tokio::io::duplex(64 * 1024);
    let (err, mut errors) = tokio::io::duplex(64 * 1024);
    // The input stays open, so only the typed text ends the session.
    let (mut keys, stdin) = tokio::io::duplex(64 * 1024);
    keys.write_all(input).await.unwrap();
    let open = tty.then_some(keys);
    let io = ExecIo {
        stdin: Some(Box::new(stdin)),
        stdout: Box::new(out),
        stderr: Box::new(err),
        resize: stream::empty().boxed(),
    };
    let request = ExecRequest {
        service: "web".to_owned(),
        replica: 0,
        command: vec!["sh".to_owned()],
        tty,
    };
    let shell = cluster.shell().unwrap();
    let lease = lease(1);
    let session = shell.exec(&lease, request, io);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), session).await;
    drop(open);
    let (mut out, mut err) = (String::new(), String::new());
    output.read_to_string(&mut out).await.unwrap();
    errors.read_to_string(&mut err).await.unwrap();
    (out, err, ended.expect("it ends").unwrap())
}

#[tokio::test]
async fn workloads_show_the_banner_and_a_terminal_session_can_be_ended() {
    let cluster = MemoryCluster::default();
    cluster.set_banner("simulated");
    cluster.deploy(&deployment(1)).await.unwrap();
    let mut again = deployment(1);
    again.epoch = 3;
    cluster.deploy(&again).await.unwrap();
    let logs = cluster
        .lease_logs(&lease(1), LogOptions::default())
        .await
        .unwrap();
    let lines: Vec<_> = logs
        .map(|l| l.unwrap())
        .map(|l| (l.name, l.message))
        .collect()
        .await;
    let line = |name: &str| (name.to_owned(), "simulated".to_owned());
    assert_eq!(
        lines,
        [line("web-0"), line("web-1")],
        "once a replica, not with every update"
    );
    for (keys, code) in [
        (&b"\x03"[..], 130),
        (b"\x04", 0),
        (b"exit\r", 0),
        (b"exit 3\r", 3),
        (b"lx\x7fs\r\rexit\r", 0),
    ] {
        let (output, _, ended) = typed(&cluster, true, keys).await;
        assert_eq!(ended, code, "{output}");
        assert!(
            output.starts_with("simulated; `exit`, Ctrl-D or Ctrl-C ends this\r\n$ "),
            "{output}"
        );
        if keys.contains(&b'l') {
            assert!(output.contains("simulated: `ls` was not run"), "{output}");
        }
    }
    let long = vec![b'x'; 20_000].leak();
    long[19_999] = 4;
    let (output, _, _) = typed(&cluster, true, long).await;
    assert!(output.len() < 5_000, "a line has a limit: {}", output.len());
    let (out, err, code) = typed(&cluster, false, b"copied").await;
    assert_eq!((&*out, &*err, code), ("copied", "simulated\n", 0));
}
