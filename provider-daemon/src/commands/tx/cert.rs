//! `tx cert`: the account's certificate, made, published, revoked.

use super::Author;
use super::send::send;
use crate::args::TxArgs;
use crate::args::tx::{CertTx, GenerateCert, Role};
use crate::commands::chain::{block_on, named};
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{CertError, KeyFile, KeyFiles, OwnCertificate, Usage, check_published};
use akash_provider_chain::convert::to_any;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Msg;
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

pub(super) fn run(command: &CertTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let author = Author::of(args, home)?;
    match command {
        CertTx::Generate(what) => generate(what, &author, home),
        CertTx::Publish { role } => block_on(publish(*role, args, &author, home)),
        CertTx::Revoke { role, serial } => block_on(revoke(*role, serial.as_deref(), args, &author, home)),
    }
}

fn generate(what: &GenerateCert, author: &Author, home: &Path) -> anyhow::Result<ExitCode> {
    let (usage, overwrite) = match what {
        GenerateCert::Client { overwrite } => (Usage::Client, *overwrite),
        GenerateCert::Server { domains, overwrite } => {
            let domains = domains.clone();
            (Usage::Server { domains }, *overwrite)
        }
    };
    let files = KeyFiles::new(home, author.key()?);
    let path = files.path(KeyFile::Current);
    // The file holds the only key of a certificate that may be published already.
    if !overwrite && path.exists() {
        bail!(
            "there is a certificate at {} already; --overwrite replaces it",
            path.display()
        );
    }
    let now = UNIX_EPOCH.elapsed().context("the clock is before 1970")?;
    let own = OwnCertificate::make(&author.address, &usage, now)?;
    files.write(KeyFile::Current, &own)?;
    eprintln!(
        "certificate {} is at {}; publish it with `tx cert publish`",
        own.info().serial,
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

async fn publish(role: Role, args: &TxArgs, author: &Author, home: &Path) -> anyhow::Result<ExitCode> {
    let own = KeyFiles::new(home, author.key()?).read(KeyFile::Current)?;
    check_role(role, &own)?;
    let (cert, key) = (own.cert_pem(), own.public_key_pem());
    // What the chain would refuse is refused here, before a fee is paid for it.
    check_published(&author.address, cert.as_bytes(), key.as_bytes())?;
    if !args.how.offline {
        let known = on_chain(args, author, &own.info().serial).await?;
        match known.first() {
            Some(found) if found.valid => {
                eprintln!("certificate {} is published already", own.info().serial);
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => bail!(
                "certificate {} is revoked, for good; make another one with `tx cert generate --overwrite`",
                own.info().serial
            ),
            None => {}
        }
    }
    send(args, author, vec![to_any(&own.publish())]).await
}

async fn revoke(
    role: Role,
    serial: Option<&str>,
    args: &TxArgs,
    author: &Author,
    home: &Path,
) -> anyhow::Result<ExitCode> {
    let serial = match serial {
        Some(serial) => serial.to_owned(),
        None => {
            let own = KeyFiles::new(home, author.key()?).read(KeyFile::Current)?;
            check_role(role, &own)?;
            own.info().serial.clone()
        }
    };
    if !serial.bytes().all(|b| b.is_ascii_digit()) || serial.is_empty() {
        bail!("--serial {serial} is no serial: it has decimal digits alone");
    }
    if !args.how.offline {
        match on_chain(args, author, &serial).await?.first() {
            None => bail!("{} has no certificate {serial} on the chain", author.address),
            Some(found) if !found.valid => {
                eprintln!("certificate {serial} is revoked already");
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => {}
        }
    }
    let owner = author.address.clone();
    send(
        args,
        author,
        vec![to_any(&Msg::RevokeCertificate { owner, serial })],
    )
    .await
}

/// A server's certificate does for a client too, not the other way round.
fn check_role(role: Role, own: &OwnCertificate) -> anyhow::Result<()> {
    if role == Role::Server && !own.info().server {
        bail!(
            "the certificate in the home folder is a client's; make one with `tx cert generate server DOMAIN`"
        );
    }
    if !own.info().client && !own.info().server {
        return Err(CertError::Refused("it is for no use at all".to_owned()).into());
    }
    Ok(())
}

async fn on_chain(
    args: &TxArgs,
    author: &Author,
    serial: &str,
) -> anyhow::Result<Vec<akash_provider_core::chain::Certificate>> {
    let reader = Reader::new(named(&args.node)?);
    let found = reader.certificates(&author.address, Some(serial)).await;
    found.context("asking for the certificate on the chain")
}
