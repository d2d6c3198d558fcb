//! Flags of the event bus: its Redis servers and their credentials.

use crate::files;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::setting::HaRule;
use akash_provider_redis::Location;
use anyhow::bail;
use clap::Args;
use std::path::{Path, PathBuf};

/// Maximum size of a password or certificate file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Location of the event bus.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bus")]
pub struct BusArgs {
    /// Redis for events: redis://HOST:6379/0 or redis-sentinel://HOST,HOST/MASTER/0; rediss for TLS
    #[arg(long, value_name = "URL", value_parser = location)]
    #[arg(add = HaRule::COORDINATION)]
    pub bus: Option<Location>,
    /// File with the password for --bus
    #[arg(long, value_name = "FILE", requires = "bus")]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_password_file: Option<PathBuf>,
    /// File with the password of the Redis sentinels of --bus
    #[arg(long, value_name = "FILE", requires = "bus")]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_sentinel_password_file: Option<PathBuf>,
    /// CA certificates (PEM) for the Redis of --bus [default: the CA certificates of the system]
    #[arg(long, value_name = "FILE", requires = "bus")]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_ca: Option<PathBuf>,
    /// Client certificate (PEM) for the Redis of --bus
    #[arg(long, value_name = "FILE", requires_all = ["bus", "bus_key"])]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate in --bus-cert
    #[arg(long, value_name = "FILE", requires_all = ["bus", "bus_cert"])]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_key: Option<PathBuf>,
    /// Prefix of all Redis keys, unique per provider [default: {akash-provider}]
    #[arg(long, value_name = "TEXT", requires = "bus", value_parser = prefix)]
    #[arg(add = HaRule::COORDINATION)]
    pub bus_prefix: Option<String>,
}

impl BusArgs {
    /// Returns the Redis location with its credentials, or `None` without `--bus`.
    ///
    /// # Errors
    /// Returns an error if a credential file is unreadable, too large or not UTF-8.
    pub fn location(&self) -> anyhow::Result<Option<Location>> {
        let Some(location) = self.bus.clone() else {
            return Ok(None);
        };
        let files = Files {
            of: "bus",
            password: self.bus_password_file.as_deref(),
            sentinel_password: self.bus_sentinel_password_file.as_deref(),
            authorities: self.bus_ca.as_deref(),
            identity: self.bus_cert.as_deref().zip(self.bus_key.as_deref()),
            prefix: self.bus_prefix.as_deref(),
        };
        files.given_to(location).map(Some)
    }
}

/// Files with the credentials for a Redis server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    /// Common prefix of the flags, such as `bus` for `--bus-ca`.
    pub(super) of: &'static str,
    pub(super) password: Option<&'a Path>,
    pub(super) sentinel_password: Option<&'a Path>,
    pub(super) authorities: Option<&'a Path>,
    /// Certificate and key.
    pub(super) identity: Option<(&'a Path, &'a Path)>,
    pub(super) prefix: Option<&'a str>,
}

impl Files<'_> {
    pub(super) fn given_to(self, mut location: Location) -> anyhow::Result<Location> {
        let flag = |name: &str| format!("--{}-{name}", self.of);
        if let Some(file) = self.password {
            location = location.with_password(line(file, &flag("password-file"))?.into());
        }
        if let Some(file) = self.sentinel_password {
            let password = line(file, &flag("sentinel-password-file"))?;
            location = location.with_sentinel_user(None, Some(password.into()));
        }
        if let Some(file) = self.authorities {
            location = location.with_authorities(bytes(file, &flag("ca"))?);
        }
        if let Some((certificate, key)) = self.identity {
            let key = text(key, &flag("key"))?;
            location = location.with_identity(bytes(certificate, &flag("cert"))?, key.into());
        }
        if let Some(prefix) = self.prefix {
            location = location.with_prefix(prefix);
        }
        Ok(location)
    }
}

fn bytes(file: &Path, flag: &str) -> anyhow::Result<Vec<u8>> {
    let read = files::bytes(file, FILE_MAX);
    read.map_err(|why| {
        anyhow::anyhow!(WithHelp::new(
            format!("{flag}: cannot read {}: {why}", file.display()),
            format!("set {flag} to a file that this user can read")
        ))
    })
}

fn text(file: &Path, flag: &str) -> anyhow::Result<String> {
    let read = String::from_utf8(bytes(file, flag)?);
    read.map_err(|_| {
        anyhow::anyhow!(WithHelp::new(
            format!("{flag}: {} is not valid UTF-8", file.display()),
            "save the file as UTF-8 text"
        ))
    })
}

fn line(file: &Path, flag: &str) -> anyhow::Result<String> {
    let text = text(file, flag)?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        bail!(WithHelp::new(
            format!("{flag}: the first line of {} is empty", file.display()),
            "write the value on the first line of the file"
        ));
    }
    Ok(line.to_owned())
}

pub(super) fn location(text: &str) -> Result<Location, String> {
    text.parse()
        .map_err(|error: akash_provider_redis::InvalidLocation| error.to_string())
}

pub(super) fn prefix(text: &str) -> Result<String, String> {
    const LENGTH_MAX: usize = 128;
    let is_fine = (1..=LENGTH_MAX).contains(&text.len()) && text.chars().all(|sign| sign.is_ascii_graphic());
    match is_fine {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected 1 to {LENGTH_MAX} ASCII characters without spaces"
        )),
    }
}
