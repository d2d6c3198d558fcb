//! Leases from order to close. Afterwards the capacity equals the capacity before.

use crate::fixture::{MarketFixture, eventually, get, run};
use crate::refusals;
use crate::tenant::{Tenant, TenantLease, web};
use akash_provider_core::manifest::{Manifest, Proto, Service};
use futures::FutureExt;
use std::net::UdpSocket;
use tokio::task::block_in_place;

/// Returns an SDL with the web server and a second service. Both services have equal resources and ports, so
/// a test can exchange the services.
fn pair() -> String {
    let neighbour = "
  side:
    image: localhost/busybox:1
    command: [sh, -c]
    args: [\"trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done\"]
    expose:
      - port: 80
        to: [{ global: true }]
      - port: 8080
        to: [{ global: true }]
profiles:";
    let text = web("first").replace("\nprofiles:", neighbour);
    text + "  side:\n    anywhere: { profile: small, count: 2 }\n"
}

/// SDL with two services: one runs as root, with one port for two protocols; the other has a volume.
const ROOT: &str = r#"
version: "2.0"
services:
  root:
    image: localhost/busybox:1
    command: [sh, -c]
    args: ["trap 'exit 0' TERM; mkdir -p /www; echo both > /www/index.html; httpd -f -p 80 -h /www & httpd -f -p 7000 -h /www & wait"]
    expose:
      - port: 7000
        proto: tcp
        to: [{ global: true }]
      - port: 7000
        proto: udp
        to: [{ global: true }]
      - port: 80
        to: [{ service: data }]
  data:
    image: localhost/busybox:1
    command: [sh, -c]
    args: ["trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"]
    expose:
      - port: 9000
        to: [{ service: root }]
    params:
      storage:
        kept: { mount: /data, readOnly: false }
profiles:
  compute:
    plain:
      resources:
        cpu: { units: 50m }
        memory: { size: 32Mi }
        storage: { size: 64Mi }
    with-volume:
      resources:
        cpu: { units: 50m }
        memory: { size: 32Mi }
        storage:
          - size: 64Mi
          - name: kept
            size: 64Mi
            attributes: { persistent: true, class: beta2 }
  placement:
    anywhere:
      pricing:
        plain: { denom: uact, amount: 1000 }
        with-volume: { denom: uact, amount: 1000 }
deployment:
  root:
    anywhere: { profile: plain, count: 1 }
  data:
    anywhere: { profile: with-volume, count: 1 }
"#;

#[test]
fn lease_runs_and_leaves_no_objects() {
    run(&[&pair(), ROOT], |fixture| {
        async move {
            let before = fixture.capacity().await;
            tokio::join!(
                web_tenant(fixture),
                root_tenant(fixture),
                refusals::stuck(fixture),
                refusals::refused(fixture)
            );
            let same = || async { fixture.capacity().await == before };
            eventually("the same capacity as before", same).await;
        }
        .boxed()
    });
}

fn service<'a>(manifest: &'a mut Manifest, name: &str) -> &'a mut Service {
    let mut services = manifest.groups.iter_mut().flat_map(|g| &mut g.services);
    services.find(|s| s.name == name).unwrap()
}

async fn web_tenant(fixture: &MarketFixture) {
    let mut web = Tenant::new(fixture, 1, &pair()).run().await;
    assert_response(&web, "first").await;
    assert_eq!(web.logs("web").await, ["said first"]);
    let (code, response) = web.sh("web", "cat /www/index.html; echo bad >&2; exit 7").await;
    assert_eq!((code, response.as_str()), (7, "first\nbad\n"));

    web.update(|manifest| {
        let web = service(manifest, "web");
        for arg in web.args.iter_mut().flatten() {
            *arg = arg.replace("first", "second");
        }
        let side = service(manifest, "side");
        (side.command, side.args) = (None, None);
        side.image = "localhost/pause:1".to_owned();
    })
    .await;
    assert_response(&web, "second").await;
    let paused = || async { images(&web, "side") == ["localhost/pause:1"; 2] };
    eventually("two pods of the other image", paused).await;
    // The group on the chain is unchanged: the two services exchange their resources.
    web.update(|manifest| {
        let (of_web, of_side) = (
            service(manifest, "web").resources.clone(),
            service(manifest, "side").resources.clone(),
        );
        let web = service(manifest, "web");
        (web.resources, web.count) = (of_side, 2);
        let side = service(manifest, "side");
        (side.resources, side.count) = (of_web, 1);
    })
    .await;
    assert_response(&web, "second").await;
    let pods = || async { (images(&web, "web").len(), images(&web, "side").len()) == (2, 1) };
    eventually("two pods of web, one of side", pods).await;
    web.close();
    web.gone().await;
}

/// Returns the images of a service's pods, except terminating pods.
fn images(leased: &TenantLease<'_>, service: &str) -> Vec<String> {
    let selector = format!("akash.network/manifest-service={service}");
    let ns = leased.lease.namespace();
    let template = "go-template={{range .items}}{{if not .metadata.deletionTimestamp}}\
                    {{range .spec.containers}}{{.image}} {{end}}{{end}}{{end}}";
    let args = [
        "get",
        "pods",
        "--namespace",
        &ns,
        "--selector",
        &selector,
        "--output",
        template,
    ];
    let found = leased.fixture.kubectl(&args);
    found.split_whitespace().map(str::to_owned).collect()
}

/// Asserts that the web server responds at the Service address and at the node port.
async fn assert_response(web: &TenantLease<'_>, greeting: &str) {
    let (address, node) = (
        web.cluster_ip("web"),
        web.fixture.testbed.addresses().node.to_string(),
    );
    let port = web.node_port("web", 8080, Proto::Tcp).await;
    for (address, port) in [(&address, 80), (&node, port)] {
        // A terminating pod may respond for a moment.
        let response =
            || async { block_in_place(|| get(address, port)).is_ok_and(|response| response == greeting) };
        eventually(&format!("`{greeting}` from {address}:{port}"), response).await;
    }
}

async fn root_tenant(fixture: &MarketFixture) {
    let tenant = Tenant::new(fixture, 2, ROOT).run().await;
    roots_rights(&tenant).await;
    both_protocols(&tenant).await;
    volume_stays(&tenant).await;
    tenant.close();
    tenant.gone().await;
}

/// Asserts that root in a container can do administrative tasks, but not create devices, use `chroot` or read
/// an API token.
async fn roots_rights(tenant: &TenantLease<'_>) {
    let allowed = [
        ("is root", "test $(id -u) = 0"),
        (
            "chowns",
            "touch /tmp/a && chown tenant /tmp/a && test $(stat -c %U /tmp/a) = tenant",
        ),
        (
            "serves port 80",
            "timeout 5 wget -qO- http://127.0.0.1:80/ | grep both",
        ),
        ("switches the user", "test $(su tenant -c 'id -u') = 1000"),
        (
            "resolves a name",
            "timeout 10 nslookup kubernetes.default.svc.cluster.local",
        ),
        (
            "finds its neighbour",
            &format!(
                "timeout 10 nslookup data.{}.svc.cluster.local",
                tenant.lease.namespace()
            ),
        ),
    ];
    for (what, script) in allowed {
        let (code, response) = tenant.sh("root", script).await;
        assert_eq!(code, 0, "{what}: {response}");
    }
    for (what, script) in [
        ("makes a device", "mknod /tmp/device c 1 3"),
        ("changes the root", "chroot / true"),
        (
            "has a token",
            "test -e /var/run/secrets/kubernetes.io/serviceaccount/token",
        ),
    ] {
        let (code, response) = tenant.sh("root", script).await;
        assert_ne!(code, 0, "{what}: {response}");
    }
}

/// Asserts that a port with two protocols has a node port for each.
async fn both_protocols(tenant: &TenantLease<'_>) {
    let node = tenant.fixture.testbed.addresses().node.to_string();
    let tcp = tenant.node_port("root", 7000, Proto::Tcp).await;
    let udp = tenant.node_port("root", 7000, Proto::Udp).await;
    let response = || async { block_in_place(|| get(&node, tcp)).is_ok_and(|response| response == "both") };
    eventually("a response over TCP", response).await;
    // No process listens on the UDP port, so the pod counts the datagrams as undeliverable.
    let count = "awk '/^Udp:/ { n = $3 } END { print n }' /proc/net/snmp";
    let arrived = async || tenant.sh("root", count).await.1.trim().parse::<u64>().unwrap();
    let before = arrived().await;
    let reaches = || async {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"to the pod", (node.as_str(), udp)).unwrap();
        arrived().await > before
    };
    eventually("the datagram arrives in the pod", reaches).await;
}

async fn volume_stays(tenant: &TenantLease<'_>) {
    let (code, response) = tenant.sh("data", "echo it stays > /data/file && sync").await;
    assert_eq!(code, 0, "{response}");
    let ns = tenant.lease.namespace();
    let pod = "jsonpath={.metadata.uid}";
    let uid = || {
        tenant.fixture.kubectl(&[
            "get",
            "pod",
            "data-0",
            "--namespace",
            &ns,
            "--output",
            pod,
            "--ignore-not-found",
        ])
    };
    let old = uid();
    tenant
        .fixture
        .kubectl(&["delete", "pod", "data-0", "--namespace", &ns]);
    eventually("another pod", || async {
        !["", old.as_str()].contains(&uid().as_str())
    })
    .await;
    tenant.runs().await;
    let (code, response) = tenant.sh("data", "cat /data/file").await;
    assert_eq!((code, response.as_str()), (0, "it stays\n"));
}
