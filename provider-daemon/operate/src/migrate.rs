//! `migrate`: lists and runs migrations between provider versions.
//!
//! The state file has the form of the Go provider, `{applied, last_run, provider_version}`. The field
//! `provider_version` is not changed, because the Go provider uses it after a downgrade to find its pending migrations.

use crate::args::migrate::{MigrateCommand, MigrateListArgs, MigrateRunArgs};
use akash_provider_chain::regular_file;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::Output;
use akash_provider_cli::node::block_on;
use akash_provider_cli::output::say;
use akash_provider_cli::plain;
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_operators::handover::{OpenedPolicies, open_to_gateway};
use akash_provider_service::audit::{AuditSettings, record_intent, record_result, this_process};
use akash_provider_service::cluster_client::client;
use anyhow::{Context, bail};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// Name of the only migration, as in the Go provider.
const NAME: &str = "ingress-to-httproute-001";
const DESCRIPTION: &str = "admits the Gateway to namespaces of leases that were deployed for Ingresses; the hostname operator moves \
                     the routes";
/// Version of the Go provider that introduced the migration.
const FROM: &str = "0.10.6";
/// Maximum size of the migration state file, in bytes.
const FILE_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct MigrationState {
    #[serde(default)]
    applied: Option<Vec<String>>,
    /// Time of the last run of the migrations, in RFC 3339.
    #[serde(default)]
    last_run: Option<String>,
    /// All other fields of the file, which are written back unchanged.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl MigrationState {
    fn has(&self, name: &str) -> bool {
        self.applied.iter().flatten().any(|applied| applied == name)
    }
}

/// Lists or runs the migrations.
///
/// # Errors
/// Returns an error if the state file is invalid, or if the cluster cannot be changed.
pub fn run(command: &MigrateCommand, home: &Path) -> anyhow::Result<ExitCode> {
    let path = |given: &Option<PathBuf>| given.clone().unwrap_or_else(|| home.join("migrations.json"));
    match command {
        MigrateCommand::List(args) => list(args, &path(&args.migrations_state_path)),
        MigrateCommand::Run(args) => {
            let audit = args.audit.settings(home);
            block_on(migrate(args, &path(&args.migrations_state_path), audit.as_ref()))
        }
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
                "{NAME}  {state}  {DESCRIPTION}\nlast run: {}\n",
                plain::plain(last)
            ));
        }
        Output::Json => {
            let answer = json!({
                "migrations": [{"name": NAME, "description": DESCRIPTION, "from_version": FROM, "applied": is_applied}],
                "last_run": done.last_run,
                "provider_version": done.rest.get("provider_version"),
            });
            say(&format!("{answer}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn migrate(
    args: &MigrateRunArgs,
    path: &Path,
    audit: Option<&AuditSettings>,
) -> anyhow::Result<ExitCode> {
    // Read first: an unusable state file prevents the run.
    let done = read(path)?;
    let client = client(args.kubeconfig.as_deref()).await?;
    // The migration weakens the isolation of leases, so its record must be durable before the first change.
    let kind = ActKind::Command {
        name: "migrate_run",
        destroys: true,
    };
    let mut act = Act::new(kind, this_process(), NAME);
    act.evidence.request = Some(format!(
        "admit namespace {} to the leases in namespace {}",
        args.gateway_namespace, args.k8s_manifest_ns
    ));
    let act = record_intent(audit, act).await?;
    let result = open(args, path, &WriteClient::without_election(client), done).await;
    record_result(act.as_ref(), &result);
    result
}

async fn open(
    args: &MigrateRunArgs,
    path: &Path,
    client: &WriteClient,
    mut done: MigrationState,
) -> anyhow::Result<ExitCode> {
    let gateway = &args.gateway_namespace;
    let opened = open_to_gateway(client, &args.k8s_manifest_ns, gateway, args.kube_call_timeout).await;
    let opened = opened.context("nothing was changed: cannot read the network policies of leases")?;
    say(&match args.output {
        Output::Text => summary(&opened, gateway),
        Output::Json => summary_json(&opened),
    });
    if opened.failed > 0 {
        // Not recorded as applied, so that the next run continues.
        bail!(WithHelp::new(
            format!(
                "cannot change {} network policies to admit the Gateway",
                opened.failed
            ),
            "run the command again"
        ));
    }
    if !done.has(NAME) {
        done.applied.get_or_insert_default().push(NAME.to_owned());
    }
    done.last_run = Some(Timestamp::now().to_string());
    write(path, &done).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(opened: &OpenedPolicies, gateway: &str) -> String {
    let OpenedPolicies {
        opened: now,
        were_open,
        failed,
        why,
    } = opened;
    let mut text = format!(
        "{NAME}: {now} network policies changed to admit namespace {gateway}, {were_open} admitted it already, {failed} failed\n"
    );
    for why in why {
        text.push_str(&format!("  {}\n", plain::plain(why)));
    }
    text.push_str("run `provider-daemon operator hostname --ingress-mode gateway-api` to move the routes\n");
    text
}

fn summary_json(opened: &OpenedPolicies) -> String {
    let summary = json!({
        "migration": NAME,
        "changed": opened.opened,
        "unchanged": opened.were_open,
        "failed": opened.failed,
        "reasons": opened.why,
    });
    format!("{summary}\n")
}

/// Reads the state file; a missing file is an empty state.
fn read(path: &Path) -> anyhow::Result<MigrationState> {
    let what = || format!("cannot read {}", path.display());
    let text = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(MigrationState::default()),
        Err(error) => return Err(error).with_context(what),
        Ok(meta) if meta.len() > FILE_MAX => {
            bail!(WithHelp::new(
                format!("cannot read migration file {}: larger than 1 MiB", path.display()),
                "move the file away to start with a new file"
            ))
        }
        Ok(_) => {
            String::from_utf8(regular_file::read(path, FILE_MAX).with_context(what)?).with_context(what)?
        }
    };
    serde_json::from_str(&text).with_context(|| {
        WithHelp::new(
            format!("invalid migration file {}", path.display()),
            "move the file away to start with a new file",
        )
    })
}

/// Writes the state file atomically.
fn write(path: &Path, done: &MigrationState) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut made = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(made.recursive(true), 0o700).create(folder)?;
    let mut state = done.clone();
    // The Go provider requires this field.
    state.applied.get_or_insert_default();
    let fresh = path.with_extension("json-new");
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create(true).truncate(true), 0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(&state)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_service::error::message_text;

    #[test]
    fn preserves_unknown_fields_of_the_migration_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/migrations.json");
        assert_eq!(read(&path).unwrap(), MigrationState::default());
        let theirs =
            r#"{"applied":["x-000"],"last_run":"2026-01-01T00:00:00Z","provider_version":"0.12.1","new":1}"#;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, theirs).unwrap();
        let mut done = read(&path).unwrap();
        assert!(done.has("x-000") && !done.has(NAME));
        done.applied.as_mut().unwrap().push(NAME.to_owned());
        write(&path, &done).unwrap();
        let state: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(state["applied"], json!(["x-000", NAME]));
        assert_eq!(
            (&state["provider_version"], &state["new"]),
            (&json!("0.12.1"), &json!(1))
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        // Form of the Go provider without applied migrations.
        fs::write(&path, r#"{"applied":null,"last_run":"0001-01-01T00:00:00Z"}"#).unwrap();
        assert!(!read(&path).unwrap().has(NAME));
        fs::write(&path, "[").unwrap();
        let text = message_text(&read(&path).unwrap_err());
        assert!(text.contains("\nhelp: move the file away"), "{text}");
    }
}
