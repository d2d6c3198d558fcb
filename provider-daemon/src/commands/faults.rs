//! Faults of the settings of `run`, all at once. `config check` reports them, and `run` refuses to start with one.

use super::chain::{addresses, given_chain_id, roots};
use super::run;
use crate::args::RunArgs;
use crate::args::ha::HaStore;
use crate::operators::Prepared;
use crate::secrets;
use akash_provider_chain::{Roots, regular_file};
use akash_provider_core::types::Address;
use anyhow::{Context, bail, ensure};
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// Longest PEM file that is read.
const PEM_BYTES: u64 = 1024 * 1024;

/// Returns the faults of flags and files that prevent a start.
pub(super) fn of_run(args: &RunArgs) -> Vec<String> {
    let chain_id = given_chain_id(&args.node);
    let named = chain_id.context("--chain-id is missing: say which chain this is for");
    // The account is not known without its key, and nothing here depends on which it is.
    let config = Address::from_bytes(&[1; 20]).context("an account");
    let config = config.and_then(|nobody| run::config(args, nobody, chain_id.unwrap_or("chain")));
    let domain = &args.leases.deployment_ingress_domain;
    let checks = [
        named.map(drop),
        nodes(args),
        args.pricing
            .strategy(1)
            .map(drop)
            .context("the prices, --bid-price-…"),
        secrets::check(&args.signer),
        config.map(drop),
        args.bus.location().map(drop),
        election(args),
        Prepared::read(&args.kubernetes, &[], domain, None).map(drop),
        kubeconfig(args),
        certificates(args),
    ];
    let mut faults = Vec::new();
    for error in checks.into_iter().filter_map(Result::err) {
        let fault = format!("{error:#}");
        // One setting may fail two checks for the same reason.
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    faults
}

fn nodes(args: &RunArgs) -> anyhow::Result<()> {
    let nodes = addresses(&args.node)?;
    let is_grpc = |node: &String| {
        ["grpc://", "grpcs://"]
            .iter()
            .any(|scheme| node.starts_with(scheme))
    };
    ensure!(
        !nodes.iter().all(is_grpc),
        "--node names addresses of gRPC alone, which report no blocks: add one of JSON-RPC, such as http://host:26657"
    );
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
    Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
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
        key.map_err(|error| anyhow::anyhow!("--gateway-tls-key {}: {error}", path.display()))?;
    }
    Ok(())
}

fn check_certificates(flag: &str, path: &Path) -> anyhow::Result<()> {
    let text = read(flag, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => bail!("{flag} {}: no certificate in PEM", path.display()),
        Ok(_) => Ok(()),
        Err(error) => bail!("{flag} {}: {error}", path.display()),
    }
}

fn read(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    regular_file::read(path, PEM_BYTES).with_context(|| format!("{flag} {}", path.display()))
}
