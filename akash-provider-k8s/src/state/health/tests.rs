use super::super::samples::{Counts, deployment, lease, manifest, stateful_set};
use super::*;
use akash_provider_core::cluster::Outage;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use serde_json::json;
use std::sync::Arc;

fn health(view: &LeaseView) -> Health {
    super::health(view, &Nodes::new())
}

fn view(services: &[(&str, u32)], deployments: &[(&str, Counts)], sets: &[(&str, Counts)]) -> LeaseView {
    let lease = lease(1);
    let mut view = LeaseView {
        manifest: Some(Arc::new(manifest(&lease, services))),
        ..LeaseView::default()
    };
    for (name, counts) in deployments {
        let object = Arc::new(deployment(&lease, name, *counts));
        view.deployments.insert((*name).to_owned(), object);
    }
    for (name, counts) in sets {
        let object = Arc::new(stateful_set(&lease, name, *counts));
        view.stateful_sets.insert((*name).to_owned(), object);
    }
    view
}

/// Health of a lease without pods and without a known reason for the outage.
const LACKS: Health = Health::Out(Outage::Unexplained);
const STARTS: Health = Health::Out(Outage::Starting);
const MISSING: Health = Health::Out(Outage::Missing);
const SCALED: Health = Health::Out(Outage::ScaledDown);

#[test]
fn lease_is_healthy_if_all_services_are() {
    use Health::Good;
    let whole = (1, 1, 2, 2);
    let cases = [
        ("all there", vec![("web", 2)], vec![("web", whole)], vec![], Good),
        (
            "one short",
            vec![("web", 2)],
            vec![("web", (1, 1, 2, 1))],
            vec![],
            LACKS,
        ),
        (
            "more than wanted",
            vec![("web", 1)],
            vec![("web", whole)],
            vec![],
            Good,
        ),
        (
            "none wanted",
            vec![("web", 0)],
            vec![("web", (1, 1, 0, 0))],
            vec![],
            Good,
        ),
        (
            "new, and not observed",
            vec![("web", 2)],
            vec![("web", (1, 0, 2, 2))],
            vec![],
            STARTS,
        ),
        (
            "an update that is not observed: the previous generation serves",
            vec![("web", 2)],
            vec![("web", (2, 1, 2, 2))],
            vec![],
            Good,
        ),
        (
            "an update with more replicas",
            vec![("web", 3)],
            vec![("web", (2, 1, 2, 2))],
            vec![],
            SCALED,
        ),
        ("no workload", vec![("web", 1)], vec![], vec![], MISSING),
        (
            "one of two",
            vec![("db", 1), ("web", 2)],
            vec![("web", whole)],
            vec![],
            MISSING,
        ),
    ];
    for (what, services, deployments, sets, wanted) in cases {
        assert_eq!(health(&view(&services, &deployments, &sets)), wanted, "{what}");
    }
}

#[test]
fn persistent_volumes_decide_the_kind_of_a_workload() {
    use Health::Good;
    let (whole, short) = ((1, 1, 2, 2), (1, 1, 2, 0));
    let cases = [
        ("a set", vec![("db!", 2)], vec![], vec![("db", whole)], Good),
        (
            "an incomplete set with all current replicas",
            vec![("db!", 2)],
            vec![],
            vec![("db", (1, 1, 2, 1))],
            LACKS,
        ),
        (
            "both kinds, the wanted one counts",
            vec![("db!", 2)],
            vec![("db", whole)],
            vec![("db", short)],
            LACKS,
        ),
        (
            "both kinds, the other way round",
            vec![("db", 2)],
            vec![("db", whole)],
            vec![("db", short)],
            Good,
        ),
        (
            "still the other kind",
            vec![("db!", 2)],
            vec![("db", whole)],
            vec![],
            Good,
        ),
    ];
    for (what, services, deployments, sets, wanted) in cases {
        assert_eq!(health(&view(&services, &deployments, &sets)), wanted, "{what}");
    }
}

/// Returns the health of a lease during a rolling update to `count` replicas. `reason` is the reason of the
/// condition `Progressing`.
fn updating(count: u32, reason: &str, available: i32) -> Health {
    let wanted = i32::try_from(count).unwrap();
    let mut view = view(&[("web", count)], &[("web", (2, 2, wanted, available))], &[]);
    let mut object = Deployment::clone(&view.deployments["web"]);
    let status = if reason == "ProgressDeadlineExceeded" {
        "False"
    } else {
        "True"
    };
    let condition = json!({"type": "Progressing", "status": status, "reason": reason});
    let condition = serde_json::from_value(condition).unwrap();
    object.status.as_mut().unwrap().conditions = Some(vec![condition]);
    view.deployments.insert("web".to_owned(), Arc::new(object));
    health(&view)
}

#[test]
fn rolling_update_with_one_missing_replica_is_healthy_until_it_stalls() {
    use Health::Good;
    for (count, reason, available, wanted) in [
        (2, "ReplicaSetUpdated", 1, Good),
        (2, "ReplicaSetUpdated", 2, Good),
        (2, "ReplicaSetUpdated", 0, LACKS),
        // The only replica is replaced.
        (1, "ReplicaSetUpdated", 0, Good),
        (3, "NewReplicaSetCreated", 2, Good),
        (3, "NewReplicaSetCreated", 1, LACKS),
        // A loss after the end of the update, or a stalled update.
        (2, "NewReplicaSetAvailable", 1, LACKS),
        (2, "ProgressDeadlineExceeded", 1, LACKS),
        (1, "ProgressDeadlineExceeded", 0, LACKS),
    ] {
        assert_eq!(
            updating(count, reason, available),
            wanted,
            "{count} {reason} {available}"
        );
    }
}

#[test]
fn updated_stateful_set_is_healthy_with_an_available_replica() {
    use Health::Good;
    for (generation, revision, available, wanted) in [
        (2, "new", 1, Good),
        (2, "new", 0, LACKS),
        (2, "old", 1, LACKS),
        // The first start is not an update.
        (1, "new", 1, LACKS),
    ] {
        let mut view = view(
            &[("db!", 2)],
            &[],
            &[("db", (generation, generation, 2, available))],
        );
        let mut object = StatefulSet::clone(&view.stateful_sets["db"]);
        let status = object.status.as_mut().unwrap();
        status.current_revision = Some("old".to_owned());
        status.update_revision = Some(revision.to_owned());
        view.stateful_sets.insert("db".to_owned(), Arc::new(object));
        assert_eq!(health(&view), wanted, "{generation} {revision} {available}");
    }
}

#[test]
fn unknown_state_is_not_unhealthy() {
    let mut no_manifest = view(&[("web", 1)], &[("web", (1, 1, 1, 0))], &[]);
    no_manifest.manifest = None;
    assert_eq!(health(&no_manifest), Health::Unknown);
    for kind in [
        CachedKind::Manifests,
        CachedKind::Deployments,
        CachedKind::StatefulSets,
    ] {
        let mut garbled = view(&[("web", 1)], &[], &[]);
        garbled
            .unreadable
            .insert((kind, "web".to_owned()), "why".to_owned());
        assert_eq!(health(&garbled), Health::Unknown, "{kind}");
    }
    let mut pod = view(&[("web", 1)], &[], &[]);
    pod.unreadable
        .insert((CachedKind::Pods, "web-0".to_owned()), "why".to_owned());
    assert_eq!(health(&pod), MISSING, "an invalid pod does not decide health");
}

#[test]
fn write_is_observed_at_its_generation_of_the_same_object() {
    let view = view(&[], &[("web", (3, 3, 1, 1))], &[]);
    let cases = [
        ("d-web", 2, true),
        ("d-web", 3, true),
        ("d-web", 4, false),
        ("another", 1, false),
    ];
    for (uid, generation, wanted) in cases {
        let write = WorkloadWrite {
            kind: CachedKind::Deployments,
            name: "web".to_owned(),
            uid: uid.to_owned(),
            generation,
        };
        assert_eq!(write.is_seen(&view), wanted, "{uid} {generation}");
    }
}
