use super::*;
use futures::TryStreamExt;
use serde_json::json;

#[derive(Debug, Clone)]
struct Some2;

impl ObjectParts for Some2 {
    const PATHS: Paths = &[&["metadata", "managedFields"], &["spec", "containers", "env"]];
}

#[derive(Debug, Clone)]
struct Few;

impl ObjectParts for Few {
    const PATHS: Paths = &[
        &["metadata", "labels"],
        &["spec", "containers", "name"],
        &["spec", "containers", "resources"],
        &["spec", "priority"],
    ];
    const ARE_READ: bool = true;
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

fn read_object() -> Value {
    let mut object_json = object();
    object_json["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object_json["spec"]["containers"][0]
        .as_object_mut()
        .unwrap()
        .remove("env");
    object_json
}

#[test]
fn skipped_parts_are_skipped_only_at_their_paths() {
    let read: Pruned<Some2> = serde_json::from_str(&object().to_string()).unwrap();
    assert_eq!(read.0, read_object());
}

#[test]
fn only_decoded_parts_are_present() {
    let read: Pruned<Few> = serde_json::from_str(&object().to_string()).unwrap();
    let few = json!({
        "metadata": {"labels": {"env": "prod", "managedFields": "yes"}},
        "spec": {"priority": -1, "containers": [{"name": "a", "resources": {"env": "kept"}}, {"name": "b"}]},
    });
    assert_eq!(read.0, few);
    let other: Pruned<Few> =
        serde_json::from_str(r#"{"spec": "text", "containers": [{"name": "a"}]}"#).unwrap();
    assert_eq!(other.0, json!({"spec": "text"}), "the decoder reports the error");
}

#[tokio::test]
async fn watch_is_decoded_line_by_line_to_its_end() {
    let long = format!(
        r#"{{"type": "MODIFIED", "object": {{"a": "{}"}}}}"#,
        "x".repeat(2 * LINE_KEPT)
    );
    let text = format!("{{\"type\": \"ADDED\", \"object\": {{\"n\": 1}}}}\r\n\n{long}\n{{\"type\": \"DEL");
    // With any size of the chunks.
    for size in [1, 7, 4096, text.len()] {
        let pieces = text
            .as_bytes()
            .chunks(size)
            .map(<[u8]>::to_vec)
            .map(Ok::<_, std::io::Error>);
        let lines = stream::iter(pieces.collect::<Vec<_>>()).into_async_read();
        let (mut lines, mut line) = (Box::pin(lines), Vec::new());
        let mut read = Vec::new();
        while let Some(event) = next_event::<Some2>(lines.as_mut(), &mut line).await {
            read.push(event.unwrap());
        }
        let [WatchEvent::Added(first), WatchEvent::Modified(second)] = &read[..] else {
            panic!("in pieces of {size}: {} events", read.len());
        };
        assert_eq!(first["n"], 1);
        assert_eq!(second["a"].as_str().unwrap().len(), 2 * LINE_KEPT);
    }
}

#[tokio::test]
async fn endless_event_is_read_up_to_the_limit() {
    let piece = vec![b'x'; 1 << 20];
    let lines = stream::iter((0..20).map(move |_| Ok::<_, std::io::Error>(piece.clone()))).into_async_read();
    let (mut lines, mut line) = (Box::pin(lines), Vec::new());
    let event = next_event::<Some2>(lines.as_mut(), &mut line).await;
    let error = event.unwrap().unwrap_err().to_string();
    assert!(line.len() <= LINE_ROOM, "{}", line.len());
    assert!(error.contains("Error reading events"), "{error}");
}

#[tokio::test]
async fn interrupted_watch_ends_and_failed_watch_is_an_error() {
    async fn after(error: std::io::Error) -> Option<kube::Result<WatchEvent<Value>>> {
        let mut lines = Box::pin(stream::iter([Err::<Vec<u8>, _>(error)]).into_async_read());
        next_event::<Some2>(lines.as_mut(), &mut Vec::new()).await
    }
    use std::io::{Error as Io, ErrorKind};
    let nested = Io::other(Io::new(ErrorKind::UnexpectedEof, "connection closed"));
    assert!(after(nested).await.is_none());
    assert!(
        after(Io::other("unexpected EOF during chunk size line"))
            .await
            .is_none()
    );
    let error = after(Io::new(ErrorKind::ConnectionReset, "reset"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, kube::Error::ReadEvents(_)), "{error}");
}

#[tokio::test]
async fn invalid_event_and_status_are_errors() {
    async fn of(text: &str) -> kube::Error {
        let mut lines = Box::pin(stream::iter([Ok::<_, std::io::Error>(text.to_owned())]).into_async_read());
        let event = next_event::<Some2>(lines.as_mut(), &mut Vec::new()).await;
        event.unwrap().unwrap_err()
    }
    let gone =
        r#"{"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}"#;
    assert!(matches!(of(&format!("{gone}\n")).await, kube::Error::Api(status) if status.code == 410));
    assert!(matches!(of("7\n").await, kube::Error::SerdeError(_)));
}

#[test]
fn event_fields_may_have_any_order() {
    let object = object();
    for text in [
        format!(r#"{{"type": "MODIFIED", "object": {object}}}"#),
        format!(r#"{{"object": {object}, "type": "MODIFIED"}}"#),
    ] {
        let event: WatchEvent<Pruned<Some2>> = serde_json::from_str(&text).unwrap();
        let WatchEvent::Modified(read) = bare(event) else {
            panic!("another event: {text}");
        };
        assert_eq!(read, read_object(), "{text}");
    }
}

#[test]
fn invalid_json_in_skipped_parts_is_an_error() {
    let broken = r#"{"metadata": {"managedFields": [}}"#;
    assert!(serde_json::from_str::<Pruned<Some2>>(broken).is_err());
}

#[test]
fn number_of_paths_is_within_the_limit() {
    fn check<P: ObjectParts>() {
        assert!(P::PATHS.len() <= 64);
        assert!(P::PATHS.iter().all(|path| !path.is_empty()));
    }
    check::<Bookkeeping>();
}
