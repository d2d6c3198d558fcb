//! Secrets and consent from whoever runs the command: typed at the terminal without being shown, or read from
//! standard input line by line, as scripts give them.

use akash_provider_chain::keyring::{
    Backend, Keyring, KeyringError, SecretSource, decrypt_armor, derive_key,
};
use akash_provider_chain::private_key::PrivateKey;
use anyhow::{Context, bail};
use secrecy::{ExposeSecret, SecretString};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;

use crate::args::environment::variable;
use crate::args::{KeyringArgs, SignerArgs};
use akash_provider_chain::keyring::DEFAULT_PATH;

/// Longest line that is a secret.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// How often a person may mistype.
const ATTEMPTS: u32 = 3;
/// The first line of an exported key.
const ARMOR: &str = "-----BEGIN TENDERMINT PRIVATE KEY-----";

/// A secret: typed, or the next line of standard input.
///
/// # Errors
/// When there is no line, it is too long or not text.
pub fn ask(what: &str) -> anyhow::Result<SecretString> {
    let typed = if std::io::stdin().is_terminal() {
        rpassword::prompt_password(format!("{what}: "))
            .map(SecretString::from)
            .with_context(|| format!("reading the {what} from the terminal"))?
    } else {
        next_line().with_context(|| format!("reading the {what} from standard input"))?
    };
    if typed.expose_secret().is_empty() {
        bail!("the {what} is empty: type it, or give it as a line on standard input");
    }
    Ok(typed)
}

/// A new secret: typed twice, so that a slip does not lock its owner out. A script may give it once.
///
/// # Errors
/// As [`ask`], or when the two are not the same.
pub fn ask_new(what: &str) -> anyhow::Result<SecretString> {
    let first = ask(what)?;
    let again = if std::io::stdin().is_terminal() {
        ask(&format!("{what}, once more"))?
    } else {
        next_line()?
    };
    let (one, two) = (first.expose_secret(), again.expose_secret());
    let was_given_once = two.is_empty() && !std::io::stdin().is_terminal();
    if one != two && !was_given_once {
        bail!("the two are not the same: nothing was kept");
    }
    Ok(first)
}

/// Asks for consent; anything but yes is no. `false` too when nobody is there to ask.
///
/// # Errors
/// When standard input cannot be read.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stderr().lock();
    write!(out, "{question} [y/N]: ")
        .and_then(|()| out.flush())
        .context("asking on stderr")?;
    let answer = next_line().context("reading the answer from standard input")?;
    let answer = answer.expose_secret().trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

fn next_line() -> anyhow::Result<SecretString> {
    let mut line = String::new();
    // One byte more than may be, so that a line that is too long is refused and not cut.
    let read = std::io::stdin()
        .lock()
        .take(LINE_BYTES_MAX + 1)
        .read_line(&mut line)?;
    if read as u64 > LINE_BYTES_MAX {
        bail!("a line is longer than {LINE_BYTES_MAX} bytes");
    }
    let text = line.strip_suffix('\n').unwrap_or(&line);
    Ok(SecretString::from(text.strip_suffix('\r').unwrap_or(text)))
}

/// Opens the keyring; asks for its passphrase where nothing else gives it.
///
/// # Errors
/// What is wrong with backend, folder or passphrase.
pub fn open_keyring(args: &KeyringArgs, home: &Path) -> anyhow::Result<Keyring> {
    let backend: Backend = args.keyring_backend.parse()?;
    let folder = args.keyring_dir.as_deref().unwrap_or(home);
    if backend == Backend::Test {
        return Ok(Keyring::open(backend, folder, None)?);
    }
    if let Some(given) = given_passphrase(args)? {
        return Ok(Keyring::open(backend, folder, Some(&given))?);
    }
    if Keyring::is_without_passphrase(backend, folder)? {
        let new = ask_new("new passphrase of the keyring")?;
        return Ok(Keyring::open(backend, folder, Some(&new))?);
    }
    let mut attempt = 1;
    loop {
        let typed = ask("passphrase of the keyring")?;
        match Keyring::open(backend, folder, Some(&typed)) {
            // Only a person is asked again: the next line of a script is something else.
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

fn given_passphrase(args: &KeyringArgs) -> anyhow::Result<Option<SecretString>> {
    if let Some(path) = &args.keyring_passphrase_file {
        return Ok(Some(SecretSource::File(path.clone()).read()?));
    }
    of_environment("keyring-passphrase")
}

/// A secret of the environment; the variable is named like a flag, but there is none: the command line of a
/// process can be seen by others.
fn of_environment(name: &str) -> anyhow::Result<Option<SecretString>> {
    let Some(variable) = variable(name, |name| std::env::var(name).ok()) else {
        return Ok(None);
    };
    Ok(Some(SecretSource::Variable(variable).read()?))
}

/// Checks the settings of the signing key that need no passphrase.
///
/// # Errors
/// As [`signer`].
pub fn check(args: &SignerArgs) -> anyhow::Result<()> {
    args.keyring.keyring_backend.parse::<Backend>()?;
    if let Some(path) = &args.key_file {
        SecretSource::File(path.clone()).read()?;
    } else if of_environment("key-mnemonic")?.is_none() {
        from(args)?;
    }
    Ok(())
}

fn from(args: &SignerArgs) -> anyhow::Result<&str> {
    let from = args.from.as_deref().filter(|from| !from.is_empty());
    from.context("which key signs? name it with --from (`keys list` shows them)")
}

/// The key that signs.
///
/// # Errors
/// When it is not said which, or it cannot be had; the text names the place and the mend.
pub fn signer(args: &SignerArgs, home: &Path) -> anyhow::Result<PrivateKey> {
    let Some(key) = secret_key(args)? else {
        let from = from(args)?;
        return Ok(open_keyring(&args.keyring, home)?.private_key(from)?);
    };
    // A name says nothing about a key that is in no keyring; an address does.
    if let Some(from) = args.from.as_deref().filter(|from| from.starts_with("akash1"))
        && from != key.address().as_str()
    {
        bail!(
            "--from {from} is not the key that was given: that is {}",
            key.address()
        );
    }
    Ok(key)
}

/// A key that is given without a keyring.
fn secret_key(args: &SignerArgs) -> anyhow::Result<Option<PrivateKey>> {
    let Some(path) = &args.key_file else {
        let mnemonic = of_environment("key-mnemonic")?;
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
        None => ask("passphrase of the exported key")?,
    };
    Ok(Some(
        decrypt_armor(text.expose_secret(), &passphrase).with_context(place)?,
    ))
}
