//! Conformance suite on the bus of files, and tests that the files remain when the program ends.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use akash_provider_core::bus::{Bus, Delivery, conformance};
use akash_provider_core::types::{Event, Topic};
use example_file_bus::FileBus;
use futures::StreamExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Temporary folder. Dropping this value removes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("{name}-{}", std::process::id())))
    }

    fn files(&self) -> usize {
        let names = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|e| e.unwrap().file_name());
        names
            .filter(|n| n.to_string_lossy().starts_with("events-"))
            .count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fact(wanted: u32) -> Arc<Event> {
    Arc::new(Event::BreakerTripped { wanted })
}

#[tokio::test]
async fn conformance_of_the_file_bus() {
    let folder = Folder::new("conformance");
    let bus = FileBus::open(&folder.0).unwrap();
    conformance::suite(&bus, &conformance::Setup::default()).await;
    assert_eq!(folder.files(), 4);
}

#[tokio::test]
async fn slow_subscriber_gets_the_number_of_lost_events() {
    let folder = Folder::new("slow");
    let bus = FileBus::open(&folder.0).unwrap();
    let mut stream = bus.subscribe(&[Topic::Facts]).await.unwrap();
    for number in 0..4097 {
        bus.publish(Topic::Facts, fact(number)).await.unwrap();
    }
    assert_eq!(stream.next().await, Some(Delivery::Lagged(Some(1024))));
    let event = fact(1024);
    let topic = Topic::Facts;
    assert_eq!(stream.next().await, Some(Delivery::Event { topic, event }));
}

#[tokio::test]
async fn events_outlive_the_program_and_an_incomplete_line_is_ignored() {
    let folder = Folder::new("again");
    let first = FileBus::open(&folder.0).unwrap();
    first.publish(Topic::InventoryNodes, fact(1)).await.unwrap();
    let mut stream = first.subscribe(&[Topic::Facts]).await.unwrap();
    first.publish(Topic::Facts, fact(2)).await.unwrap();
    drop(first);
    // The program was killed within a line.
    let path = folder.0.join("events-00000000000000000000.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"number\": 2, \"to");
    std::fs::write(&path, text).unwrap();

    let second = FileBus::open(&folder.0).unwrap();
    assert_eq!(second.last(Topic::InventoryNodes).await.unwrap(), Some(fact(1)));
    second.publish(Topic::Facts, fact(3)).await.unwrap();
    let topic = Topic::Facts;
    for number in [2, 3] {
        let event = fact(number);
        assert_eq!(stream.next().await, Some(Delivery::Event { topic, event }));
    }
}
