//! `keys`: signing keys in keyrings that are compatible with the Go tools.

use crate::args::keys::{AddArgs, KeysArgs, KeysCommand, KeysOutput, ShowArgs};
use crate::chain_json;
use akash_provider_chain::keyring::{
    DEFAULT_PATH, KeyInfo, KeyKind, SecretSource, decrypt_armor, derive_key, generate_mnemonic,
};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::json::Json;
use akash_provider_cli::output::say;
use akash_provider_cli::secrets::{confirm, open_keyring, prompt};
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_service::audit::{audited, this_process};
use anyhow::{Context, bail};
use data_encoding::BASE64;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Maximum size of an exported key file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Runs a `keys` command.
///
/// # Errors
/// Returns the failed operation with its cause and remedy.
pub fn run(args: &KeysArgs, home: &Path) -> anyhow::Result<ExitCode> {
    match &args.command {
        KeysCommand::Add(add) => make(args, add, home)?,
        KeysCommand::List { list_names } => return list(args, *list_names, home),
        KeysCommand::Show(show) => one(args, show, home)?,
        KeysCommand::Import { name, file } => {
            let armor = read(file)?;
            let passphrase = prompt("passphrase of the exported key")?;
            // Decoded before the passphrase of the keyring is prompted for or set.
            let key = decrypt_armor(armor.expose_secret(), &passphrase);
            let key = key.with_context(|| format!("cannot import {}", file.display()))?;
            changed(args, home, ("keys_import", false), name, || {
                Ok(open_keyring(&args.keyring, home)?.add(name, &key)?)
            })?;
        }
        KeysCommand::Export { name } => {
            let passphrase = prompt("passphrase to encrypt the exported key with")?;
            let armor = changed(args, home, ("keys_export", false), name, || {
                Ok(open_keyring(&args.keyring, home)?.export(name, &passphrase)?)
            })?;
            say(&(armor + "\n"));
        }
        KeysCommand::Delete { names, yes } => delete(args, names, *yes, home)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes or exports `key`, and records this act in the audit log. `destroys` is true if the act destroys
/// the key.
fn changed<T>(
    args: &KeysArgs,
    home: &Path,
    (name, destroys): (&'static str, bool),
    key: &str,
    change: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let kind = ActKind::Command { name, destroys };
    let act = Act::new(kind, this_process(), key);
    audited(args.audit.settings(home).as_ref(), act, change)
}

fn make(args: &KeysArgs, add: &AddArgs, home: &Path) -> anyhow::Result<()> {
    let (mnemonic, is_new) = match &add.source {
        Some(file) => (SecretSource::File(file.clone()).read()?, false),
        None if add.recover => (prompt("mnemonic")?, false),
        None => (generate_mnemonic()?, true),
    };
    let path = match &add.hd_path {
        Some(path) => path.clone(),
        None if (add.account, add.index) == (0, 0) => DEFAULT_PATH.to_owned(),
        None => format!("m/44'/118'/{}'/0/{}", add.account, add.index),
    };
    // Without a BIP 39 passphrase, which is the default of the Go tools.
    let key = derive_key(&mnemonic, &"".into(), &path)?;
    let info = if add.dry_run {
        KeyInfo {
            name: add.name.clone(),
            kind: KeyKind::Local,
            address: Some(key.address().clone()),
            public_key: Some(key.public().as_bytes().to_vec()),
        }
    } else {
        changed(args, home, ("keys_add", false), &add.name, || {
            Ok(open_keyring(&args.keyring, home)?.add(&add.name, &key)?)
        })?
    };
    let tell = is_new && !add.no_backup;
    let mut fields = record(&info);
    if tell && args.output == KeysOutput::Json {
        let words = Json::Text(mnemonic.expose_secret().to_owned());
        fields.push(("mnemonic".to_owned(), words));
    }
    print_one(fields, args.output)?;
    // On stderr, so that the mnemonic is not written to a file together with the output.
    if tell && args.output == KeysOutput::Text {
        eprintln!(
            "\nThis mnemonic recovers the key. Store it in a safe place; it \
             is not shown again.\n\n{}",
            mnemonic.expose_secret()
        );
    }
    Ok(())
}

/// Lists the readable keys and reports unreadable key files. If a file is unreadable, returns a failure code.
fn list(args: &KeysArgs, only_names: bool, home: &Path) -> anyhow::Result<ExitCode> {
    let listing = open_keyring(&args.keyring, home)?.list()?;
    if only_names {
        let names: String = listing.keys.iter().map(|key| format!("{}\n", key.name)).collect();
        say(&names);
    } else {
        let records = listing.keys.iter().map(|key| Json::Fields(record(key)));
        let records = Json::List(records.collect());
        match args.output {
            KeysOutput::Json => say(&(serde_json::to_string(&records)? + "\n")),
            KeysOutput::Text if listing.keys.is_empty() => eprintln!("no keys found"),
            KeysOutput::Text => say(&chain_json::yaml(&serde_json::to_value(&records)?)),
        }
    }
    for error in &listing.unreadable {
        eprintln!("error: {error}");
    }
    Ok(if listing.unreadable.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn one(args: &KeysArgs, show: &ShowArgs, home: &Path) -> anyhow::Result<()> {
    let info = open_keyring(&args.keyring, home)?.show(&show.name)?;
    if show.address {
        let address = info.address.as_ref();
        let address = address.with_context(|| {
            format!(
                "key `{}` has no Akash address: it is not a secp256k1 key",
                info.name
            )
        })?;
        say(&format!("{address}\n"));
    } else if show.pubkey {
        say(&format!("{}\n", public_key(&info)));
    } else {
        print_one(record(&info), args.output)?;
    }
    Ok(())
}

fn delete(args: &KeysArgs, names: &[String], is_sure: bool, home: &Path) -> anyhow::Result<()> {
    let keyring = open_keyring(&args.keyring, home)?;
    for name in names {
        // `name` may be an address. The prompt contains the name of the key.
        let name = keyring.show(name)?.name;
        let question = format!("Permanently delete key `{name}`?");
        if !is_sure && !confirm(&question)? {
            bail!(WithHelp::new(
                format!("key `{name}` not deleted: no confirmation"),
                "add --yes to delete the key without a prompt"
            ));
        }
        changed(args, home, ("keys_delete", true), &name, || {
            Ok(keyring.delete(&name)?)
        })?;
        eprintln!("deleted key `{name}`");
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<SecretString> {
    if file != Path::new("-") {
        return Ok(SecretSource::File(file.to_owned()).read()?);
    }
    // Line by line until the end of the key, because the passphrase follows.
    let mut text = String::new();
    for line in std::io::stdin().lines() {
        let line = line.context("cannot read the exported key from standard input")?;
        text.push_str(&line);
        text.push('\n');
        if line.starts_with("-----END ") {
            break;
        }
        if text.len() as u64 > FILE_BYTES_MAX {
            bail!(WithHelp::new(
                format!(
                    "cannot read the exported key from standard input: larger than {FILE_BYTES_MAX} bytes"
                ),
                "pass the output of `keys export`"
            ));
        }
    }
    Ok(SecretString::from(text))
}

/// Prints a key as the Go tools do: in YAML as a list with one item.
fn print_one(fields: KeyRecord, output: KeysOutput) -> anyhow::Result<()> {
    let record = Json::Fields(fields);
    match output {
        KeysOutput::Json => say(&(serde_json::to_string(&record)? + "\n")),
        KeysOutput::Text => say(&chain_json::yaml(&serde_json::to_value(Json::List(vec![
            record,
        ]))?)),
    }
    Ok(())
}

type KeyRecord = Vec<(String, Json)>;

fn record(info: &KeyInfo) -> KeyRecord {
    let address = info.address.as_ref().map(ToString::to_string);
    let fields = [
        ("name", info.name.clone()),
        ("type", info.kind.as_str().to_owned()),
        ("address", address.unwrap_or_default()),
        ("pubkey", public_key(info)),
    ];
    fields
        .map(|(name, text)| (name.to_owned(), Json::Text(text)))
        .into()
}

/// Returns the public key in the JSON form of the chain.
fn public_key(info: &KeyInfo) -> String {
    let Some(bytes) = &info.public_key else {
        return String::new();
    };
    let key = json!({ "@type": "/cosmos.crypto.secp256k1.PubKey", "key": BASE64.encode(bytes) });
    key.to_string()
}
