use super::*;
use serde_json::json;

#[derive(Debug, Clone)]
struct Some2;

impl LeftOut for Some2 {
    const PATHS: Paths = &[&["metadata", "managedFields"], &["spec", "containers", "env"]];
}

fn object() -> Value {
    json!({
        "metadata": {"name": "web-0", "generation": 3, "managedFields": [{"manager": "kubelet"}],
            "labels": {"env": "prod", "managedFields": "yes"}},
        "spec": {"env": "of the pod", "priority": -1, "share": 0.5, "hostNetwork": false, "nodeName": null,
            "containers": [
                {"name": "a", "env": [{"name": "SECRET", "value": "1"}], "resources": {"env": "kept"}},
                {"name": "b"},
            ]},
    })
}

fn kept() -> Value {
    let mut kept = object();
    kept["metadata"].as_object_mut().unwrap().remove("managedFields");
    kept["spec"]["containers"][0]
        .as_object_mut()
        .unwrap()
        .remove("env");
    kept
}

#[test]
fn what_is_left_out_is_left_out_where_it_is_named_and_nowhere_else() {
    let read: Pruned<Some2> = serde_json::from_str(&object().to_string()).unwrap();
    assert_eq!(read.0, kept());
}

#[test]
fn an_event_reads_the_same_whether_its_kind_or_its_object_comes_first() {
    let object = object();
    for text in [
        format!(r#"{{"type": "MODIFIED", "object": {object}}}"#),
        format!(r#"{{"object": {object}, "type": "MODIFIED"}}"#),
    ] {
        let event: WatchEvent<Pruned<Some2>> = serde_json::from_str(&text).unwrap();
        let WatchEvent::Modified(read) = bare(event) else {
            panic!("another event: {text}");
        };
        assert_eq!(read, kept(), "{text}");
    }
}

#[test]
fn what_is_no_json_is_an_error_also_in_what_is_left_out() {
    let broken = r#"{"metadata": {"managedFields": [}}"#;
    assert!(serde_json::from_str::<Pruned<Some2>>(broken).is_err());
}

#[test]
fn no_more_paths_are_named_than_are_told_apart() {
    fn check<P: LeftOut>() {
        assert!(P::PATHS.len() <= 64);
        assert!(P::PATHS.iter().all(|path| !path.is_empty()));
    }
    check::<Bookkeeping>();
    check::<crate::inventory::PodParts>();
    check::<crate::inventory::NodeParts>();
    check::<crate::operators::inventory::NodeLabelParts>();
}
