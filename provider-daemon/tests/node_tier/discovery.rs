//! Hardware discovery of the inventory operator on a real machine: `tools psutil serve` runs in a pod, and
//! the operator queries it through the API server.
//!
//! The image is built here from the tested program and its shared libraries. The machine may have no GPUs, so
//! the test checks the CPUs.

use crate::fixture::{Stage, until};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testbed::Testbed;

const PROGRAM: &str = env!("CARGO_BIN_EXE_provider-daemon");
const IMAGE: &str = "localhost/looked-at:1";
const SPACE: &str = "akash-discovery";
const RIGHTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/operators/discovery.yaml");

#[test]
fn machine_is_discovered_by_program_in_a_pod() {
    let Some(stage) = Stage::take() else { return };
    let testbed = &stage.testbed;
    let folder = tempfile::tempdir().unwrap();
    load(testbed, folder.path());
    testbed.kubectl(&["apply", "--filename", RIGHTS]).unwrap();
    until("the pods have their account", || {
        let account = "operator-inventory-hardware-discovery";
        let found = testbed.kubectl(&["get", "serviceaccount", account, "--namespace", SPACE]);
        found.is_ok()
    });
    // Devices without a model. Without them no discovery is needed.
    let node = testbed
        .kubectl(&["get", "nodes", "--output", "jsonpath={.items[0].metadata.name}"])
        .unwrap();
    devices(testbed, &node, &json!("2"));
    let mut operator = Operator::start(testbed, folder.path());
    let mut processor = Value::Null;
    until("the CPUs of the machine are reported", || {
        processor = operator.get("/v1/inventory")["nodes"][0]["resources"]["cpu"]["info"][0].clone();
        processor["model"].as_str().is_some_and(|model| !model.is_empty())
    });
    let machine = Command::new(PROGRAM)
        .args(["tools", "psutil", "list", "cpu"])
        .output();
    let machine: Value = serde_json::from_slice(&machine.unwrap().stdout).unwrap();
    let machine = machine.get("cpu").unwrap_or(&machine)["processors"][0].clone();
    assert_eq!(
        [&processor["vendor"], &processor["model"], &processor["vcores"]],
        [
            &machine["vendor"],
            &machine["model"],
            &machine["total_hardware_threads"]
        ]
    );
    let look = &operator.get("/status")["nodes"][&node]["discovery"];
    assert_eq!(
        (&look["error"], &look["failures"]),
        (&Value::Null, &json!(0)),
        "{look}"
    );
    until("the discovery pod is deleted", || {
        let pods = ["get", "pods", "--namespace", SPACE, "--output", "name"];
        testbed.kubectl(&pods).unwrap().trim().is_empty()
    });
    operator.stop();
    devices(testbed, &node, &Value::Null);
    testbed
        .kubectl(&["delete", "--wait=false", "--filename", RIGHTS])
        .unwrap();
}

fn devices(testbed: &Testbed, node: &str, count: &Value) {
    let amounts = json!({"nvidia.com/gpu": count});
    let patch = json!({"status": {"capacity": amounts, "allocatable": amounts}}).to_string();
    let words = [
        "patch",
        "node",
        node,
        "--subresource=status",
        "--type=merge",
        "--patch",
        &patch,
    ];
    testbed.kubectl(&words).unwrap();
}

/// Loads an image with this program into the node.
fn load(testbed: &Testbed, folder: &Path) {
    let (root, save) = (folder.join("root"), folder.join("save"));
    std::fs::create_dir_all(root.join("usr/bin")).unwrap();
    std::fs::create_dir_all(root.join("tmp")).unwrap();
    std::fs::create_dir_all(&save).unwrap();
    let program = root.join("usr/bin/provider-daemon");
    // Debug information is most of the size.
    run(Command::new("strip").arg("-o").arg(&program).arg(PROGRAM));
    let linked = run(Command::new("ldd").arg(&program));
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(&library[1..]);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
    let layer = save.join("layer.tar");
    let words = ["--mode=a+rX", "--owner=0", "--group=0", "."];
    run(Command::new("tar")
        .arg("-C")
        .arg(&root)
        .arg("-cf")
        .arg(&layer)
        .args(words));
    let digest = Sha256::digest(std::fs::read(&layer).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let config = json!({
        "architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/usr/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    std::fs::write(save.join("image.json"), config.to_string()).unwrap();
    let manifest = json!([{"Config": "image.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
    std::fs::write(save.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = folder.join("image.tar");
    run(Command::new("tar")
        .arg("-C")
        .arg(&save)
        .arg("-cf")
        .arg(&archive)
        .arg("."));
    // The testbed puts the socket of containerd below a folder with the name of the network.
    let network = testbed.network();
    let socket = Path::new("/run")
        .join(network.file_name().unwrap())
        .join("containerd.sock");
    let importing = ["--namespace", "k8s.io", "images", "import"];
    run(Command::new("ctr")
        .arg("--address")
        .arg(socket)
        .args(importing)
        .arg(&archive));
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Process of the inventory operator.
struct Operator {
    child: Child,
    at: String,
}

impl Operator {
    fn start(testbed: &Testbed, folder: &Path) -> Self {
        let list = folder.join("gpus.json");
        let models = json!({"10de": {"devices": {"20b5": {"name": "a100", "memory_size": "80Gi"}}}});
        std::fs::write(&list, models.to_string()).unwrap();
        let mut child = Command::new(PROGRAM)
            .args(["operator", "inventory", "--election", "off", "--kubeconfig"])
            .arg(testbed.kubeconfig())
            .args([
                "--rest-address",
                "127.0.0.1",
                "--rest-port",
                "0",
                "--grpc-port",
                "0",
            ])
            .args(["--provider-configs-url", "", "--gpu-list"])
            .arg(&list)
            .args([
                "--discovery-image",
                IMAGE,
                "--discovery-program",
                "provider-daemon",
            ])
            .args(["--discovery-namespace", SPACE])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let at = lines.map_while(Result::ok).find_map(|line| {
            let (_, at) = line.split_once("listens at http://")?;
            Some(at.split('/').next()?.to_owned())
        });
        let at = at.unwrap();
        Self { child, at }
    }

    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", self.at).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_default()
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop();
    }
}
