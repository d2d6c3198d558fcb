//! Secrets and confirmations of the user: typed at the terminal without echo, or read line by line from standard input.

use crate::error::WithHelp;
use akash_provider_chain::keyring::{
    Keyring, KeyringBackend, KeyringError, SecretSource, decrypt_armor, derive_key,
};
use akash_provider_chain::private_key::PrivateKey;
use anyhow::{Context, bail};
use secrecy::{ExposeSecret, SecretString};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;

use crate::environment::variable;
use crate::flags::{KeyringArgs, SignerArgs};
use akash_provider_chain::keyring::DEFAULT_PATH;

/// Maximum length of a secret, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum number of attempts to type a secret.
const ATTEMPTS: u32 = 3;
/// First line of an exported key.
const ARMOR: &str = "-----BEGIN TENDERMINT PRIVATE KEY-----";

/// Reads a secret from the terminal, or the next line of standard input.
///
/// # Errors
/// Returns an error if the line is missing, too long or not UTF-8.
pub fn prompt(what: &str) -> anyhow::Result<SecretString> {
    let typed = if std::io::stdin().is_terminal() {
        rpassword::prompt_password(format!("{what}: "))
            .map(SecretString::from)
            .with_context(|| format!("cannot read the {what} from the terminal"))?
    } else {
        next_line().with_context(|| format!("cannot read the {what} from standard input"))?
    };
    if typed.expose_secret().is_empty() {
        bail!(WithHelp::new(
            format!("the {what} is empty"),
            "enter a value, or pass it on standard input"
        ));
    }
    Ok(typed)
}

/// Prompts for a new secret; twice at a terminal, to detect typing errors.
///
/// # Errors
/// Returns an error if [`prompt`] fails, or if the two inputs differ.
pub fn prompt_new(what: &str) -> anyhow::Result<SecretString> {
    let first = prompt(what)?;
    let again = if std::io::stdin().is_terminal() {
        prompt(&format!("{what} again"))?
    } else {
        next_line()?
    };
    let (one, two) = (first.expose_secret(), again.expose_secret());
    let was_given_once = two.is_empty() && !std::io::stdin().is_terminal();
    if one != two && !was_given_once {
        bail!(WithHelp::new(
            format!("the two inputs for the {what} differ; nothing was stored"),
            "run the command again"
        ));
    }
    Ok(first)
}

/// Prompts for a confirmation. Only `yes` and `y` confirm; a missing input is a refusal.
///
/// # Errors
/// Returns an error if standard input cannot be read.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stderr().lock();
    write!(out, "{question} [y/N]: ")
        .and_then(|()| out.flush())
        .context("cannot write to stderr")?;
    let answer = next_line().context("cannot read the confirmation from standard input")?;
    let answer = answer.expose_secret().trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

fn next_line() -> anyhow::Result<SecretString> {
    let mut line = String::new();
    // One byte more than the limit, so that a longer line is rejected instead of cut.
    let read = std::io::stdin()
        .lock()
        .take(LINE_BYTES_MAX + 1)
        .read_line(&mut line)?;
    if read as u64 > LINE_BYTES_MAX {
        bail!(WithHelp::new(
            format!("the line of standard input is longer than {LINE_BYTES_MAX} bytes"),
            "pass a single secret on one line"
        ));
    }
    let text = line.strip_suffix('\n').unwrap_or(&line);
    Ok(SecretString::from(text.strip_suffix('\r').unwrap_or(text)))
}

/// Opens the keyring, and prompts for the passphrase unless it is configured.
///
/// # Errors
/// Returns an error if the backend, the directory or the passphrase is invalid.
pub fn open_keyring(args: &KeyringArgs, home: &Path) -> anyhow::Result<Keyring> {
    let backend: KeyringBackend = args.keyring_backend.parse()?;
    let folder = args.keyring_dir.as_deref().unwrap_or(home);
    if backend == KeyringBackend::Test {
        return Ok(Keyring::open(backend, folder, None)?);
    }
    if let Some(given) = configured_passphrase(args)? {
        return Ok(Keyring::open(backend, folder, Some(&given))?);
    }
    if Keyring::is_without_passphrase(backend, folder)? {
        let new = prompt_new("new passphrase of the keyring")?;
        return Ok(Keyring::open(backend, folder, Some(&new))?);
    }
    let mut attempt = 1;
    loop {
        let typed = prompt("passphrase of the keyring")?;
        match Keyring::open(backend, folder, Some(&typed)) {
            // Only at a terminal: the next line of a script is not a passphrase.
            Err(error @ KeyringError::WrongPassphrase { .. })
                if attempt < ATTEMPTS && std::io::stdin().is_terminal() =>
            {
                eprintln!("{error}; try again");
                attempt += 1;
            }
            opened => return Ok(opened?),
        }
    }
}

fn configured_passphrase(args: &KeyringArgs) -> anyhow::Result<Option<SecretString>> {
    if let Some(path) = &args.keyring_passphrase_file {
        return Ok(Some(SecretSource::File(path.clone()).read()?));
    }
    from_environment("keyring-passphrase")
}

/// Returns the secret in the environment variable of the setting `name`; `None` if not set. Secrets have no
/// flags, because other users can see command lines.
fn from_environment(name: &str) -> anyhow::Result<Option<SecretString>> {
    let Some(variable) = variable(name, |name| std::env::var(name).ok()) else {
        return Ok(None);
    };
    Ok(Some(SecretSource::Variable(variable).read()?))
}

/// Checks the settings of the signing key. Does not check the passphrase.
///
/// # Errors
/// Returns an error if the backend is invalid, if no key is selected, or if the key file or the mnemonic is
/// invalid.
pub fn check(args: &SignerArgs) -> anyhow::Result<()> {
    args.keyring.keyring_backend.parse::<KeyringBackend>()?;
    if let Some(path) = &args.key_file {
        SecretSource::File(path.clone()).read()?;
    } else if from_environment("key-mnemonic")?.is_none() {
        from(args)?;
    }
    Ok(())
}

/// Returns whether the signing key is in a keyring.
///
/// # Errors
/// Returns an error if the environment variable with the mnemonic cannot be read.
pub fn uses_keyring(args: &SignerArgs) -> anyhow::Result<bool> {
    Ok(args.key_file.is_none() && from_environment("key-mnemonic")?.is_none())
}

fn from(args: &SignerArgs) -> anyhow::Result<&str> {
    let from = args.from.as_deref().filter(|from| !from.is_empty());
    from.with_context(|| {
        WithHelp::new(
            "missing --from",
            "add the name of a key; `keys list` lists the keys",
        )
    })
}

/// Returns the signing key.
///
/// # Errors
/// Returns an error if no key is selected or available. The error states the location of the key and a
/// remedy.
pub fn signer(args: &SignerArgs, home: &Path) -> anyhow::Result<PrivateKey> {
    let Some(key) = secret_key(args)? else {
        let from = from(args)?;
        return Ok(open_keyring(&args.keyring, home)?.private_key(from)?);
    };
    // A name does not identify a key outside of the keyring, but an address does.
    if let Some(from) = args.from.as_deref().filter(|from| from.starts_with("akash1"))
        && from != key.address().as_str()
    {
        bail!(WithHelp::new(
            format!(
                "--from {from} differs from account {} of the key in --key-file or AP_KEY_MNEMONIC",
                key.address()
            ),
            "remove --from, or set the key of that account"
        ));
    }
    Ok(key)
}

/// Returns the key from `--key-file` or the environment variable; `None` if the key is in a keyring.
fn secret_key(args: &SignerArgs) -> anyhow::Result<Option<PrivateKey>> {
    let Some(path) = &args.key_file else {
        let mnemonic = from_environment("key-mnemonic")?;
        return mnemonic
            .map(|m| Ok(derive_key(&m, &"".into(), DEFAULT_PATH)?))
            .transpose();
    };
    let text = SecretSource::File(path.clone()).read()?;
    let place = || format!("key file {}", path.display());
    if !text.expose_secret().contains(ARMOR) {
        let key = derive_key(&text, &"".into(), DEFAULT_PATH).with_context(place)?;
        return Ok(Some(key));
    }
    let passphrase = match &args.key_passphrase_file {
        Some(path) => SecretSource::File(path.clone()).read()?,
        None => prompt("passphrase of the exported key")?,
    };
    Ok(Some(
        decrypt_armor(text.expose_secret(), &passphrase).with_context(place)?,
    ))
}
