use super::super::samples::{deployment, host, lease, manifest, pod, service, stateful_set};
use super::*;
use serde_json::json;
use std::sync::Arc;

fn port(name: &str, port: u16, external_port: u16, proto: Proto) -> ForwardedPort {
    ForwardedPort {
        host: "provider.example".to_owned(),
        port,
        external_port,
        proto,
        name: name.to_owned(),
    }
}

fn sample() -> LeaseView {
    let lease = lease(1);
    let mut view = LeaseView {
        manifest: Some(Arc::new(manifest(&lease, &[("db!", 3), ("idle", 4), ("web", 2)]))),
        ..LeaseView::default()
    };
    let web = Arc::new(deployment(&lease, "web", (5, 4, 2, 1)));
    view.deployments.insert("web".to_owned(), web);
    let db = Arc::new(stateful_set(&lease, "db", (1, 1, 3, 2)));
    view.stateful_sets.insert("db".to_owned(), db);
    for (name, of) in [("b.example", "web"), ("a.example", "web"), ("c.example", "db")] {
        view.hosts
            .insert(name.to_owned(), Arc::new(host(&lease, name, of)));
    }
    view
}

#[test]
fn lease_status_has_the_replicas_of_each_service() {
    let status = lease_status(&sample(), "").unwrap();
    assert_eq!(status.services.keys().collect::<Vec<_>>(), ["db", "idle", "web"]);
    let expected = ServiceStatus {
        name: "web".to_owned(),
        available: 1,
        total: 2,
        uris: vec!["a.example".to_owned(), "b.example".to_owned()],
        hostnames: BTreeMap::new(),
        // Its controller has not seen the newest version.
        updated_replicas: 0,
        ready_replicas: 1,
        replicas: 2,
        available_replicas: 1,
        observed_generation: 4,
        last_termination: None,
    };
    assert_eq!(status.services["web"], expected);
    assert_eq!(service_status(&sample(), "web"), Some(expected));
    assert_eq!(
        status.services["db"].available, 2,
        "not the current replicas, which are 3"
    );
    assert_eq!(status.services["idle"].total, 4, "recorded, not created yet");
    assert_eq!(status.services["idle"].available, 0);
    assert_eq!(service_status(&sample(), "nobody"), None);
}

/// The Go provider lists all hostnames of the lease in the status of each service.
#[test]
fn service_status_has_only_its_own_hostnames() {
    let status = service_status(&sample(), "db").unwrap();
    assert_eq!(status.uris, ["c.example"]);
}

#[test]
fn lease_without_record_and_workload_is_unknown() {
    let mut view = LeaseView::default();
    assert_eq!(lease_status(&view, ""), None);
    let web = Arc::new(deployment(&lease(1), "web", (1, 1, 2, 2)));
    view.deployments.insert("web".to_owned(), web);
    let status = lease_status(&view, "").unwrap();
    assert_eq!(status.services["web"].total, 2, "without its manifest too");
}

#[test]
fn forwarded_ports_are_the_node_ports() {
    use Proto::{Tcp, Udp};
    let cases = [
        (
            "none",
            "web",
            "ClusterIP",
            json!([{"port": 80, "nodePort": 30_000}]),
            vec![],
        ),
        (
            "by number",
            "web-np",
            "NodePort",
            json!([{"port": 9000, "targetPort": 8080, "nodePort": 30_001, "protocol": "TCP"}]),
            vec![port("web", 8080, 30_001, Tcp)],
        ),
        (
            "TCP and UDP on one number",
            "dns-np",
            "NodePort",
            json!([
                {"port": 53, "targetPort": 53, "nodePort": 30_002, "protocol": "TCP"},
                {"port": 53, "targetPort": 53, "nodePort": 30_003, "protocol": "UDP"},
            ]),
            vec![port("dns", 53, 30_002, Tcp), port("dns", 53, 30_003, Udp)],
        ),
        (
            "no target, no protocol",
            "web-np",
            "NodePort",
            json!([{"port": 9000, "nodePort": 30_004}]),
            vec![port("web", 9000, 30_004, Tcp)],
        ),
        (
            "named target",
            "web-np",
            "NodePort",
            json!([{"port": 9000, "targetPort": "http", "nodePort": 30_005}]),
            vec![port("web", 9000, 30_005, Tcp)],
        ),
        (
            "not assigned yet",
            "web-np",
            "NodePort",
            json!([{"port": 9000}]),
            vec![],
        ),
        (
            "invalid",
            "web-np",
            "NodePort",
            json!([{"port": 70_000, "nodePort": 30_006}, {"port": 1, "nodePort": -1}, {"port": 1, "nodePort": 2, "protocol": "SCTP"}]),
            vec![],
        ),
    ];
    for (what, name, kind, ports, wanted) in cases {
        let mut view = LeaseView::default();
        let object = Arc::new(service(&lease(1), name, kind, ports));
        view.services.insert(name.to_owned(), object);
        let found = forwarded_ports(&view, "provider.example");
        assert_eq!(
            found.into_values().flatten().collect::<Vec<_>>(),
            wanted,
            "{what}"
        );
    }
}

#[test]
fn restarts_are_summed_by_service() {
    let mut view = LeaseView::default();
    for (name, of) in [("web-1", "web"), ("web-2", "web"), ("db-0", "db")] {
        let pod = Arc::new(pod(&lease(1), name, of, "Running", true));
        view.pods.insert(name.to_owned(), pod);
    }
    let wanted = BTreeMap::from([("db".to_owned(), 3), ("web".to_owned(), 6)]);
    assert_eq!(restarts(&view), wanted);
}

#[test]
fn a_killed_container_shows_its_reason_and_exit_code() {
    let mut view = sample();
    let ended = |code: i32, reason: &str, second: &str| {
        let at = format!("2026-01-01T00:00:{second}Z");
        json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}})
    };
    let mut put = |name: &str, state: serde_json::Value, before: serde_json::Value, is_leaving: bool| {
        let mut made = serde_json::to_value(pod(&lease(1), name, "web", "Running", false)).unwrap();
        made["status"]["containerStatuses"][1]["state"] = state;
        made["status"]["containerStatuses"][1]["lastState"] = before;
        if is_leaving {
            made["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        view.pods
            .insert(name.to_owned(), Arc::new(serde_json::from_value(made).unwrap()));
    };
    let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    put("web-1", waits.clone(), ended(137, "OOMKilled", "02"), false);
    put("web-2", ended(1, "Error", "01"), json!({}), false);
    put("web-3", waits, ended(0, "Completed", "03"), true);
    let termination = Termination {
        reason: "OOMKilled".to_owned(),
        exit_code: 137,
        restarts: 9,
    };
    let status = service_status(&view, "web").unwrap();
    assert_eq!(status.last_termination, Some(termination));
    assert_eq!(service_status(&view, "db").unwrap().last_termination, None);
}

#[test]
fn assigned_addresses_come_from_load_balancers() {
    let lease = lease(1);
    let balancer = |name: &str, status: serde_json::Value| {
        let ports = json!([{"port": 8080, "targetPort": 80, "protocol": "TCP"}]);
        let mut made = serde_json::to_value(service(&lease, name, "LoadBalancer", ports)).unwrap();
        made["spec"]["selector"] = json!({"akash.network": "true", "akash.network/manifest-service": "web"});
        made["status"] = status;
        let made: Service = serde_json::from_value(made).unwrap();
        (name.to_owned(), Arc::new(made))
    };
    let mut view = sample();
    let got = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}});
    let named = json!({"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}});
    view.services = [
        balancer("web-ip-8080-tcp", got),
        balancer("web-ip-8081-tcp", json!({})),
        balancer("web-ip-8082-tcp", named),
    ]
    .into();
    let status = lease_status(&view, "provider.example").unwrap();
    let assigned = AssignedIp {
        ip: "198.51.100.7".parse().unwrap(),
        port: 80,
        external_port: 8080,
        proto: Proto::Tcp,
    };
    assert_eq!(status.ips, [("web".to_owned(), vec![assigned])].into());
    assert!(status.forwarded_ports.is_empty());
}
