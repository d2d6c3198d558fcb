use super::*;
use crate::state::samples::{deployment, lease, pod};
use std::sync::Arc;

fn view(pods: &[(&str, &str, &str, bool)]) -> LeaseView {
    let lease = lease(1);
    let mut view = LeaseView::default();
    for (name, service, phase, ready) in pods {
        let pod = Arc::new(pod(&lease, name, service, phase, *ready));
        view.pods.insert((*name).to_owned(), pod);
    }
    for service in ["web", "web-api", "idle"] {
        let object = Arc::new(deployment(&lease, service, (1, 1, 1, 1)));
        view.deployments.insert(service.to_owned(), object);
    }
    view
}

fn running<'a>(name: &'a str, service: &'a str) -> (&'a str, &'a str, &'a str, bool) {
    (name, service, "Running", true)
}

#[test]
fn returns_the_replicas_of_the_services_by_name() {
    let view = view(&[
        running("web-2", "web"),
        running("web-1", "web"),
        running("web-api-1", "web-api"),
    ]);
    let names = |services: &[&str]| {
        let services: Vec<_> = services.iter().map(|&s| s.to_owned()).collect();
        let found = replicas(&view, &services).into_iter().map(|r| r.name);
        found.collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["web-1", "web-2", "web-api-1"]);
    assert_eq!(
        names(&["web"]),
        ["web-1", "web-2"],
        "a longer name with this prefix is another service"
    );
    assert_eq!(names(&["idle"]), [] as [&str; 0]);
    let replica = replicas(&view, &["web".to_owned()]).remove(0);
    assert_eq!(replica.container.as_deref(), Some("web"), "not the sidecar");
}

#[test]
fn picks_the_replica_by_index_or_reports_the_reason() {
    let both = view(&[running("web-b", "web"), running("web-a", "web")]);
    assert_eq!(pick(&both, "web", 0).unwrap().name, "web-a");
    assert_eq!(pick(&both, "web", 1).unwrap().name, "web-b");
    let cases = [
        (view(&[]), "nobody", 0, "no such service exists with that name"),
        (view(&[]), "web", 0, "service with that name is not running"),
        (
            both.clone(),
            "web",
            2,
            "pod index out of range: valid range is [0, 1]",
        ),
        (
            both,
            "web",
            u32::MAX,
            "pod index out of range: valid range is [0, 1]",
        ),
        (
            view(&[("web-a", "web", "Succeeded", false)]),
            "web",
            0,
            "service with that name is not running: the service has completed",
        ),
        (
            view(&[("web-a", "web", "Failed", false)]),
            "web",
            0,
            "service with that name is not running: the service has failed",
        ),
        (
            view(&[("web-a", "web", "Running", false)]),
            "web",
            0,
            "service with that name is not running: the service is not ready",
        ),
    ];
    for (view, service, number, wanted) in cases {
        assert_eq!(pick(&view, service, number).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn a_replica_being_deleted_is_not_counted() {
    let mut view = view(&[running("web-a", "web"), running("web-b", "web")]);
    let mut going = (*view.pods["web-a"]).clone();
    going.metadata.deletion_timestamp = serde_json::from_str("\"2026-11-21T10:20:49Z\"").unwrap();
    view.pods.insert("web-a".to_owned(), Arc::new(going));
    assert_eq!(pick(&view, "web", 0).unwrap().name, "web-b");
}

#[test]
fn logs_exist_after_the_container_started() {
    let waiting = pod(&lease(1), "web-a", "web", "Pending", false);
    assert!(
        has_started(&waiting, Some("web")),
        "the container restarted twice"
    );
    assert!(!is_running(&waiting, Some("web")));
    assert!(!has_started(&waiting, Some("other")));
    let running = pod(&lease(1), "web-a", "web", "Running", true);
    assert!(has_started(&running, Some("web")) && is_running(&running, Some("web")));
    let done = pod(&lease(1), "web-a", "web", "Failed", false);
    assert!(is_done(&done) && !is_done(&running));
}
