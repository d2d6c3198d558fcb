//! Faults in the settings of `run`. `config check` reports all of them, and `run` refuses to start with any.

use super::config::{config, invalid_prices};
use crate::acme::AcmeSettings;
use crate::args::RunArgs;
use crate::args::ha::HaStore;
use crate::error::message_text;
use crate::operators::OperatorPlan;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Roots, regular_file};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::{addresses, block_on, given_chain_id, limits, required_chain_id, roots};
use akash_provider_cli::secrets;
use akash_provider_core::types::Address;
use anyhow::{Context, bail, ensure};
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum size of a PEM file, in bytes.
const PEM_BYTES: u64 = 1024 * 1024;

/// Returns an error with all faults, each as a separate `error:` for the reader.
///
/// # Errors
/// Returns an error if the settings have a fault.
pub fn refuse(args: &RunArgs, home: anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    let faults = faults(args, home);
    ensure!(faults.is_empty(), "{}", faults.join("\nerror: "));
    Ok(())
}

/// Returns the reasons why the provider cannot start with these flags and files. A remedy is a separate line
/// `help: …`.
pub fn faults(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Vec<String> {
    let chain_id = given_chain_id(&args.node);
    let named = required_chain_id(&args.node);
    // The account is unknown without its key, but no check depends on the account.
    let account = Address::from_bytes(&[1; 20]).context("invalid built-in account of the checks");
    let checked = account.and_then(|nobody| config(args, nobody, chain_id.unwrap_or("chain")));
    let domain = &args.leases.deployment_ingress_domain;
    let checks = [
        named.map(drop),
        nodes(args),
        args.pricing.strategy(1).map(drop).map_err(invalid_prices),
        secrets::check(&args.signer),
        checked.map(drop),
        args.bus.location().map(drop),
        election(args),
        OperatorPlan::read(&args.kubernetes, &[], domain, None).map(drop),
        kubeconfig(args),
        certificates(args),
        // The storage directory does not affect the check.
        AcmeSettings::from_args(args, Path::new("")).map(drop),
        home.and_then(|home| folder("--home", &home)),
        args.record
            .record
            .as_deref()
            .map_or(Ok(()), |dir| folder("--record", dir)),
        args.audit
            .chosen_directory()
            .map_or(Ok(()), |dir| folder("--audit-log", &dir)),
    ];
    let mut faults = Vec::new();
    for error in checks.into_iter().filter_map(Result::err) {
        let fault = message_text(&error);
        // Two checks may fail for the same reason.
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    faults
}

fn nodes(args: &RunArgs) -> anyhow::Result<()> {
    let nodes = addresses(&args.node)?;
    // The gRPC client requires a runtime.
    block_on(async {
        Endpoints::with_roots(&nodes, "", limits(&args.node), &roots(&args.node))?;
        Ok(())
    })
    .context("--node")?;
    let is_grpc = |node: &String| {
        ["grpc://", "grpcs://"]
            .iter()
            .any(|scheme| node.starts_with(scheme))
    };
    if nodes.iter().all(is_grpc) {
        bail!(WithHelp::new(
            "--node has gRPC addresses only, which report no blocks",
            "add a JSON-RPC address, such as http://HOST:26657"
        ));
    }
    Ok(())
}

fn election(args: &RunArgs) -> anyhow::Result<()> {
    if args.ha.ha == HaStore::Redis {
        args.ha.redis(&args.bus)?;
    }
    Ok(())
}

fn kubeconfig(args: &RunArgs) -> anyhow::Result<()> {
    let Some(path) = &args.kubernetes.kubeconfig else {
        return Ok(());
    };
    Kubeconfig::read_from(path).with_context(|| format!("cannot use --kubeconfig {}", path.display()))?;
    Ok(())
}

fn certificates(args: &RunArgs) -> anyhow::Result<()> {
    if let Roots::File(path) = roots(&args.node) {
        check_certificates("--node-ca", &path)?;
    }
    if let Some(path) = &args.gateway.gateway_tls_cert {
        check_certificates("--gateway-tls-cert", path)?;
    }
    if let Some(path) = &args.gateway.gateway_tls_key {
        let text = read("--gateway-tls-key", path)?;
        let key = PrivateKeyDer::from_pem_slice(&text);
        key.map_err(|error| {
            anyhow::anyhow!(WithHelp::new(
                format!("--gateway-tls-key {}: {error}", path.display()),
                "set --gateway-tls-key to a PEM file with a private key"
            ))
        })?;
    }
    Ok(())
}

/// Checks that `path` is a directory or can be created. Creates nothing.
fn folder(flag: &str, path: &Path) -> anyhow::Result<()> {
    for ancestor in path.ancestors() {
        match fs::metadata(ancestor) {
            Ok(found) => {
                let is_folder = found.is_dir();
                if is_folder {
                    return Ok(());
                }
                bail!(WithHelp::new(
                    format!(
                        "{flag} {}: {} is not a directory",
                        path.display(),
                        ancestor.display()
                    ),
                    format!("set {flag} to a directory")
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{flag} {}", path.display())),
        }
    }
    Ok(())
}

fn check_certificates(flag: &str, path: &Path) -> anyhow::Result<()> {
    let text = read(flag, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => bail!(WithHelp::new(
            format!("{flag} {}: no PEM certificate found", path.display()),
            format!("set {flag} to a PEM file with at least one certificate")
        )),
        Ok(_) => Ok(()),
        Err(error) => bail!(WithHelp::new(
            format!("{flag} {}: {error}", path.display()),
            format!("set {flag} to a PEM file with at least one certificate")
        )),
    }
}

fn read(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    regular_file::read(path, PEM_BYTES).with_context(|| format!("{flag} {}", path.display()))
}
