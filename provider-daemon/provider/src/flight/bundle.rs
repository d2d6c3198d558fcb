//! `bundle`: one file with everything needed to analyze a recording.

use super::folder::files;
use super::reader::Recording;
use super::replay::{Replay, status, text, time};
use super::{Head, format_time};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use anyhow::{Context, bail};
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tar::{Builder, Header};

/// List of the data that a recording replaces or omits, for the output of `bundle`.
const TAKEN_OUT: &str = "\
Removed before writing, and replaced by taken-out-<hash>-<length>:
  values of environment variables of services (the names of the variables remain)
  commands and their arguments
  user names, mail addresses and passwords at image registries (the host names remain)
Equal texts have equal hashes. The key of the hashes was in the memory of the process only.
Not removed: accounts, orders, leases, hostnames, images, prices, names of nodes, texts of errors.
Never included: keys of the provider, certificates, tokens and requests of tenants, logs.
";

/// Flags of `bundle`.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// Folder written by `run --record`
    pub dir: PathBuf,
    /// File to write, a .tar.gz; it must not exist
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Omit files of the recording that end before this time, such as 2026-11-23T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<u64>,
    /// Omit recorded files that start after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<u64>,
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// Packs a recording with settings, status and replay result. A time window selects a part of the recording.
///
/// # Errors
/// Returns an error if no part can be replayed, the window is empty, or the file cannot be written.
pub fn bundle(args: &BundleArgs) -> anyhow::Result<ExitCode> {
    let wanted = within(&files(&args.dir)?, args.from, args.until)?;
    if wanted.is_empty() {
        bail!(WithHelp::new(
            format!(
                "no recording between --from and --until in {}",
                args.dir.display()
            ),
            "check --from and --until, which are UTC unless they have an offset"
        ));
    }
    let mut recording = Recording::from_files(wanted.clone());
    let mut replay = Replay::default();
    replay.run(&mut recording, args.until, &mut |_| ())?;
    let head = replay
        .head()
        .context("cannot bundle the recording: no file has a readable header")?;
    let name = args.out.display().to_string();
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&args.out);
    let file = file.with_context(|| format!("cannot create {name}"))?;
    let written = write(file, &wanted, head, &replay).with_context(|| format!("cannot write {name}"));
    if written.is_err() {
        // An incomplete file is useless. If it cannot be removed, the error names it anyway.
        drop(std::fs::remove_file(&args.out));
    }
    written?;
    let count = wanted.len();
    say(&match args.output {
        Output::Text => format!("{name}: {count} files of the recording\n{TAKEN_OUT}"),
        Output::Json => format!("{}\n", json!({ "file": name, "recorded_files": count })),
    });
    Ok(ExitCode::SUCCESS)
}

fn write(file: File, files: &[PathBuf], head: &Head, replay: &Replay) -> anyhow::Result<()> {
    let mut tar = Builder::new(GzEncoder::new(file, Compression::default()));
    add(&mut tar, "taken-out.txt", TAKEN_OUT.as_bytes())?;
    add(&mut tar, "replay.txt", text(head, &replay.outcome).as_bytes())?;
    add(&mut tar, "recording.json", &serde_json::to_vec_pretty(head)?)?;
    if let Some(engine) = replay.last() {
        let status = status(engine, replay.now)?;
        add(
            &mut tar,
            "settings.json",
            &serde_json::to_vec_pretty(engine.config())?,
        )?;
        add(&mut tar, "status.json", &serde_json::to_vec_pretty(&status)?)?;
    }
    for path in files {
        let name = path
            .file_name()
            .with_context(|| format!("{} has no file name", path.display()))?;
        // A file that is still being written: its present contents.
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        add(&mut tar, Path::new("recording").join(name), &bytes)?;
    }
    let file = tar.into_inner()?.finish()?;
    file.sync_all()?;
    Ok(())
}

fn add(tar: &mut Builder<impl Write>, name: impl AsRef<Path>, bytes: &[u8]) -> anyhow::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o600);
    tar.append_data(&mut header, name, bytes)?;
    Ok(())
}

/// Returns the files with entries in the time window. Each file ends at the start time of the next file.
fn within(files: &[PathBuf], from: Option<u64>, until: Option<u64>) -> anyhow::Result<Vec<PathBuf>> {
    if let (Some(from), Some(until)) = (from, until)
        && from > until
    {
        bail!(WithHelp::new(
            format!(
                "--from {} is after --until {}",
                format_time(from),
                format_time(until)
            ),
            "exchange the two times"
        ));
    }
    if from.is_none() && until.is_none() {
        return Ok(files.to_vec());
    }
    let mut begun = Vec::new();
    for path in files {
        begun.push((path, super::reader::start_time(path)?));
    }
    let mut wanted = Vec::new();
    for (at, (path, begin)) in begun.iter().enumerate() {
        // A file ends where the next one starts; without a start, its end is unknown.
        let end = begun.get(at + 1).and_then(|(_, next)| *next);
        let is_late = begin.zip(until).is_some_and(|(begin, until)| begin > until);
        let is_early = end.zip(from).is_some_and(|(end, from)| end < from);
        if !is_late && !is_early {
            wanted.push((*path).clone());
        }
    }
    Ok(wanted)
}
