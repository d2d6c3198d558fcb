use super::super::samples::{Counts, deployment, lease, manifest, stateful_set};
use super::*;
use std::sync::Arc;

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

#[test]
fn a_lease_is_good_when_every_service_is() {
    use Health::{Bad, Good};
    let whole = (1, 1, 2, 2);
    let cases = [
        ("all there", vec![("web", 2)], vec![("web", whole)], vec![], Good),
        (
            "one short",
            vec![("web", 2)],
            vec![("web", (1, 1, 2, 1))],
            vec![],
            Bad,
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
            "not acted on",
            vec![("web", 2)],
            vec![("web", (2, 1, 2, 2))],
            vec![],
            Bad,
        ),
        ("no workload", vec![("web", 1)], vec![], vec![], Bad),
        (
            "one of two",
            vec![("db", 1), ("web", 2)],
            vec![("web", whole)],
            vec![],
            Bad,
        ),
    ];
    for (what, services, deployments, sets, wanted) in cases {
        assert_eq!(health(&view(&services, &deployments, &sets)), wanted, "{what}");
    }
}

#[test]
fn a_service_is_of_the_kind_its_volumes_want() {
    use Health::{Bad, Good};
    let (whole, short) = ((1, 1, 2, 2), (1, 1, 2, 0));
    let cases = [
        ("a set", vec![("db!", 2)], vec![], vec![("db", whole)], Good),
        (
            "a set short, whose current replicas are all there",
            vec![("db!", 2)],
            vec![],
            vec![("db", (1, 1, 2, 1))],
            Bad,
        ),
        (
            "both kinds, the wanted one counts",
            vec![("db!", 2)],
            vec![("db", whole)],
            vec![("db", short)],
            Bad,
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

#[test]
fn what_is_not_known_is_not_bad() {
    let mut no_manifest = view(&[("web", 1)], &[("web", (1, 1, 1, 0))], &[]);
    no_manifest.manifest = None;
    assert_eq!(health(&no_manifest), Health::Unknown);
    for kind in [Kind::Manifests, Kind::Deployments, Kind::StatefulSets] {
        let mut garbled = view(&[("web", 1)], &[], &[]);
        garbled
            .unreadable
            .insert((kind, "web".to_owned()), "why".to_owned());
        assert_eq!(health(&garbled), Health::Unknown, "{kind}");
    }
    let mut pod = view(&[("web", 1)], &[], &[]);
    pod.unreadable
        .insert((Kind::Pods, "web-0".to_owned()), "why".to_owned());
    assert_eq!(health(&pod), Health::Bad, "a pod decides nothing");
}

#[test]
fn a_write_is_seen_when_the_same_object_is_at_least_so_new() {
    let view = view(&[], &[("web", (3, 3, 1, 1))], &[]);
    let cases = [
        ("d-web", 2, true),
        ("d-web", 3, true),
        ("d-web", 4, false),
        ("another", 1, false),
    ];
    for (uid, generation, wanted) in cases {
        let write = Write {
            kind: Kind::Deployments,
            name: "web".to_owned(),
            uid: uid.to_owned(),
            generation,
        };
        assert_eq!(write.is_seen(&view), wanted, "{uid} {generation}");
    }
}
