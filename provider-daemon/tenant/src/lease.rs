//! Selection of leases, and the addresses of their providers.

use super::auth::TenantCredentials;
use super::client::Client;
use crate::args::{AccessArgs, LeaseArgs};
use akash_provider_chain::Reader;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::endpoints;
use akash_provider_cli::secrets;
use akash_provider_core::chain::{ChainQuery, LeaseFilter, PageRequest};
use akash_provider_core::types::{Address, DeploymentId, LeaseId, LeaseRecord};
use anyhow::{Context, bail};
use data_encoding::HEXLOWER;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of leases of one deployment, which has at most 20 groups.
const LEASES_MAX: usize = 1000;

/// Tenant, with a chain reader and credentials for providers.
#[derive(Debug)]
pub(super) struct TenantClient {
    owner: Address,
    credentials: TenantCredentials,
    /// Reader of the chain; `None` with `--offline`.
    chain: Option<Reader>,
    provider_url: Option<String>,
}

impl TenantClient {
    /// Creates the tenant with the key that `--from` selects.
    ///
    /// # Errors
    /// Returns an error if the key, the certificate or a node is unavailable, or if flags contradict each other.
    pub(super) async fn from_args(args: &AccessArgs, home: &Path) -> anyhow::Result<Self> {
        if args.offline && args.provider_url.is_none() {
            bail!(offline_without_url());
        }
        let key: PrivateKey = secrets::signer(&args.signer, home)?;
        let owner = key.address().clone();
        if let Some(other) = args.owner.as_ref().filter(|other| **other != owner) {
            bail!(WithHelp::new(
                format!(
                    "--owner {other} differs from the account of the key, {owner}: only the tenant of a lease has access"
                ),
                "remove --owner, or select the key of that account with --from"
            ));
        }
        let chain = match args.offline {
            true => None,
            false => Some(Reader::new(endpoints(&args.node).await?)),
        };
        let credentials =
            TenantCredentials::for_account(args.auth_type, &Arc::new(key), home, chain.as_ref()).await?;
        Ok(Self {
            owner,
            credentials,
            chain,
            provider_url: args.provider_url.clone(),
        })
    }

    /// Returns the deployment's lease at `provider`. `--gseq` and `--oseq` are 1 by default.
    ///
    /// # Errors
    /// Same as [`leases`](Self::leases).
    pub(super) async fn lease(&self, which: &LeaseArgs, provider: &Address) -> anyhow::Result<LeaseId> {
        let one = LeaseArgs {
            gseq: Some(which.gseq.unwrap_or(1)),
            oseq: Some(which.oseq.unwrap_or(1)),
            provider: Some(provider.clone()),
            ..which.clone()
        };
        let leases = self.leases(&one).await?;
        leases
            .into_iter()
            .next()
            .with_context(|| WithHelp::new("lease not found", "check --dseq, --gseq, --oseq and --provider"))
    }

    /// Returns all matching active leases. With `--provider` and `--provider-url`, returns one lease without
    /// a chain query.
    ///
    /// # Errors
    /// Returns an error if no lease matches, or if the chain query fails.
    pub(super) async fn leases(&self, which: &LeaseArgs) -> anyhow::Result<Vec<LeaseId>> {
        let deployment = DeploymentId::new(self.owner.clone(), which.dseq);
        let chain = match (&self.provider_url, &which.provider, &self.chain) {
            // A complete ID needs no query, which makes `--offline` possible.
            (Some(_), Some(provider), _) => return Ok(vec![lease_id(deployment, which, provider)]),
            (_, _, Some(chain)) => chain,
            (_, _, None) => bail!(WithHelp::new(
                "--offline requires --provider",
                "add --provider with the address of the provider"
            )),
        };
        // Closed leases are queried too, to explain why no active lease matches.
        let mut records = all(chain, &deployment).await?;
        let is_meant = |id: &LeaseId| {
            let is = |given: Option<u32>, has: u32| given.is_none_or(|given| given == has);
            let provider = which.provider.as_ref();
            is(which.gseq, id.order.group.gseq)
                && is(which.oseq, id.order.oseq)
                && provider.is_none_or(|given| *given == id.provider)
        };
        records.retain(|record| is_meant(&record.lease.id));
        let live = records.iter().filter(|record| record.lease.state.is_live());
        let mut leases: Vec<LeaseId> = live.map(|record| record.lease.id.clone()).collect();
        // Sorted, so that the output does not depend on the node.
        leases.sort();
        if leases.is_empty() {
            bail!(not_found(&deployment, &records));
        }
        Ok(leases)
    }

    /// Returns why the lease is closed; `None` if the lease is active or its state is unknown.
    pub(super) async fn is_over(&self, lease: &LeaseId) -> Option<String> {
        match self.chain.as_ref()?.lease(lease).await {
            // A missing record is not evidence: a node may lag behind.
            Ok(found) => {
                let state = found.value?.lease.state;
                (!state.is_live()).then(|| format!("lease {lease} is closed ({state:?})"))
            }
            Err(error) => {
                tracing::debug!(%lease, %error, "cannot query lease");
                None
            }
        }
    }

    /// Returns the manifest version that the chain stores for a deployment, in lower-case hex. Returns `None`
    /// without a connection to a node, or if the chain does not have the deployment.
    ///
    /// # Errors
    /// Returns an error if the deployment query fails.
    pub(super) async fn version(&self, dseq: u64) -> anyhow::Result<Option<String>> {
        let Some(chain) = &self.chain else {
            return Ok(None);
        };
        let owner = self.owner.clone();
        let found = chain.deployment(&DeploymentId::new(owner, dseq)).await?;
        Ok(found.map(|record| HEXLOWER.encode(&record.deployment.hash)))
    }

    /// Returns the client for a provider.
    ///
    /// # Errors
    /// Returns an error if the provider is not registered, if its address is invalid, or if the chain query
    /// fails.
    pub(super) async fn client(&self, provider: &Address) -> anyhow::Result<Client> {
        let address = address(self.provider_url.as_deref(), self.chain.as_ref(), provider).await?;
        Client::new(
            provider.clone(),
            &address,
            self.credentials.clone(),
            self.chain.clone(),
        )
    }
}

/// Returns the URL of a provider's gateway: `given`, or else the host URI of the provider record.
///
/// # Errors
/// Returns an error if the provider is not registered, or if the chain query fails.
pub(super) async fn address(
    given: Option<&str>,
    chain: Option<&Reader>,
    provider: &Address,
) -> anyhow::Result<String> {
    if let Some(url) = given {
        return Ok(url.to_owned());
    }
    let chain = chain.with_context(offline_without_url)?;
    let found = chain.provider(provider).await;
    let found =
        found.with_context(|| format!("cannot query the record of provider {provider} on the chain"))?;
    let found = found.ok_or_else(|| {
        WithHelp::new(
            format!("provider {provider} is not registered on this chain"),
            "check --provider, --node and --chain-id",
        )
    })?;
    Ok(found.host_uri)
}

fn lease_id(deployment: DeploymentId, which: &LeaseArgs, provider: &Address) -> LeaseId {
    let group = deployment.group(which.gseq.unwrap_or(1));
    group.order(which.oseq.unwrap_or(1)).bid(provider.clone())
}

pub(super) fn offline_without_url() -> WithHelp {
    WithHelp::new(
        "--offline requires --provider-url",
        "add --provider-url with the address of the gateway, such as https://host:8443",
    )
}

async fn all(chain: &Reader, deployment: &DeploymentId) -> anyhow::Result<Vec<LeaseRecord>> {
    let filter = LeaseFilter {
        deployment: Some(deployment.clone()),
        ..LeaseFilter::default()
    };
    let (mut records, mut request) = (Vec::new(), PageRequest::default());
    loop {
        let page = chain.leases(&filter, request.clone()).await;
        let page = page.with_context(|| format!("cannot query the leases of {deployment}"))?;
        records.extend(page.items);
        match page.next {
            // A node that always returns another page must not cause an endless loop.
            Some(key) if records.len() < LEASES_MAX => request.key = Some(key),
            _ => return Ok(records),
        }
    }
}

fn not_found(deployment: &DeploymentId, ended: &[LeaseRecord]) -> anyhow::Error {
    let Some(last) = ended.last() else {
        return WithHelp::new(
            format!("no such lease of deployment {deployment} on the chain"),
            format!(
                "accept a bid first; `query leases --owner {} --dseq {}` lists the leases",
                deployment.owner, deployment.dseq
            ),
        )
        .into();
    };
    let more = match ended.len() {
        1 => String::new(),
        several => format!(", as are {} more", several - 1),
    };
    anyhow::anyhow!(WithHelp::new(
        format!("lease {} is closed ({:?}){more}", last.lease.id, last.lease.state),
        "accept a new bid with `tx lease create`, or create a new deployment"
    ))
}
