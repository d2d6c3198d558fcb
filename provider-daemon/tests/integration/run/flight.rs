//! A recording of a provider is replayed by another process. A full disk stops only the recording.

use crate::stage::{PRICES, Stage};
use nix::sys::signal::Signal;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));

#[test]
fn recordings_are_replayed_also_of_a_killed_process() {
    let mut stage = Stage::new("flight", true);
    stage.start_node(FAST);
    let dir = stage.path("flight");
    let dir = dir.to_str().unwrap();
    let mut provider = stage.provider("first", &["--record", dir]);
    // An order that exists before the start is part of the first snapshot, without an event.
    provider.says("ready: bidding");
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    let order = bid.id.order.to_string();
    stage.accept(bid.id);
    provider.says("lease won");
    stage.close(id);
    provider.says("lease closed");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    let (code, out, err) = stage.ran(&["replay", dir]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("all as recorded") && !out.contains("no end:"),
        "{out}"
    );
    let (code, out, err) = stage.ran(&["replay", dir, "--order", &order]);
    assert_eq!(code, 0, "{out}{err}");
    for expected in ["order created", "order seen", "bid placed", "lease won"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    // A second process records to the same folder and is killed.
    let mut second = stage.provider("second", &["--record", dir]);
    let id = stage.order(2);
    drop(stage.bid(&id, &second));
    // The recorder writes once a second.
    std::thread::sleep(Duration::from_millis(2_500));
    second.kill();
    let (code, out, err) = stage.ran(&["replay", dir]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("all as recorded") && out.contains("no end:"),
        "{out}"
    );
    let (code, out, err) = stage.ran(&["replay", dir, "--order", &order.replacen("/1/1/1", "/2/1/1", 1)]);
    assert!(code == 0 && out.contains("bid placed"), "{out}{err}");
}

#[test]
fn full_disk_stops_only_recording_until_space_is_free() {
    /// Script that mounts a full file system for the started process only.
    const FULL: &str = r#"mount -t tmpfs -o size=64k tmpfs "$1" && ! head -c 1M /dev/zero >"$1/full" 2>/dev/null &&
        shift && exec "$@""#;
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root may mount a file system");
        return;
    }
    let mut stage = Stage::new("flight-full", true);
    stage.start_node(FAST);
    let dir = stage.path("flight");
    std::fs::create_dir_all(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    let before = ["unshare", "--mount", "sh", "-c", FULL, "sh", dir];
    let words = [&["run"], &PRICES[..], &["--record", dir]].concat();
    let mut provider = stage.started("provider", stage.command_after(&before, &words));
    provider.says("ready: bidding");
    for dseq in 1..=3 {
        let id = stage.order(dseq);
        drop(stage.bid(&id, &provider));
        std::thread::sleep(Duration::from_millis(1_200));
    }
    let dump = provider.dump();
    let stopped = "flight recorder cannot write, the provider continues";
    assert_eq!(dump.matches(stopped).count(), 1, "{dump}");
    assert!(dump.contains("No space left on device"), "{dump}");
    provider.says("recording failed, retrying: No space left on device");
    // Free space in the mount namespace of the process.
    let inside = provider.about("root").join(dir.trim_start_matches('/'));
    std::fs::remove_file(inside.join("full")).unwrap();
    provider.says("recording resumed; ");
    let id = stage.order(4);
    drop(stage.bid(&id, &provider));
    std::thread::sleep(Duration::from_millis(2_500));
    let (code, out, err) = stage.ran(&["replay", inside.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("turns that were never written"),
        "the replay does not report the missing turns: {out}"
    );
    assert!(out.contains("all as recorded"), "{out}");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
}
