//! Network policies tested with packets on a node that enforces them.
//!
//! The same table of flows is checked for two pairs of leases. The leases of the first pair have policies.
//! The policies of the second pair are disabled, so all flows of that pair must be open. The comparison
//! proves that a blocked flow of the first pair is blocked by a policy and by nothing else.
//!
//! The testbed itself does not enforce policies. `AKASH_POLICY_AGENT` is the command line of a policy agent;
//! [docs/testbed.md](../../../docs/testbed.md#test-network-policies) documents its environment.

use crate::tenant::{Tenant, WAIT_LIMIT, client, deployment};
use crate::test_cluster::{TestCluster, block_on};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Permissions, ServiceParams};
use akash_provider_k8s::infrastructure::Infrastructure;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::{Testbed, Tier};

/// Environment variables with the commands to start the policy agent and to clean up.
const AGENT: &str = "AKASH_POLICY_AGENT";
const AGENT_END: &str = "AKASH_POLICY_AGENT_END";
/// Maximum time until a running agent blocks a port.
const SOON: Duration = Duration::from_secs(3);
/// Maximum time to connect to an open port.
const CONNECT: Duration = Duration::from_secs(2);
/// Serves HTTP on three ports: 80 with an Ingress, 9000 with a node port, and 7070 without a Service.
const WEB: &str = "trap 'exit 0' TERM; for p in 80 9000 7070; do httpd -f -p $p & done; wait";
/// Addresses outside of the cluster; true if a lease may connect to port 80.
const OUTSIDE: [(&str, bool); 6] = [
    ("169.254.169.254", false),
    ("100.64.77.1", false),
    ("172.16.77.1", false),
    ("192.168.77.1", false),
    ("10.77.0.1", false),
    ("203.0.113.7", true),
];
/// Address of a node's DNS cache.
const NODE_RESOLVER: &str = "169.254.20.10";

#[test]
fn enforced_policies_allow_exactly_the_listed_flows() {
    let Some(place) = TestCluster::find(Tier::Node) else {
        return;
    };
    let Some(testbed) = place.testbed.clone() else {
        println!("skipped: AKASH_TEST_KUBECONFIG names a cluster on which tests must not change routes");
        return;
    };
    let canary = Canary::start(&testbed);
    let enforced = canary.is_closed(SOON);
    let command = std::env::var(AGENT).ok();
    if !enforced && command.is_none() {
        println!(
            "skipped: this cluster does not enforce network policies, and {AGENT} names no policy agent: a pod that \
             a policy isolates still responds after {SOON:?} (docs/testbed.md#test-network-policies)"
        );
        return;
    }
    // An agent changes the access from the host to the pods of other tests.
    let _alone = testbed.exclusive().unwrap();
    let scene = Surroundings::start(&testbed);
    block_on(async {
        let with = Pair::start(&place, &testbed, true).await;
        let without = Pair::start(&place, &testbed, false).await;
        let _agent = (!enforced).then(|| Agent::start(&testbed, &command.unwrap_or_default()));
        let outcome = if canary.is_closed(WAIT_LIMIT) {
            scene.check(&testbed, &with, &without)
        } else {
            Err(format!("{AGENT} enforces nothing: the canary still responds"))
        };
        let tenants = with.tenants.iter().chain(&without.tenants);
        futures::future::join_all(tenants.map(Tenant::remove)).await;
        outcome.unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

/// Pod with a policy that blocks all its traffic. Without an enforcing agent, the pod responds.
struct Canary<'a> {
    testbed: &'a Testbed,
    namespace: String,
    address: String,
}

impl<'a> Canary<'a> {
    fn start(testbed: &'a Testbed) -> Self {
        let namespace = format!("canary-{}", std::process::id());
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
        });
        create(
            testbed,
            &namespace,
            &json!({}),
            vec![pod("canary", WEB, &json!({})), policy],
        );
        let address = address(testbed, &namespace, "pod/canary");
        Self {
            testbed,
            namespace,
            address,
        }
    }

    /// Returns `true` if the pod stops responding within this time.
    fn is_closed(&self, within: Duration) -> bool {
        let began = Instant::now();
        loop {
            let target: SocketAddr = format!("{}:80", self.address).parse().unwrap();
            if TcpStream::connect_timeout(&target, CONNECT).is_err() {
                return true;
            }
            if began.elapsed() > within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Canary<'_> {
    fn drop(&mut self) {
        delete(self.testbed, &self.namespace);
    }
}

/// Policy agent in the network namespace of the node.
struct Agent<'a> {
    testbed: &'a Testbed,
    child: Child,
}

impl<'a> Agent<'a> {
    fn start(testbed: &'a Testbed, command: &str) -> Self {
        // Without this setting, pods on one bridge bypass the rules of the node.
        let bridged = "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables";
        testbed.on_node("sh", &["-c", bridged]).unwrap();
        let log = std::fs::File::create(testbed.dir().join("logs").join("policy-agent.log")).unwrap();
        let child = in_network(testbed, command)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Self {
            testbed,
            child: child.unwrap(),
        }
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Ok(end) = std::env::var(AGENT_END) {
            let done = in_network(self.testbed, &end)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            println!("{AGENT_END}: {done:?}");
        }
        let open = "echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables";
        let _ = self.testbed.on_node("sh", &["-c", open]);
    }
}

fn in_network(testbed: &Testbed, command: &str) -> Command {
    let mut run = Command::new("nsenter");
    run.arg(format!("--net={}", testbed.network().display()))
        .args(["--", "sh", "-c", &format!("exec {command}")])
        .env("KUBECONFIG", testbed.kubeconfig())
        .env("NODE_NAME", "node-1")
        .env("SERVICES", testbed.addresses().services)
        .stdin(Stdio::null());
    run
}

/// Two leases on one node, each with services `web` and `side`. Only `side` may read the logs of its lease.
struct Pair {
    tenants: [Tenant; 2],
}

impl Pair {
    async fn start(place: &TestCluster, testbed: &Testbed, policies: bool) -> Self {
        let admin = client(&place.kubeconfig).await;
        let found = Infrastructure::read(&admin, WAIT_LIMIT).await.unwrap();
        assert_eq!(found.nodes.len(), 1, "{found:?} of {}", testbed.dir().display());
        let tenant = async || {
            let tenant = Tenant::with(&place.kubeconfig, |settings| {
                settings.network_policies = policies;
                found.close(&mut settings.egress);
            })
            .await;
            tenant.deploy_as(&two_services(&tenant)).await;
            tenant
        };
        Self {
            tenants: tokio::join!(tenant(), tenant()).into(),
        }
    }

    fn namespace(&self, which: usize) -> String {
        self.tenants[which].lease.namespace()
    }
}

fn two_services(tenant: &Tenant) -> WorkloadSpec {
    let mut deployment = deployment(&tenant.lease, WEB, 1);
    let group = Arc::make_mut(&mut deployment.group);
    let web = &mut group.services[0];
    let mut http = web.expose[0].clone();
    (http.port, http.external_port) = (80, 80);
    web.expose.insert(0, http.clone());
    let mut side = web.clone();
    side.name = "side".to_owned();
    (http.global, http.service) = (false, "web".to_owned());
    side.expose = vec![http];
    side.params = Some(ServiceParams {
        permissions: Some(Permissions {
            read: Some(vec!["logs".to_owned()]),
        }),
        ..ServiceParams::default()
    });
    group.services.insert(0, side);
    deployment
}

/// Parties outside of the leases: an ingress controller, another pod, and the internet.
struct Surroundings<'a> {
    testbed: &'a Testbed,
    namespace: String,
    world: String,
}

/// Connection between two endpoints, and whether it is allowed.
#[derive(Clone)]
struct Flow {
    from: String,
    to: String,
    target: String,
    open: bool,
}

impl<'a> Surroundings<'a> {
    fn start(testbed: &'a Testbed) -> Self {
        let namespace = format!("scene-{}", std::process::id());
        let nginx = json!({"app.kubernetes.io/name": "ingress-nginx"});
        let addresses: Vec<&str> = OUTSIDE
            .iter()
            .map(|(address, _)| *address)
            .chain([NODE_RESOLVER])
            .collect();
        let world = format!(
            "trap 'exit 0' TERM; for a in {}; do ip addr add $a/32 dev lo; done; \
             httpd -f -p 80 & httpd -f -p 53 & wait",
            addresses.join(" ")
        );
        let mut outside = pod("world", &world, &json!({}));
        outside["spec"]["containers"][0]["securityContext"] = json!({"capabilities": {"add": ["NET_ADMIN"]}});
        let pods = vec![
            pod("nginx", WEB, &nginx),
            pod("foreign_pod", WEB, &json!({})),
            outside,
        ];
        create(testbed, &namespace, &nginx, pods);
        let world = address(testbed, &namespace, "pod/world");
        let scene = Self {
            testbed,
            namespace,
            world,
        };
        for address in addresses {
            scene.route("replace", address).unwrap();
        }
        scene
    }

    /// Adds or deletes a route to an outside address, through the pod that simulates the internet.
    fn route(&self, action: &str, address: &str) -> Result<String, testbed::Error> {
        let network = format!("{address}/32");
        self.testbed
            .on_node("ip", &["route", action, &network, "via", &self.world])
    }

    /// Tests the flows of leases with network policies, and of leases without network policies. Repeats the
    /// test until all flows are as expected, or until the time limit. Returns the unexpected flows.
    fn check(&self, testbed: &Testbed, with: &Pair, without: &Pair) -> Result<(), String> {
        let listener = TcpListener::bind((testbed.addresses().host, 0)).unwrap();
        let host_port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream)
            }
        });
        let mut guarded = self.table(with, host_port);
        let mut open = self.table(without, host_port);
        open.iter_mut().for_each(|flow| flow.open = true);
        let closed = guarded.iter().filter(|flow| !flow.open).count();
        println!(
            "{} flows with policies, {closed} of them closed; {} without",
            guarded.len(),
            open.len()
        );
        guarded.append(&mut open);
        let began = Instant::now();
        loop {
            let wrong = self.wrong(&guarded);
            if wrong.is_empty() {
                println!(
                    "all flows as expected after {:.1}s",
                    began.elapsed().as_secs_f64()
                );
                return Ok(());
            }
            if began.elapsed() > WAIT_LIMIT {
                return Err(format!("unexpected flows:\n{}", wrong.join("\n")));
            }
        }
    }

    /// Expected flows of a pair.
    fn table(&self, pair: &Pair, host_port: u16) -> Vec<Flow> {
        let (a, b) = (pair.namespace(0), pair.namespace(1));
        let of = |ns: &str, action: &str| format!("{ns} {action}");
        let service = |ns: &str, name: &str, path: &str| field(self.testbed, ns, &["service", name], path);
        let pod = |service: &str| {
            let selector = format!("--selector=akash.network/manifest-service={service}");
            field(self.testbed, &a, &["pods", &selector], "{.items[0].status.podIP}")
        };
        let addresses = self.testbed.addresses();
        let ends = FlowEndpoints {
            web: of(&a, "deploy/web"),
            side: of(&a, "deploy/side"),
            neighbour: of(&b, "deploy/web"),
            nginx: of(&self.namespace, "pod/nginx"),
            foreign_pod: of(&self.namespace, "pod/foreign_pod"),
            web_pod: pod("web"),
            side_pod: pod("side"),
            side_service: service(&a, "side", "{.spec.clusterIP}"),
            node_port: service(&a, "web-np", "{.spec.ports[0].nodePort}"),
            api_service: service("default", "kubernetes", "{.spec.clusterIP}"),
            system_pod: self.world.clone(),
            machine: format!("{} {host_port}", addresses.host),
            node: addresses.node.to_string(),
            resolver: addresses.dns.to_string(),
        };
        [ends.to_leases(), ends.of_leases()].concat()
    }

    /// Returns the unexpected flows, one line each. One command tests all flows of a source.
    fn wrong(&self, flows: &[Flow]) -> Vec<String> {
        let mut targets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for flow in flows {
            targets.entry(&flow.from).or_default().insert(&flow.target);
        }
        let open: BTreeMap<&str, BTreeSet<String>> = std::thread::scope(|scope| {
            let asked: Vec<_> = targets
                .iter()
                .map(|(from, targets)| (*from, scope.spawn(|| self.open_from(from, targets))))
                .collect();
            asked
                .into_iter()
                .map(|(from, answer)| (from, answer.join().unwrap()))
                .collect()
        });
        let is_wrong = |flow: &&Flow| open[flow.from.as_str()].contains(&flow.target) != flow.open;
        let output = |flow: &Flow| {
            let (is, should) = if flow.open {
                ("closed", "open")
            } else {
                ("open", "closed")
            };
            format!(
                "{} to {} ({}) is {is}, should be {should}",
                flow.from, flow.to, flow.target
            )
        };
        flows.iter().filter(is_wrong).map(output).collect()
    }

    fn open_from(&self, from: &str, targets: &BTreeSet<&str>) -> BTreeSet<String> {
        let Some((namespace, object)) = from.split_once(' ') else {
            let connects = |target: &&&str| {
                let target: SocketAddr = target.replace(' ', ":").parse().unwrap();
                TcpStream::connect_timeout(&target, CONNECT).is_ok()
            };
            return targets
                .iter()
                .filter(connects)
                .map(|&target| target.to_owned())
                .collect();
        };
        let tries = targets.iter().map(|target| {
            format!("(timeout 4 nc -w 2 {target} </dev/null >/dev/null 2>&1 && echo {target}) & ")
        });
        let script = tries.collect::<String>() + "wait";
        let args = [
            "exec",
            object,
            "--namespace",
            namespace,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let output = self.testbed.kubectl(&args).unwrap();
        output.lines().map(str::to_owned).collect()
    }
}

struct FlowEndpoints {
    web: String,
    side: String,
    neighbour: String,
    nginx: String,
    foreign_pod: String,
    web_pod: String,
    side_pod: String,
    side_service: String,
    node_port: String,
    api_service: String,
    system_pod: String,
    machine: String,
    node: String,
    resolver: String,
}

impl FlowEndpoints {
    fn to_leases(&self) -> Vec<Flow> {
        let (web, side) = (&self.web_pod, &self.side_pod);
        let service = &self.side_service;
        let node_port = format!("{} {}", self.node, self.node_port);
        let host = "host".to_owned();
        vec![
            flow(&self.web, "own service, pod", format!("{side} 80"), true),
            flow(&self.web, "own service, any port", format!("{side} 7070"), true),
            flow(&self.web, "own service, address", format!("{service} 80"), true),
            flow(&self.web, "own service, by its name", "side 80".to_owned(), true),
            flow(&self.side, "own service, pod", format!("{web} 9000"), true),
            flow(&self.neighbour, "neighbour, HTTP", format!("{web} 80"), false),
            flow(
                &self.neighbour,
                "neighbour, node port",
                format!("{web} 9000"),
                false,
            ),
            flow(
                &self.neighbour,
                "neighbour, internal",
                format!("{side} 80"),
                false,
            ),
            flow(
                &self.neighbour,
                "neighbour, internal address",
                format!("{service} 80"),
                false,
            ),
            flow(&self.foreign_pod, "lease, HTTP", format!("{web} 80"), false),
            flow(
                &self.foreign_pod,
                "lease, unknown port",
                format!("{web} 7070"),
                false,
            ),
            flow(&self.foreign_pod, "lease, node port", format!("{web} 9000"), true),
            flow(&self.nginx, "lease, HTTP", format!("{web} 80"), true),
            flow(&host, "lease, HTTP past the proxy", format!("{web} 80"), false),
            flow(&host, "lease, unknown port", format!("{web} 7070"), false),
            flow(&host, "lease, node port", node_port, true),
        ]
    }

    fn of_leases(&self) -> Vec<Flow> {
        let (node, api) = (&self.node, &self.api_service);
        let mut flows = vec![
            flow(&self.web, "resolver", format!("{} 53", self.resolver), true),
            flow(&self.web, "node's resolver", format!("{NODE_RESOLVER} 53"), true),
            flow(
                &self.web,
                "node's resolver, HTTP",
                format!("{NODE_RESOLVER} 80"),
                false,
            ),
            flow(&self.web, "API server", format!("{node} 6443"), false),
            flow(&self.web, "API server's Service", format!("{api} 443"), false),
            flow(&self.side, "API server, permitted", format!("{node} 6443"), true),
            flow(
                &self.side,
                "API server's Service, permitted",
                format!("{api} 443"),
                true,
            ),
            flow(&self.web, "kubelet", format!("{node} 10250"), false),
            flow(&self.side, "kubelet", format!("{node} 10250"), false),
            flow(&self.web, "machine of the node", self.machine.clone(), false),
            flow(&self.web, "foreign pod", format!("{} 80", self.system_pod), false),
        ];
        flows.extend(OUTSIDE.map(|(to, open)| flow(&self.web, "outside", format!("{to} 80"), open)));
        flows
    }
}

fn flow(from: &str, to: &str, target: String, open: bool) -> Flow {
    Flow {
        from: from.to_owned(),
        to: to.to_owned(),
        target,
        open,
    }
}

impl Drop for Surroundings<'_> {
    fn drop(&mut self) {
        for address in OUTSIDE.iter().map(|(address, _)| *address).chain([NODE_RESOLVER]) {
            let _ = self.route("delete", address);
        }
        delete(self.testbed, &self.namespace);
    }
}

fn pod(name: &str, script: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{
            "name": name, "image": "localhost/busybox:1", "command": ["sh", "-c", script],
        }]},
    })
}

/// Creates a namespace with these objects, and waits for its pods.
fn create(testbed: &Testbed, namespace: &str, labels: &Value, mut objects: Vec<Value>) {
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let home = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels},
    });
    objects.insert(0, home);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    testbed
        .kubectl_input(&["apply", "--filename", "-"], &list.to_string())
        .unwrap();
    let ready = [
        "wait",
        "pods",
        "--all",
        "--for=condition=Ready",
        "--timeout=60s",
        "--namespace",
        namespace,
    ];
    testbed.kubectl(&ready).unwrap();
}

fn delete(testbed: &Testbed, namespace: &str) {
    if let Err(error) = testbed.kubectl(&["delete", "namespace", namespace, "--wait=false"]) {
        println!("namespace {namespace}: {error}");
    }
}

fn address(testbed: &Testbed, namespace: &str, pod: &str) -> String {
    field(testbed, namespace, &[pod], "{.status.podIP}")
}

fn field(testbed: &Testbed, namespace: &str, which: &[&str], path: &str) -> String {
    let output = format!("jsonpath={path}");
    let args = [&["get"], which, &["--namespace", namespace, "--output", &output]].concat();
    let found = testbed.kubectl(&args).unwrap();
    assert_ne!(found, "", "{which:?} {path}");
    found
}
