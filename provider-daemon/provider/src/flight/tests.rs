use super::folder::{self, files};
use super::format::{Decoder, Encoder, ReadError, VERSION};
use super::reader::Recording;
use super::recorder::with_queue;
use super::replay::{Replay, ReplayResult};
use super::*;
use akash_provider_cli::flags::Output;
use akash_provider_core::Config;
use akash_provider_core::engine::{Leadership, Request, RequestId};
use akash_provider_core::manifest::Manifest;
use akash_provider_core::market::{Market, MarketConfig};
use akash_provider_core::record::{self, Recorder};
use akash_provider_core::sdl;
use akash_provider_core::types::{BlockTime, ChainEvent, Mono, OrderId, Snapshot};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const ACCOUNT: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
const SECRET: &str = "known-to-the-tenant-alone";

fn config(chain: &str) -> Config {
    Config::new(ACCOUNT.parse().unwrap(), chain)
}

fn head(chain: &str) -> Head {
    Head {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        chain_id: chain.to_owned(),
        provider: ACCOUNT.parse().unwrap(),
        started: 1,
    }
}

fn order(dseq: u64) -> OrderId {
    format!("{ACCOUNT}/{dseq}/1/1").parse().unwrap()
}

fn now(turn: u64) -> Now {
    Now {
        mono: Mono(turn * 100),
        block_time: BlockTime(0),
    }
}

fn manifest() -> Manifest {
    let mut manifest = sdl::parse_all(crate::trial::SAMPLE).unwrap().manifest;
    let service = &mut manifest.groups[0].services[0];
    service.env = Some(vec![format!("TOKEN={SECRET}")]);
    service.args = Some(vec![SECRET.to_owned()]);
    manifest
}

fn snapshot() -> Snapshot {
    let market = Market::new(MarketConfig::new("test", BlockTime(0)));
    market.snapshot(&ACCOUNT.parse().unwrap())
}

fn inputs(turns: u64) -> Vec<Option<Input>> {
    let submit = Request::SubmitManifest {
        deployment: order(1).deployment().clone(),
        manifest: Arc::new(manifest()),
        hashes: [0; 32].into(),
    };
    let mut all = vec![
        Some(Input::Leadership(Leadership::Leader { epoch: 1 })),
        Some(Input::Chain(ChainEvent::Resync(Arc::new(snapshot())))),
        Some(Input::Chain(ChainEvent::OrderCreated { id: order(1) })),
        Some(Input::Request(RequestId(1), submit)),
        None,
    ];
    all.extend((0..turns).map(|turn| {
        Some(Input::Chain(match turn % 2 {
            0 if turn < 100 => ChainEvent::OrderCreated { id: order(turn + 2) },
            _ => ChainEvent::Block {
                height: turn,
                time: BlockTime(0),
            },
        }))
    }));
    all
}

fn drive(recorder: &mut impl Recorder, engine: &mut Engine, turn: u64, input: Option<Input>) {
    recorder.record_input(engine, now(turn), input.as_ref());
    let effects = match input {
        Some(input) => engine.step(now(turn), input),
        None => engine.handle_timeout(now(turn)),
    };
    recorder.record_effects(&effects);
}

/// Records `turns` steps. The queue is large enough for all steps.
fn record_in(dir: &Path, limit: u64, turns: u64) {
    let (mut recorder, finish) =
        with_queue(folder::open(dir, limit).unwrap(), head("test"), 1 << 20).unwrap();
    let mut engine = Engine::new(config("test")).unwrap();
    for (turn, input) in (0..).zip(inputs(turns)) {
        drive(&mut recorder, &mut engine, turn, input);
        // The writer rotates files, so it must process some steps before the last one arrives.
        if turn % 1000 == 999 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    drop(recorder);
    finish.join();
}

fn replayed(dir: &Path) -> anyhow::Result<ReplayResult> {
    let mut replay = Replay::default();
    replay.run(&mut Recording::open(dir)?, None, &mut |_| ())?;
    Ok(replay.outcome)
}

fn one_file(dir: &Path) -> Vec<u8> {
    let files = files(dir).unwrap();
    assert_eq!(files.len(), 1);
    std::fs::read(&files[0]).unwrap()
}

fn read(bytes: &[u8]) -> (Vec<FlightRecord>, Option<ReadError>) {
    let mut records = Vec::new();
    let mut decoder = match Decoder::new(bytes) {
        Ok((_, decoder)) => decoder,
        Err(fault) => return (records, Some(fault)),
    };
    loop {
        match decoder.next() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, None),
            Err(fault) => return (records, Some(fault)),
        }
    }
}

fn written(records: &[FlightRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, &head("test")).unwrap();
    for record in records {
        encoder.push(record).unwrap();
        encoder.pack().unwrap();
        encoder.store().unwrap();
    }
    drop(encoder);
    bytes
}

fn records(turns: u64) -> (Vec<FlightRecord>, Engine) {
    let mut engine = Engine::new(config("test")).unwrap();
    let mut records = vec![state(&engine, 0)];
    for (turn, input) in (0..).zip(inputs(turns).into_iter().skip(1)) {
        records.push(taken(&mut engine, turn, input));
    }
    (records, engine)
}

fn state(engine: &Engine, turn: u64) -> FlightRecord {
    FlightRecord::State {
        now: now(turn),
        wall: turn * 100,
        engine: Box::new(engine.clone()),
    }
}

fn taken(engine: &mut Engine, turn: u64, input: Option<Input>) -> FlightRecord {
    let effects = match input.clone() {
        Some(input) => engine.step(now(turn), input),
        None => engine.handle_timeout(now(turn)),
    };
    FlightRecord::Turn {
        now: now(turn),
        input,
        effects: u32::try_from(effects.len()).unwrap(),
        digest: record::digest(&effects, None),
    }
}

fn replayed_bytes(bytes: &[u8]) -> anyhow::Result<ReplayResult> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("000001.flight"), bytes).unwrap();
    replayed(dir.path())
}

#[test]
fn recording_replays_identically_and_contains_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    record_in(dir.path(), 64 << 20, 200);
    let outcome = replayed(dir.path()).unwrap();
    assert_eq!(
        (outcome.inputs, outcome.differences, outcome.missing),
        (205, 0, 0)
    );
    assert!(outcome.effects > 50 && outcome.has_end, "{outcome:?}");
    let (records, fault) = read(&one_file(dir.path()));
    assert!(fault.is_none());
    let all = rmp_serde::to_vec_named(&records).unwrap();
    let has = |text: &str| all.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("TOKEN=taken-out-") && !has(SECRET));
    let mode = std::fs::metadata(&files(dir.path()).unwrap()[0])
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn recording_stays_below_its_limit_and_the_rest_replays() {
    let (dir, limit) = (tempfile::tempdir().unwrap(), 256 << 10);
    record_in(dir.path(), limit, 60_000);
    let left = files(dir.path()).unwrap();
    assert!(left.len() > 1 && !left[0].ends_with("000001.flight"), "{left:?}");
    let bytes: u64 = left
        .iter()
        .map(|file| std::fs::metadata(file).unwrap().len())
        .sum();
    assert!(bytes <= limit, "{bytes}");
    let outcome = replayed(dir.path()).unwrap();
    assert_eq!((outcome.differences, outcome.skipped), (0, 0), "{outcome:?}");
    assert!(outcome.inputs < 60_000 && outcome.has_end);
}

#[test]
fn truncated_file_is_read_up_to_the_truncation() {
    let whole = written(&records(6).0);
    let all = read(&whole).0.len();
    let mut most = 0;
    for end in 0..whole.len() {
        let (records, fault) = read(&whole[..end]);
        assert!(records.len() < all && records.len() >= most, "cut at {end}");
        most = records.len();
        // A truncation between two parts cannot be detected.
        let is_named = fault
            .as_ref()
            .is_none_or(|fault| matches!(fault, ReadError::Cut(_) | ReadError::Foreign));
        assert!(is_named, "cut at {end}: {fault:?}");
        // A replay uses the rest or reports why not.
        drop(replayed_bytes(&whole[..end]).map_err(|error| error.to_string()));
    }
    assert_eq!(most, all - 1);
}

#[test]
fn changed_byte_is_reported() {
    let whole = written(&records(6).0);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        let (_, fault) = read(&changed);
        assert!(fault.is_some(), "byte {at}");
    }
}

#[test]
fn invalid_part_with_valid_checksum_is_reported() {
    for raw in [
        &b"\x03\0\0\0abc"[..],
        b"\xff\xff\xff\xffabc",
        b"ab",
        b"\x01\0\0\0\xc0",
    ] {
        let mut bytes = written(&[]);
        let mut packed = Vec::with_capacity(100);
        let mut deflate = flate2::Compress::new(flate2::Compression::fast(), false);
        deflate
            .compress_vec(raw, &mut packed, flate2::FlushCompress::Sync)
            .unwrap();
        bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&packed);
        bytes.extend(crc.sum().to_le_bytes());
        bytes.extend(packed);
        let fault = read(&bytes).1;
        assert!(
            matches!(fault, Some(ReadError::Unreadable { .. })),
            "{raw:?}: {fault:?}"
        );
    }
}

#[test]
fn other_format_and_other_chain_are_refused() {
    let mut bytes = written(&records(2).0);
    bytes[8..10].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let refused = format!("{:#}", replayed_bytes(&bytes).unwrap_err());
    assert!(
        refused.contains("format 2") && refused.contains("format 1"),
        "{refused}"
    );

    let dir = tempfile::tempdir().unwrap();
    for (name, chain) in [("000001.flight", "one"), ("000002.flight", "two")] {
        let mut bytes = Vec::new();
        drop(Encoder::new(&mut bytes, &head(chain)).unwrap());
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let refused = format!("{:#}", replayed(dir.path()).unwrap_err());
    assert!(
        refused.contains("chain two") && refused.contains("chain one"),
        "{refused}"
    );
    let none = tempfile::tempdir().unwrap();
    assert!(replayed(none.path()).is_err());
}

#[test]
fn gap_is_reported_and_replay_continues_from_the_next_state() {
    let (mut all, mut engine) = records(2);
    all.push(FlightRecord::Gap { turns: 7 });
    all.push(taken(&mut engine, 50, None));
    all.push(state(&engine, 51));
    all.push(taken(&mut engine, 52, None));
    let outcome = replayed_bytes(&written(&all)).unwrap();
    assert_eq!((outcome.missing, outcome.skipped, outcome.differences), (7, 1, 0));
    assert!(outcome.inputs > 4, "{outcome:?}");
}

#[test]
fn different_decision_is_reported_with_its_input() {
    let (mut all, _) = records(2);
    let Some(FlightRecord::Turn { digest, .. }) = all.get_mut(2) else {
        panic!("a turn");
    };
    *digest ^= 1;
    let outcome = replayed_bytes(&written(&all)).unwrap();
    let first = outcome.first_difference.unwrap();
    assert!(
        outcome.differences == 1 && first.contains("input 2") && first.contains("order created"),
        "{first}"
    );
}

#[test]
fn bundle_reports_the_input_of_the_first_difference() {
    let (mut all, _) = records(2);
    let Some(FlightRecord::Turn { digest, .. }) = all.get_mut(2) else {
        panic!("a turn");
    };
    *digest ^= 1;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("000001.flight"), written(&all)).unwrap();
    let out = dir.path().join("report.tar.gz");
    let args = BundleArgs {
        dir: dir.path().to_owned(),
        out: out.clone(),
        from: None,
        until: None,
        output: Output::Text,
    };
    bundle(&args).unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(&out).unwrap()));
    let mut entries = tar.entries().unwrap().map(Result::unwrap);
    let mut report = entries
        .find(|entry| entry.path().unwrap().ends_with("replay.txt"))
        .unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut report, &mut text).unwrap();
    assert!(
        text.contains("input 2") && text.contains("order created"),
        "{text}"
    );
}

#[test]
fn unwritable_folder_stops_only_the_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder::open(dir.path(), 1 << 20).unwrap();
    std::fs::remove_dir_all(dir.path()).unwrap();
    let (mut recorder, finish) = with_queue(folder, head("test"), 16).unwrap();
    let mut engine = Engine::new(config("test")).unwrap();
    for (turn, input) in (0..).zip(inputs(100)) {
        drive(&mut recorder, &mut engine, turn, input);
    }
    drop(recorder);
    finish.join();
    assert!(!engine.status(now(0)).orders.is_empty(), "the engine continues");
}

#[test]
fn recorder_resumes_when_the_folder_returns_and_counts_missing_turns() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("flight");
    let opened = folder::open(&folder, 1 << 20).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let (mut recorder, finish) = with_queue(opened, head("test"), 1 << 10).unwrap();
    let health = finish.health();
    let mut engine = Engine::new(config("test")).unwrap();
    let mut turns = 0..;
    let mut drive_all = |inputs: Vec<Option<Input>>| {
        for (turn, input) in turns.by_ref().zip(inputs) {
            drive(&mut recorder, &mut engine, turn, input);
        }
    };
    let until = |what: &dyn Fn(&RecordingStatus) -> bool| {
        let begun = std::time::Instant::now();
        while !what(&health.status()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", health.status());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let first = inputs(100);
    let missing = first.len() as u64;
    drive_all(first);
    until(&|status| !status.is_written && status.trouble.is_some());
    std::fs::create_dir(&folder).unwrap();
    // The writer retries after a second, and the next step brings a state.
    until(&|_| {
        std::thread::sleep(Duration::from_millis(500));
        !health.is_paused()
    });
    drive_all(vec![None; 3]);
    until(&|status| status.is_written && status.written_bytes > 0);
    assert_eq!(health.status().missed, missing);
    drop(recorder);
    finish.join();
    let outcome = replayed(&folder).unwrap();
    assert_eq!(
        (
            outcome.missing,
            outcome.inputs,
            outcome.differences,
            outcome.skipped
        ),
        (missing, 3, 0, 0),
        "{outcome:?}"
    );
    assert!(outcome.has_end && outcome.broken.is_empty(), "{outcome:?}");
    assert_eq!(
        files(&folder).unwrap().len(),
        1,
        "a failed attempt leaves no file"
    );
}

#[test]
fn full_queue_leaves_a_gap_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder::open(dir.path(), 64 << 20).unwrap();
    let (mut recorder, finish) = with_queue(folder, head("test"), 2).unwrap();
    let mut engine = Engine::new(config("test")).unwrap();
    let all = inputs(20_000);
    let turns = all.len() as u64;
    for (turn, input) in (0..).zip(all) {
        drive(&mut recorder, &mut engine, turn, input);
    }
    // Space again: the gap is recorded before the next state.
    std::thread::sleep(Duration::from_millis(300));
    drive(&mut recorder, &mut engine, turns, None);
    drop(recorder);
    finish.join();
    let outcome = replayed(dir.path()).unwrap();
    assert!(outcome.missing > 0, "{outcome:?}");
    assert_eq!((outcome.differences, outcome.skipped), (0, 0));
    assert_eq!(outcome.inputs + outcome.missing, turns + 1);
}

#[test]
fn replay_of_an_order_prints_all_of_its_turns_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    record_in(dir.path(), 64 << 20, 40);
    let args = |dseq| ReplayArgs {
        dir: dir.path().to_owned(),
        order: Some(order(dseq)),
        lease: None,
        until: None,
        output: Output::Text,
    };
    assert!(replay(&args(4)).is_ok());
    let none = replay(&args(9_999)).unwrap_err().to_string();
    assert!(none.contains("no turn in"), "{none}");
    let early = ReplayArgs {
        until: Some(1),
        ..args(4)
    };
    assert!(replay(&early).is_err(), "before the start");
}

#[test]
fn bundle_has_settings_and_status_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("flight");
    record_in(&from, 64 << 20, 40);
    let out = dir.path().join("report.tar.gz");
    let args = BundleArgs {
        dir: from,
        out: out.clone(),
        from: None,
        until: None,
        output: Output::Text,
    };
    bundle(&args).unwrap();
    assert!(bundle(&args).is_err(), "existing files are not overwritten");
    let turned = BundleArgs {
        dir: args.dir.clone(),
        out: dir.path().join("none.tar.gz"),
        from: Some(2),
        until: Some(1),
        output: Output::Text,
    };
    let refused = bundle(&turned).unwrap_err().to_string();
    assert!(refused.contains("is after --until"), "{refused}");
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(&out).unwrap()));
    let mut names = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        names.push(entry.path().unwrap().display().to_string());
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut text).unwrap();
        assert!(
            !text.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()),
            "{names:?}"
        );
    }
    let wanted = [
        "taken-out.txt",
        "replay.txt",
        "recording.json",
        "settings.json",
        "status.json",
        "recording/000001.flight",
    ];
    assert_eq!(names, wanted);
}
