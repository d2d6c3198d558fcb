//! `migrate`: what changes with a version of the provider, and the file that says what of it was done.
//!
//! The file is today's provider's, `{applied, last_run, provider_version}`. The version in it is theirs and stays as it is:
//! by it they find what they have to do after a way back.

use crate::args::Output;
use crate::args::migrate::{MigrateCommand, MigrateListArgs, MigrateRunArgs};
use crate::cluster_client::client;
use crate::commands::chain::block_on;
use crate::{plain, say};
use akash_provider_chain::regular_file;
use akash_provider_k8s::operators::handover::{OpenedPolicies, open_to_gateway};
use anyhow::{Context, bail};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// The one change there is, as today's provider names it.
const NAME: &str = "ingress-to-httproute-001";
const WORDS: &str = "leases of --ingress-mode ingress are reached by way of a Gateway too; the hostname operator hands \
                     their routes over";
/// Today's version that it came with.
const FROM: &str = "0.10.6";
/// A file above this many bytes is none of these.
const FILE_MAX: u64 = 1 << 20;

/// What of the changes was done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Done {
    #[serde(default)]
    applied: Option<Vec<String>>,
    /// RFC 3339.
    #[serde(default)]
    last_run: Option<String>,
    /// What is unknown here is kept, the version among it.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Done {
    fn has(&self, name: &str) -> bool {
        self.applied.iter().flatten().any(|applied| applied == name)
    }
}

/// Lists what changes, or does it.
///
/// # Errors
/// The file makes no sense, or the cluster cannot be changed.
pub fn run(command: &MigrateCommand, home: &Path) -> anyhow::Result<ExitCode> {
    let path = |given: &Option<PathBuf>| given.clone().unwrap_or_else(|| home.join("migrations.json"));
    match command {
        MigrateCommand::List(args) => list(args, &path(&args.migrations_state_path)),
        MigrateCommand::Run(args) => block_on(migrate(args, &path(&args.migrations_state_path))),
    }
}

fn list(args: &MigrateListArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let done = read(path)?;
    let is_applied = done.has(NAME);
    match args.output {
        Output::Text => {
            let state = if is_applied { "done" } else { "not done" };
            let last = done.last_run.as_deref().unwrap_or("never");
            say(&format!(
                "{NAME}  {state}  {WORDS}\nlast run: {}\n",
                plain::plain(last)
            ));
        }
        Output::Json => {
            let answer = json!({
                "migrations": [{"name": NAME, "description": WORDS, "from_version": FROM, "applied": is_applied}],
                "last_run": done.last_run,
                "provider_version": done.rest.get("provider_version"),
            });
            say(&format!("{answer}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn migrate(args: &MigrateRunArgs, path: &Path) -> anyhow::Result<ExitCode> {
    // Before anything is changed: what was done has to be kept.
    let mut done = read(path)?;
    let client = client(args.kubeconfig.as_deref()).await?;
    let gateway = &args.gateway_namespace;
    let opened = open_to_gateway(&client, &args.k8s_manifest_ns, gateway, args.kube_call_timeout).await;
    let opened = opened.context("the network policies of leases; nothing was changed")?;
    say(&told(&opened, gateway));
    if opened.failed > 0 {
        // Not kept as done: the next run looks at the rest.
        bail!("{} policies could not be opened; run it again", opened.failed);
    }
    if !done.has(NAME) {
        done.applied.get_or_insert_default().push(NAME.to_owned());
    }
    done.last_run = Some(Timestamp::now().to_string());
    write(path, &done).with_context(|| format!("writing {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn told(opened: &OpenedPolicies, gateway: &str) -> String {
    let OpenedPolicies {
        opened: now,
        were_open,
        failed,
        why,
    } = opened;
    let mut text = format!(
        "{NAME}: {now} policies were opened to namespace {gateway}, {were_open} were open, {failed} could not be\n"
    );
    for why in why {
        text.push_str(&format!("  {}\n", plain::plain(why)));
    }
    text.push_str(
        "routes are handed over by `provider-daemon operator hostname --ingress-mode gateway-api`\n",
    );
    text
}

/// What was done; nothing where there is no file yet.
fn read(path: &Path) -> anyhow::Result<Done> {
    let what = || format!("reading {}", path.display());
    let text = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Done::default()),
        Err(error) => return Err(error).with_context(what),
        Ok(meta) if meta.len() > FILE_MAX => {
            bail!("{}: it is no file of migrations: too large", path.display())
        }
        Ok(_) => {
            String::from_utf8(regular_file::read(path, FILE_MAX).with_context(what)?).with_context(what)?
        }
    };
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: it is no file of migrations; move it away to begin with a new one",
            path.display()
        )
    })
}

/// Writes it whole or not at all.
fn write(path: &Path, done: &Done) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut made = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(made.recursive(true), 0o700).create(folder)?;
    let mut kept = done.clone();
    // They read a text there, always.
    kept.applied.get_or_insert_default();
    let fresh = path.with_extension("json-new");
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create(true).truncate(true), 0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(&kept)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_provider_kept_stays_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/migrations.json");
        assert_eq!(read(&path).unwrap(), Done::default());
        let theirs =
            r#"{"applied":["x-000"],"last_run":"2026-01-01T00:00:00Z","provider_version":"0.12.1","new":1}"#;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, theirs).unwrap();
        let mut done = read(&path).unwrap();
        assert!(done.has("x-000") && !done.has(NAME));
        done.applied.as_mut().unwrap().push(NAME.to_owned());
        write(&path, &done).unwrap();
        let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(kept["applied"], json!(["x-000", NAME]));
        assert_eq!(
            (&kept["provider_version"], &kept["new"]),
            (&json!("0.12.1"), &json!(1))
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        // As today's provider writes it where nothing was applied.
        fs::write(&path, r#"{"applied":null,"last_run":"0001-01-01T00:00:00Z"}"#).unwrap();
        assert!(!read(&path).unwrap().has(NAME));
        fs::write(&path, "[").unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("move it away"));
    }
}
