//! `tx cert`: creates, publishes and revokes the certificate of an account.

use super::TxAccount;
use super::send::send;
use crate::args::TxArgs;
use crate::args::tx::{CertTx, GenerateCert, Role};
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{CertError, CertUsage, KeyFile, KeyFiles, OwnCertificate, check_published};
use akash_provider_chain::convert::to_any;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::{block_on, endpoints_with_chain_id};
use akash_provider_core::audit::{Act, ActKind};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Msg;
use akash_provider_service::audit::{audited, this_process};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

pub(super) fn run(command: &CertTx, args: &TxArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let account = TxAccount::from_args(args, home)?;
    match command {
        CertTx::Generate(what) => generate(what, &account, home),
        CertTx::Publish { role } => block_on(publish(*role, args, &account, home)),
        CertTx::Revoke { role, serial } => block_on(revoke(*role, serial.as_deref(), args, &account, home)),
    }
}

fn generate(what: &GenerateCert, account: &TxAccount, home: &Path) -> anyhow::Result<ExitCode> {
    let (usage, overwrite) = match what {
        GenerateCert::Client { overwrite } => (CertUsage::Client, *overwrite),
        GenerateCert::Server { domains, overwrite } => {
            let domains = domains.clone();
            (CertUsage::Server { domains }, *overwrite)
        }
    };
    let files = KeyFiles::new(home, account.key()?);
    let path = files.path(KeyFile::Current);
    // The file has the only key of a certificate that may be published.
    if !overwrite && path.exists() {
        bail!(WithHelp::new(
            format!("certificate {} exists", path.display()),
            "use --overwrite to replace it"
        ));
    }
    let now = UNIX_EPOCH.elapsed().context("the system clock is before 1970")?;
    let own = OwnCertificate::make(&account.address, &usage, now)?;
    let kind = ActKind::Command {
        name: "certificate_generate",
        destroys: path.exists(),
    };
    let mut act = Act::new(kind, this_process(), subject(account, &own));
    act.evidence.request = Some(format!("write {}", path.display()));
    audited(account.log.as_ref(), act, || {
        Ok(files.write(KeyFile::Current, &own)?)
    })?;
    eprintln!(
        "certificate {} created at {}; publish it with `tx cert publish`",
        own.info().serial,
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn subject(account: &TxAccount, own: &OwnCertificate) -> String {
    format!("{}/{}", account.address, own.info().serial)
}

async fn publish(role: Role, args: &TxArgs, account: &TxAccount, home: &Path) -> anyhow::Result<ExitCode> {
    let own = KeyFiles::new(home, account.key()?).read(KeyFile::Current)?;
    check_role(role, &own)?;
    let (cert, key) = (own.cert_pem(), own.public_key_pem());
    // Checked before a fee is paid for a transaction that the chain rejects.
    check_published(&account.address, cert.as_bytes(), key.as_bytes())?;
    if !args.how.offline {
        let published = on_chain(args, account, &own.info().serial).await?;
        match published.first() {
            Some(found) if found.valid => {
                eprintln!(
                    "certificate {} is already published, no transaction sent",
                    own.info().serial
                );
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => bail!(WithHelp::new(
                format!("certificate {} is revoked on the chain", own.info().serial),
                "create a new certificate with `tx cert generate --overwrite`"
            )),
            None => {}
        }
    }
    let msg = own.publish();
    let act = Act {
        subject: subject(account, &own),
        ..Act::from_msg(&msg, this_process())
    };
    send(args, account, vec![to_any(&msg)], act).await
}

async fn revoke(
    role: Role,
    serial: Option<&str>,
    args: &TxArgs,
    account: &TxAccount,
    home: &Path,
) -> anyhow::Result<ExitCode> {
    let serial = match serial {
        Some(serial) => serial.to_owned(),
        None => {
            let own = KeyFiles::new(home, account.key()?).read(KeyFile::Current)?;
            check_role(role, &own)?;
            own.info().serial.clone()
        }
    };
    if !serial.bytes().all(|b| b.is_ascii_digit()) || serial.is_empty() {
        bail!(WithHelp::new(
            format!("invalid value \"{serial}\" for --serial"),
            "expected decimal digits; `query cert list` lists the serial numbers"
        ));
    }
    if !args.how.offline {
        match on_chain(args, account, &serial).await?.first() {
            None => bail!(WithHelp::new(
                format!(
                    "account {} has no certificate {serial} on the chain",
                    account.address
                ),
                format!(
                    "check --serial and --from; `query cert list --owner {}` lists the certificates",
                    account.address
                )
            )),
            Some(found) if !found.valid => {
                eprintln!("certificate {serial} is already revoked on the chain, no transaction sent");
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => {}
        }
    }
    let owner = account.address.clone();
    let msg = Msg::RevokeCertificate { owner, serial };
    let act = Act::from_msg(&msg, this_process());
    send(args, account, vec![to_any(&msg)], act).await
}

/// Checks the role of a certificate. A server certificate is also valid for a client.
fn check_role(role: Role, own: &OwnCertificate) -> anyhow::Result<()> {
    if role == Role::Server && !own.info().server {
        bail!(WithHelp::new(
            "the certificate in the home directory is a client certificate",
            "create a server certificate with `tx cert generate server DOMAIN`"
        ));
    }
    if !own.info().client && !own.info().server {
        return Err(CertError::Refused("the certificate has no usage".to_owned()).into());
    }
    Ok(())
}

async fn on_chain(
    args: &TxArgs,
    account: &TxAccount,
    serial: &str,
) -> anyhow::Result<Vec<akash_provider_core::chain::Certificate>> {
    let reader = Reader::new(endpoints_with_chain_id(&args.node)?);
    let found = reader.certificates(&account.address, Some(serial)).await;
    found.context("cannot query the certificate on the chain")
}
