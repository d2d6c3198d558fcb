//! `replay`: a fresh engine takes what was recorded, and its effects are compared with those of then.

mod subject;

use super::reader::{Found, Recording};
use super::{Head, Record, shown_time, words};
use crate::args::Output;
use crate::say;
use akash_provider_core::engine::{Effect, Engine, Input, Status};
use akash_provider_core::record;
use akash_provider_core::types::{LeaseId, Mono, Now, OrderId};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::UNIX_EPOCH;
use subject::Subject;

/// Settings of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The folder that `run --record` wrote, or that was unpacked from a bundle.
    pub dir: PathBuf,
    /// Tell all that was heard and decided of this order: OWNER/DSEQ/GSEQ/OSEQ.
    #[arg(long, conflicts_with = "lease")]
    pub order: Option<OrderId>,
    /// The same of a lease: OWNER/DSEQ/GSEQ/OSEQ/PROVIDER.
    #[arg(long)]
    pub lease: Option<LeaseId>,
    /// Stop at this time, such as 2026-11-23T18:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<u64>,
    /// How to print what was decided.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Found together, and batches that wait to be replayed: some thousand turns, each of a few hundred bytes.
const BATCH: usize = 256;
const BATCHES: usize = 8;

type Batch = Vec<anyhow::Result<Found>>;

/// Reads to the end, to the first error, or until nobody takes it any more.
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

/// In milliseconds of the clock on the wall.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_rfc3339_weak(text);
    let time = time.map_err(|error| format!("{error}; write 2026-11-23T18:00:00Z"))?;
    let since = time
        .duration_since(UNIX_EPOCH)
        .map_err(|_| "it is before 1970".to_owned())?;
    u64::try_from(since.as_millis()).map_err(|error| error.to_string())
}

/// What came of a replay.
#[derive(Debug, Default, Serialize)]
pub(super) struct Outcome {
    /// Inputs and deadlines that were taken again.
    pub(super) inputs: u64,
    /// What came of them.
    pub(super) effects: u64,
    /// Turns whose effects were others than those recorded.
    pub(super) differences: u64,
    pub(super) first_difference: Option<String>,
    /// Turns that were never written, and those that nothing is there to take them.
    pub(super) missing: u64,
    pub(super) skipped: u64,
    /// What could not be read, and why.
    pub(super) broken: Vec<String>,
    /// The process ended in order.
    pub(super) has_end: bool,
}

/// One turn that was taken again.
pub(super) struct Turn<'a> {
    pub(super) wall: u64,
    pub(super) input: Option<&'a Input>,
    pub(super) effects: &'a [Effect],
}

/// An engine that takes what is recorded.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) outcome: Outcome,
    head: Option<Head>,
    /// With its clock at the moment of its state, and the one on the wall.
    engine: Option<(Box<Engine>, Mono, u64)>,
    /// The engine that nothing follows after.
    ended: Option<Box<Engine>>,
    pub(super) now: Now,
}

impl Replay {
    /// Whose the file is that was replayed last: of a process before it, it may be of another version.
    pub(super) const fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The engine after the last turn that it took.
    pub(super) fn last(&self) -> Option<&Engine> {
        let engine = self.engine.as_ref().map(|(engine, ..)| engine);
        engine.or(self.ended.as_ref()).map(|engine| &**engine)
    }

    /// What follows is not from where it is.
    fn leave(&mut self) {
        if let Some((engine, ..)) = self.engine.take() {
            self.ended = Some(engine);
        }
    }

    /// Takes everything up to a time; `watch` sees each turn.
    pub(super) fn run(
        &mut self,
        recording: &mut Recording,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<()> {
        // Reading takes longer than deciding, and each has a core of its own.
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
                why.unwrap_or_else(|| "no turn of the engine is in it, or none before that time".to_owned());
            bail!("nothing can be replayed: {why}");
        }
        Ok(())
    }

    /// True once the time is over.
    fn go_on(
        &mut self,
        found: Found,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<bool> {
        match found {
            Found::File { is_other, head } => {
                self.head = Some(head);
                if is_other {
                    self.leave();
                }
            }
            Found::Broken(why) => {
                self.outcome.broken.push(why);
                self.leave();
            }
            Found::Record(record) => return self.take(record, until, watch),
        }
        Ok(false)
    }

    /// The same of a record.
    fn take(
        &mut self,
        record: Record,
        until: Option<u64>,
        watch: &mut dyn FnMut(&Turn<'_>),
    ) -> anyhow::Result<bool> {
        self.outcome.has_end = false;
        match record {
            Record::State { now, wall, engine } => {
                self.goes_on(&engine, now)?;
                self.engine = Some((engine, now.mono, wall));
            }
            Record::Gap { turns } => {
                self.outcome.missing += turns;
                self.leave();
            }
            Record::End => {
                self.outcome.has_end = true;
                self.leave();
            }
            Record::Turn {
                now,
                input,
                effects,
                digest,
            } => return self.turn(now, input, (effects, digest), until, watch),
        }
        Ok(false)
    }

    /// The state that was recorded is the one that was come to.
    fn goes_on(&mut self, recorded: &Engine, now: Now) -> anyhow::Result<()> {
        // Looked at in any case, so that one that makes no sense is named here.
        let recorded = status(recorded, now)?;
        if let Some((engine, ..)) = &self.engine
            && status(engine, now)? != recorded
        {
            let what = || "the state that was recorded is another than the one that was come to".to_owned();
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
        let words = || words::input(seen.as_ref());
        let step = catch_unwind(AssertUnwindSafe(|| match input {
            Some(input) => engine.step(now, input),
            None => engine.handle_timeout(now),
        }));
        let number = self.outcome.inputs + 1;
        let effects =
            step.map_err(|_| anyhow!("the engine itself fails at input {number}, {}", shown_time(wall)))?;
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
                    "input {number} at {} ({}) had {then} effects, and other ones now: {after}",
                    shown_time(wall),
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

/// The status of an engine from a file. A checksum says nothing of who wrote it, so it may make no sense at all.
pub(super) fn status(engine: &Engine, now: Now) -> anyhow::Result<Status> {
    let status = catch_unwind(AssertUnwindSafe(|| engine.status(now)));
    status.map_err(|_| anyhow!("a state in the recording makes no sense"))
}

/// Replays a recording and says whether it comes out the same; exit code 1 where it does not.
///
/// # Errors
/// It is no recording, one of another format, of several providers, or nothing of it can be replayed.
pub fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut recording = Recording::open(&args.dir)?;
    let mut replay = Replay::default();
    let wanted = args.order.as_ref().map(Subject::order);
    let wanted = wanted.or_else(|| args.lease.as_ref().map(Subject::lease));
    match wanted {
        None => replay.run(&mut recording, args.until, &mut |_| ())?,
        Some(mut subject) => {
            let output = args.output;
            let mut told = 0u64;
            let mut watch = |turn: &Turn<'_>| {
                if let Some(effects) = subject.touched(turn) {
                    told += 1;
                    tell(turn, &effects, output);
                }
            };
            replay.run(&mut recording, args.until, &mut watch)?;
            if told == 0 {
                bail!("nothing in {} is about it", args.dir.display());
            }
        }
    }
    let head = replay.head().context("the recording has no head")?;
    summary(head, &replay.outcome, args.output)?;
    Ok(match replay.outcome.differences {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn tell(turn: &Turn<'_>, effects: &[String], output: Output) {
    let (time, input) = (shown_time(turn.wall), words::input(turn.input));
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

fn summary(head: &Head, outcome: &Outcome, output: Output) -> anyhow::Result<()> {
    if output == Output::Json {
        let line = serde_json::json!({"recording": head, "replay": outcome});
        say(&(serde_json::to_string(&line)? + "\n"));
        return Ok(());
    }
    say(&text(head, outcome));
    Ok(())
}

/// What came of it, for people.
pub(super) fn text(head: &Head, outcome: &Outcome) -> String {
    let mut text = format!("provider {} on chain {}\n", head.provider, head.chain_id);
    let ours = env!("CARGO_PKG_VERSION");
    if head.version != ours {
        text.push_str(&format!(
            "recorded by version {}, and this is {ours}: what differs may be meant\n",
            head.version
        ));
    }
    for broken in &outcome.broken {
        text.push_str(&format!("not read to its end: {broken}\n"));
    }
    if outcome.missing > 0 || outcome.skipped > 0 {
        text.push_str(&format!(
            "{} turns were never written, and {} after a gap wait for a state: they are not replayed\n",
            outcome.missing, outcome.skipped
        ));
    }
    if !outcome.has_end {
        text.push_str("it has no end: the process still runs, was killed, or what comes later is not here\n");
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
