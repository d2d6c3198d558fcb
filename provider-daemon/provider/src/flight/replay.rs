//! `replay`: a new engine gets the recorded inputs, and its effects are compared with the recorded effects.

mod subject;

use super::reader::{Recording, RecordingItem};
use super::{FlightRecord, Head, describe, format_time};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_core::engine::{Effect, Engine, Input, Status};
use akash_provider_core::record;
use akash_provider_core::types::{LeaseId, Mono, Now, OrderId};
use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::UNIX_EPOCH;
use subject::ReplaySubject;

/// Flags of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Folder written by `run --record`, or unpacked from a bundle
    pub dir: PathBuf,
    /// Print all inputs and decisions for this order: OWNER/DSEQ/GSEQ/OSEQ
    #[arg(long, conflicts_with = "lease")]
    pub order: Option<OrderId>,
    /// Print all inputs and decisions for this lease: OWNER/DSEQ/GSEQ/OSEQ/PROVIDER
    #[arg(long)]
    pub lease: Option<LeaseId>,
    /// Time of the last replayed input, such as 2026-11-23T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<u64>,
    /// Format of the printed inputs and of the summary
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Number of items in a batch. An item takes a few hundred bytes.
const BATCH: usize = 256;
const BATCHES: usize = 8;

type Batch = Vec<anyhow::Result<RecordingItem>>;

/// Reads a recording and sends its items in batches, until the end, an error, or a dropped receiver.
fn read_ahead(recording: &mut Recording, batches: &SyncSender<Batch>) {
    loop {
        let found = || recording.next().transpose();
        let batch: Batch = std::iter::from_fn(found).take(BATCH).collect();
        let is_over = batch.len() < BATCH || batch.iter().any(Result::is_err);
        if batches.send(batch).is_err() || is_over {
            return;
        }
    }
}

/// Parses a time into milliseconds since the Unix epoch.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text);
    let time = time.map_err(|error| format!("{error}; write 2026-11-23T18:00:00Z"))?;
    let since = time
        .duration_since(UNIX_EPOCH)
        .map_err(|_| "the time is before 1970".to_owned())?;
    u64::try_from(since.as_millis()).map_err(|error| error.to_string())
}

#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayResult {
    /// Number of replayed inputs and timeouts.
    pub(super) inputs: u64,
    /// Number of effects that resulted from the replayed inputs and timeouts.
    pub(super) effects: u64,
    /// Number of differences between recording and replay: steps with different effects, and states with a
    /// different status.
    pub(super) differences: u64,
    pub(super) first_difference: Option<String>,
    /// Number of steps that the recording does not contain. The engine was faster than the writer.
    pub(super) missing: u64,
    pub(super) skipped: u64,
    /// Unreadable parts of the recording, with the reason.
    pub(super) broken: Vec<String>,
    /// Whether the recorded process ended normally.
    pub(super) has_end: bool,
}

pub(super) struct Turn<'a> {
    pub(super) wall: u64,
    pub(super) input: Option<&'a Input>,
    pub(super) effects: &'a [Effect],
}

#[derive(Default)]
pub(super) struct Replay {
    pub(super) outcome: ReplayResult,
    head: Option<Head>,
    /// Replayed engine. The times are the monotonic time and the wall-clock time of the last recorded state.
    engine: Option<(Box<Engine>, Mono, u64)>,
    /// Replayed engine at the last gap, or at the end of the recording.
    ended: Option<Box<Engine>>,
    pub(super) now: Now,
}

impl Replay {
    /// Returns the head of the last file.
    pub(super) const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Returns the replayed engine after its last step.
    pub(super) fn last(&self) -> Option<&Engine> {
        let engine = self.engine.as_ref().map(|(engine, ..)| engine);
        engine.or(self.ended.as_ref()).map(|engine| &**engine)
    }

    /// Stops the replay of this engine: at the end of the recording, at a gap, or before a file of another
    /// process.
    fn leave(&mut self) {
        if let Some((engine, ..)) = self.engine.take() {
            self.ended = Some(engine);
        }
    }

    /// Replays the recording up to the time `until`, and calls `watch` with each step.
    pub(super) fn run(
        &mut self,
        recording: &mut Recording,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<()> {
        // Reading takes longer than the replay, so it runs on another core.
        thread::scope(|scope| {
            let (batches, found) = sync_channel(BATCHES);
            scope.spawn(move || read_ahead(recording, &batches));
            for batch in found {
                for found in batch {
                    if self.go_on(found?, until, watch)? {
                        return Ok(());
                    }
                }
            }
            anyhow::Ok(())
        })?;
        if self.outcome.inputs == 0 {
            let why = self.outcome.broken.first().cloned();
            let why =
                why.unwrap_or_else(|| "the recording has no turn, or no turn before --until".to_owned());
            bail!(WithHelp::new(
                format!("cannot replay: {why}"),
                "check the directory and --until; damaged files cannot be replayed"
            ));
        }
        Ok(())
    }

    /// Processes an item. Returns true if the item is later than `until`.
    fn go_on(
        &mut self,
        found: RecordingItem,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<bool> {
        match found {
            RecordingItem::File { is_other, head } => {
                self.head = Some(head);
                if is_other {
                    self.leave();
                }
            }
            RecordingItem::Broken(why) => {
                self.outcome.broken.push(why);
                self.leave();
            }
            RecordingItem::Record(record) => return self.take(record, until, watch),
        }
        Ok(false)
    }

    /// Processes a record. Returns true if the record is later than `until`.
    fn take(
        &mut self,
        record: FlightRecord,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<bool> {
        self.outcome.has_end = false;
        match record {
            FlightRecord::State { now, wall, engine } => {
                self.goes_on(&engine, now)?;
                self.engine = Some((engine, now.mono, wall));
            }
            FlightRecord::Gap { turns } => {
                self.outcome.missing += turns;
                self.leave();
            }
            FlightRecord::End => {
                self.outcome.has_end = true;
                self.leave();
            }
            FlightRecord::Turn {
                now,
                input,
                effects,
                digest,
            } => return self.turn(now, input, (effects, digest), until, watch),
        }
        Ok(false)
    }

    /// Counts a difference if the replayed engine does not have the recorded status.
    fn goes_on(&mut self, recorded: &Engine, now: Now) -> anyhow::Result<()> {
        // Calculated in any case, so that an invalid state is reported here.
        let recorded = status(recorded, now)?;
        if let Some((engine, ..)) = &self.engine
            && status(engine, now)? != recorded
        {
            let what = || "the recorded state differs from the replayed one".to_owned();
            self.outcome.differences += 1;
            self.outcome.first_difference.get_or_insert_with(what);
        }
        Ok(())
    }

    fn turn(
        &mut self,
        now: Now,
        input: Option<Input>,
        recorded: (u32, u64),
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<bool> {
        let Some((engine, since, wall)) = &mut self.engine else {
            self.outcome.skipped += 1;
            return Ok(false);
        };
        let passed = u64::try_from(now.mono.since(*since).as_millis()).unwrap_or(u64::MAX);
        let wall = wall.saturating_add(passed);
        if until.is_some_and(|until| wall > until) {
            return Ok(true);
        }
        let seen = input.clone();
        let words = || describe::input(seen.as_ref());
        let step = catch_unwind(AssertUnwindSafe(|| match input {
            Some(input) => engine.step(now, input),
            None => engine.handle_timeout(now),
        }));
        let number = self.outcome.inputs + 1;
        let effects = step.map_err(|_| {
            WithHelp::new(
                format!("the engine panics at input {number}, {}", format_time(wall)),
                DEFECT,
            )
        })?;
        self.now = now;
        self.outcome.inputs = number;
        self.outcome.effects += effects.len() as u64;
        let made = (
            u32::try_from(effects.len()).unwrap_or(u32::MAX),
            record::digest(&effects, None),
        );
        if made != recorded {
            self.outcome.differences += 1;
            let what = || {
                let (then, after) = (recorded.0, made.0);
                format!(
                    "input {number} at {} ({}) had {then} effects in the recording, and {after} different effects in the replay",
                    format_time(wall),
                    words()
                )
            };
            self.outcome.first_difference.get_or_insert_with(what);
        }
        watch(&Turn {
            wall,
            input: seen.as_ref(),
            effects: &effects,
        });
        Ok(false)
    }
}

/// Help text for an engine that panics on a recording.
const DEFECT: &str = "report the defect with the output of `bundle`, if the recording is unchanged";

/// Returns the status of a recorded engine. Fails if the recorded state is inconsistent despite a valid
/// checksum.
pub(super) fn status(engine: &Engine, now: Now) -> anyhow::Result<Status> {
    let status = catch_unwind(AssertUnwindSafe(|| engine.status(now)));
    status.map_err(|_| WithHelp::new("invalid state in the recording", DEFECT).into())
}

/// Replays a recording and reports differences. The exit code is 1 after a difference.
///
/// # Errors
/// Returns an error if the folder is not a recording, has another format, has several providers, or cannot be
/// replayed.
pub fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut recording = Recording::open(&args.dir)?;
    let mut replay = Replay::default();
    let wanted = args.order.as_ref().map(ReplaySubject::order);
    let wanted = wanted.or_else(|| args.lease.as_ref().map(ReplaySubject::lease));
    match wanted {
        None => replay.run(&mut recording, args.until, &mut |_| ())?,
        Some(mut subject) => {
            let output = args.output;
            let mut count = 0u64;
            let mut watch = |turn: &Turn<'_>| {
                if let Some(effects) = subject.touched(turn) {
                    count += 1;
                    print_turn(turn, &effects, output);
                }
            };
            replay.run(&mut recording, args.until, &mut watch)?;
            if count == 0 {
                bail!(WithHelp::new(
                    format!(
                        "no turn in {} concerns the given order or lease",
                        args.dir.display()
                    ),
                    "check the ID; `replay` without an ID prints all turns"
                ));
            }
        }
    }
    let head = replay
        .head()
        .context("cannot replay the recording: no file has a readable header")?;
    summary(head, &replay.outcome, args.output)?;
    Ok(match replay.outcome.differences {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn print_turn(turn: &Turn<'_>, effects: &[String], output: Output) {
    let (time, input) = (format_time(turn.wall), describe::input(turn.input));
    match output {
        Output::Json => {
            let line = serde_json::json!({"time": time, "input": input, "decided": effects});
            say(&format!("{line}\n"));
        }
        Output::Text => {
            let mut text = format!("{time}  {input}\n");
            for effect in effects {
                text.push_str(&format!("    {effect}\n"));
            }
            say(&text);
        }
    }
}

fn summary(head: &Head, outcome: &ReplayResult, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        let line = serde_json::json!({"recording": head, "replay": outcome});
        say(&(serde_json::to_string(&line)? + "\n"));
        return Ok(());
    }
    say(&text(head, outcome));
    Ok(())
}

pub(super) fn text(head: &Head, outcome: &ReplayResult) -> String {
    let mut text = format!("provider {} on chain {}\n", head.provider, head.chain_id);
    let ours = env!("CARGO_PKG_VERSION");
    if head.version != ours {
        text.push_str(&format!(
            "recorded by version {}, replayed by {ours}: differences may be intended\n",
            head.version
        ));
    }
    for broken in &outcome.broken {
        text.push_str(&format!("incomplete: {broken}\n"));
    }
    if outcome.missing > 0 || outcome.skipped > 0 {
        text.push_str(&format!(
            "not replayed: {} turns that were never written, and {} turns without a preceding state\n",
            outcome.missing, outcome.skipped
        ));
    }
    if !outcome.has_end {
        text.push_str(
            "the recording has no end: the process still runs or was killed, or later files are missing\n",
        );
    }
    text.push_str(&format!(
        "{} inputs, {} effects, ",
        outcome.inputs, outcome.effects
    ));
    match &outcome.first_difference {
        None => text.push_str("all as recorded\n"),
        Some(first) => text.push_str(&format!("{} differ; the first: {first}\n", outcome.differences)),
    }
    text
}
