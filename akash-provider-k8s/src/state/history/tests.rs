use super::super::samples::{deployment, lease, pod};
use super::*;
use akash_provider_core::cluster::Severity;
use serde_json::{Value, json};

pub(super) fn history() -> EventHistory {
    EventHistory::new(Duration::from_secs(3600), Weak::new())
}

pub(super) fn event(uid: &str, version: &str, time: &str, more: Value) -> Event {
    let mut value = json!({
        "metadata": {"name": uid, "namespace": lease(1).namespace(), "uid": uid, "resourceVersion": version},
        "eventTime": time, "reason": "Started", "note": "text", "type": "Normal",
        "regarding": {"kind": "Pod", "name": "web-1", "namespace": lease(1).namespace()},
    });
    value
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    serde_json::from_value(value).unwrap()
}

pub(super) fn at(seconds_ago: i64) -> String {
    let now = k8s_openapi::jiff::Timestamp::now();
    let then = now - k8s_openapi::jiff::SignedDuration::from_secs(seconds_ago);
    format!("{then:.6}")
}

pub(super) fn reasons(history: &EventHistory) -> Vec<String> {
    let all = history.after(&lease(1).namespace(), 0);
    all.into_iter()
        .map(|r| format!("{} {}", r.uid, r.version))
        .collect()
}

#[test]
fn event_is_converted_to_the_form_of_the_gateway() {
    let mut wanted = LeaseEvent {
        time: BlockTime(1_795_256_449_740),
        severity: Severity::Normal,
        reason: "Started".to_owned(),
        message: "text".to_owned(),
        object: EventObject {
            kind: "Pod".to_owned(),
            namespace: lease(1).namespace(),
            name: "web-1".to_owned(),
        },
        reporting_controller: "kubelet".to_owned(),
        reporting_instance: "node1".to_owned(),
        ..LeaseEvent::default()
    };
    let new = json!({"reportingController": "kubelet", "reportingInstance": "node1"});
    let old = json!({
        "eventTime": null, "deprecatedLastTimestamp": "2026-11-21T10:20:49.740Z", "reportingController": "",
        "deprecatedSource": {"component": "kubelet", "host": "node1"},
    });
    for more in [new, old] {
        assert_eq!(
            lease_event(event("a", "1", "2026-11-21T10:20:49.740433Z", more)),
            wanted
        );
    }
    let empty: Event = serde_json::from_value(json!({"metadata": {}})).unwrap();
    assert_eq!(lease_event(empty), LeaseEvent::default());
    let long =
        json!({"note": "é".repeat(NOTE_MAX), "reportingController": "kubelet", "reportingInstance": "node1"});
    wanted.message = "é".repeat(NOTE_MAX / 2);
    assert_eq!(
        lease_event(event("a", "1", "2026-11-21T10:20:49.740433Z", long)),
        wanted
    );
}

#[test]
fn deleted_events_stay_and_repeated_events_are_stored_once() {
    let history = history();
    let deleted = Decoded(Ok(event("a", "1", &at(5), json!({}))));
    history.take(event("a", "1", &at(5), json!({})));
    history.take(event("b", "2", &at(4), json!({})));
    history.take(event("a", "1", &at(5), json!({})));
    let mut recorder = EventSink(Arc::new(history));
    recorder.deleted(deleted);
    let history = recorder.0;
    assert_eq!(reasons(&history), ["a 1", "b 2"]);
    history.take(event("a", "3", &at(1), json!({"note": "again"})));
    assert_eq!(
        reasons(&history),
        ["b 2", "a 3"],
        "a repeated event is the newest"
    );
    let again = history.after(&lease(1).namespace(), 2);
    assert_eq!(again.len(), 1, "a subscriber receives it again");
}

#[test]
fn history_is_limited_and_removes_the_oldest_events() {
    let history = history();
    let extra = 10;
    for i in 0..EVENTS_MAX + extra {
        // Newest first, as a list may be sorted.
        let ago = i64::try_from(i).unwrap();
        history.take(event(&format!("{i:04}"), "1", &at(ago), json!({})));
    }
    let stored = reasons(&history);
    assert_eq!(stored.len(), EVENTS_MAX);
    assert!(stored.contains(&"0000 1".to_owned()), "the newest stays");
    assert!(
        !stored.contains(&format!("{:04} 1", EVENTS_MAX + extra - 1)),
        "the oldest goes"
    );
}

#[test]
fn expired_and_foreign_events_are_not_returned() {
    let history = history();
    history.take(event("old", "1", &at(3700), json!({})));
    history.take(event("new", "1", &at(60), json!({})));
    assert_eq!(reasons(&history), ["new 1"]);
    let system = json!({"metadata": {"name": "x", "namespace": "kube-system", "uid": "x"}});
    history.take(event("x", "1", &at(1), system));
    assert!(!history.rings().by_namespace.contains_key("kube-system"));
}

#[test]
fn restored_events_do_not_replace_newer_ones() {
    let history = history();
    history.take(event("a", "2", &at(5), json!({"note": "newer"})));
    let stored = |uid: &str, namespace: &str| StoredEvent {
        namespace: namespace.to_owned(),
        uid: uid.to_owned(),
        version: "1".to_owned(),
        event: lease_event(event(uid, "1", &at(9), json!({}))),
    };
    let namespace = lease(1).namespace();
    history.restore(vec![
        stored("a", &namespace),
        stored("b", &namespace),
        stored("c", "kube-system"),
    ]);
    assert_eq!(reasons(&history), ["a 2", "b 1"]);
    assert_eq!(history.rings().by_namespace.len(), 1);
}

#[test]
fn event_belongs_to_the_service_of_its_object() {
    let lease = lease(1);
    let mut view = LeaseView::default();
    for name in ["web", "web-api"] {
        let object = Arc::new(deployment(&lease, name, (1, 1, 1, 1)));
        view.deployments.insert(name.to_owned(), object);
    }
    let odd = Arc::new(pod(&lease, "web-odd", "web-api", "Running", true));
    view.pods.insert("web-odd".to_owned(), odd);
    let cases = [
        ("Pod", "web-odd", Some("web-api")),
        ("Pod", "web-7c9f-x2x", Some("web")),
        ("Pod", "web-api-7c9f-x2x", Some("web-api")),
        ("ReplicaSet", "web-api-7c9f", Some("web-api")),
        ("Deployment", "web", Some("web")),
        ("PersistentVolumeClaim", "web-data-web-0", Some("web")),
        ("Service", "web-np", Some("web")),
        ("Pod", "webhook-1", None),
        ("Namespace", "other", None),
    ];
    for (kind, name, wanted) in cases {
        let object = EventObject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: String::new(),
        };
        assert_eq!(service_of(&object, &view).as_deref(), wanted, "{kind} {name}");
    }
}

/// Kubernetes has no event for an OOM kill.
#[test]
fn an_oom_kill_is_an_event_with_reason_and_exit_code_and_a_later_one_replaces_it() {
    let mut view = LeaseView::default();
    let mut put = |name: &str, state: Value, before: Value, is_leaving: bool| {
        let mut made = serde_json::to_value(pod(&lease(1), name, "web", "Running", false)).unwrap();
        made["spec"]["nodeName"] = json!("node1");
        made["status"]["containerStatuses"][1]["state"] = state;
        made["status"]["containerStatuses"][1]["lastState"] = before;
        if is_leaving {
            made["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        view.pods
            .insert(name.to_owned(), Arc::new(serde_json::from_value(made).unwrap()));
        terminations::terminations(&view)
    };
    let ended = |code: i32, reason: &str, at: &str| json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}});
    let runs = json!({"running": {}});
    assert_eq!(
        put("web-1", runs.clone(), ended(0, "Completed", &at(9)), false),
        []
    );
    assert_eq!(
        put("web-2", ended(137, "Error", &at(9)), json!({}), true),
        [],
        "being deleted"
    );
    let history = history();
    let add = |found: Vec<StoredEvent>| {
        for found in found {
            history.record(&found.namespace, found.uid, found.version, found.event, true);
        }
        let all = history.after(&lease(1).namespace(), 0);
        all.into_iter().map(|r| r.event).collect::<Vec<_>>()
    };
    let first = at(8);
    let killed = add(put("web-1", ended(137, "OOMKilled", &first), json!({}), false));
    let [event] = &killed[..] else {
        panic!("{killed:?}")
    };
    assert_eq!(
        (event.service.as_str(), event.severity.clone()),
        ("web", Severity::Warning)
    );
    assert_eq!(event.reason, "OOMKilled");
    assert_eq!(
        event.message,
        "Container web terminated: OOMKilled, exit code 137"
    );
    assert_eq!(event.object.name, "web-1");
    let again = add(put("web-1", runs.clone(), ended(137, "OOMKilled", &first), false));
    assert_eq!(
        again, killed,
        "the same termination after the restart of the container"
    );
    let later = add(put("web-1", runs, ended(1, "Error", &at(2)), false));
    assert_eq!(later.len(), 1, "{later:?}");
    assert_eq!(later[0].message, "Container web terminated: Error, exit code 1");
}
