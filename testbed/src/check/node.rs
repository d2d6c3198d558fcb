//! Self-test of a node: a pod runs, responds, writes logs, accepts exec and finds its neighbours.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use super::{eventually, holds};
use crate::cluster::Testbed;
use crate::command::Run;
use crate::component::Component;
use crate::error::{Error, Result};

/// Node port of the Service in `manifests/check.yaml`.
const NODE_PORT: u16 = 30080;

pub(super) fn check(cluster: &Testbed, results: &mut Vec<String>) -> Result<()> {
    let ready = [
        "rollout",
        "status",
        "deployment/web",
        "--namespace",
        "check",
        "--timeout",
        "60s",
    ];
    cluster.kubectl(&ready)?;
    results.push("a pod runs".to_owned());
    let pod_ip = field(cluster, "pods", "{.items[0].status.podIP}")?;
    let service_ip = field(cluster, "services", "{.items[0].spec.clusterIP}")?;
    for (what, address, port) in [
        ("the pod", parse(&pod_ip)?, 80),
        ("the service", parse(&service_ip)?, 80),
        ("the node port", cluster.addresses().node, NODE_PORT),
    ] {
        eventually(what, || holds(what, &get(address, port)?, "it answers"))?;
    }
    results.push("pod, service and node port respond to the host".to_owned());
    let logs = cluster.kubectl(&["logs", "deployment/web", "--namespace", "check"])?;
    holds("the log", &logs, "it logs")?;
    enters(cluster)?;
    results.push("logs, exec, cluster DNS, users and owners".to_owned());
    keeps(cluster)?;
    results.push("a persistent volume is provisioned and retains its data".to_owned());
    survives(cluster)?;
    results.push("the pod survives restarts of kubelet and containerd".to_owned());
    Ok(())
}

fn enters(cluster: &Testbed) -> Result<()> {
    let exec = |script: &str| {
        Run::new(cluster.program("kubectl"))
            .args(["--kubeconfig", &cluster.kubeconfig().display().to_string()])
            .args([
                "exec",
                "deployment/web",
                "--namespace",
                "check",
                "--",
                "sh",
                "-c",
                script,
            ])
            .outcome()
    };
    let outcome = exec("echo said; exit 7")?;
    if outcome.code != Some(7) || outcome.stdout != "said\n" {
        return Err(Error::new(format!("exec: {outcome:?}")));
    }
    let script = "wget -qO- http://web.check && nslookup web.check.svc.cluster.local && \
                  touch /tmp/x && chown tenant /tmp/x && su tenant -c id";
    let outcome = exec(script)?;
    if outcome.code != Some(0) {
        return Err(Error::new(format!("in the pod: {outcome:?}")));
    }
    holds("a neighbour by name", &outcome.stdout, "it answers")?;
    holds("another user", &outcome.stdout, "uid=1000(tenant)")
}

/// Checks that a claim gets a volume, and that data on the volume survives the end of a pod.
fn keeps(cluster: &Testbed) -> Result<()> {
    let pod = |name: &str, script: &str| {
        let overrides = json!({"spec": {
            "volumes": [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}],
            "containers": [{
                "name": name, "image": "localhost/busybox:1", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "kept", "mountPath": "/kept"}],
            }],
        }});
        let (image, overrides) = ("--image=localhost/busybox:1", format!("--overrides={overrides}"));
        let args = [
            "run",
            name,
            "--namespace",
            "check",
            "--restart",
            "Never",
            image,
            &overrides,
        ];
        cluster.kubectl(&args)?;
        let done = ["wait", &format!("pod/{name}"), "--namespace", "check", "--for"];
        cluster.kubectl(
            &[
                &done[..],
                &["jsonpath={.status.phase}=Succeeded", "--timeout", "60s"],
            ]
            .concat(),
        )?;
        cluster.kubectl(&["logs", name, "--namespace", "check"])
    };
    pod("writer", "echo it is kept > /kept/file")?;
    holds(
        "a persistent volume",
        &pod("reader", "cat /kept/file")?,
        "it is kept",
    )
}

/// Checks that pods survive a restart of the kubelet and of containerd.
fn survives(cluster: &Testbed) -> Result<()> {
    let pod = || {
        field(
            cluster,
            "pods",
            "{.items[0].metadata.uid} {.items[0].status.containerStatuses[*].restartCount}",
        )
    };
    let before = pod()?;
    for component in [Component::Kubelet, Component::Containerd] {
        cluster.kill(component)?;
        cluster.start(component)?;
    }
    cluster.kubectl(&[
        "wait",
        "--for",
        "condition=Ready",
        "node",
        "--all",
        "--timeout",
        "60s",
    ])?;
    eventually("the pod after the restart", || {
        holds(
            "the pod after the restart",
            &get(cluster.addresses().node, NODE_PORT)?,
            "it answers",
        )
    })?;
    eventually("exec after the restart", || {
        cluster.kubectl(&["exec", "deployment/web", "--namespace", "check", "--", "true"])
    })?;
    let after = pod()?;
    if before == after {
        return Ok(());
    }
    Err(Error::new(format!(
        "the pod changed from `{before}` to `{after}` during the restart"
    )))
}

fn field(cluster: &Testbed, kind: &str, path: &str) -> Result<String> {
    let output = format!("jsonpath={path}");
    let ours = ["--namespace", "check", "--selector", "app=web"];
    cluster.kubectl(&[&["get", kind, "--output", &output], &ours[..]].concat())
}

fn parse(address: &str) -> Result<Ipv4Addr> {
    address
        .parse()
        .map_err(|error| Error::new(format!("the address `{address}`: {error}")))
}

/// Returns a complete HTTP response.
fn get(address: Ipv4Addr, port: u16) -> Result<String> {
    let to = SocketAddr::from((address, port));
    let limit = Duration::from_secs(3);
    let failed = |error: std::io::Error| Error::new(format!("{to}: {error}"));
    let mut stream = TcpStream::connect_timeout(&to, limit).map_err(failed)?;
    stream.set_read_timeout(Some(limit)).map_err(failed)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    Ok(answer)
}
