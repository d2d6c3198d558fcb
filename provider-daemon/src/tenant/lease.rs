//! Which leases a command is about, and the providers that have them.

use super::auth::Credentials;
use super::client::Client;
use crate::args::tenant::{AccessArgs, LeaseArgs};
use crate::commands::chain::endpoints;
use crate::secrets;
use akash_provider_chain::Reader;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::{ChainQuery, LeaseFilter, PageRequest};
use akash_provider_core::types::{Address, DeploymentId, GroupId, LeaseId, LeaseRecord, OrderId};
use anyhow::{Context, bail};
use data_encoding::HEXLOWER;
use std::path::Path;
use std::sync::Arc;

/// Leases of one deployment that are looked at; a deployment has twenty groups at most, each with few orders.
const LEASES_MAX: usize = 1000;

/// Whoever asks, and how providers are found.
#[derive(Debug)]
pub(super) struct Tenant {
    owner: Address,
    credentials: Credentials,
    /// `None` where no node is to be asked.
    chain: Option<Reader>,
    provider_url: Option<String>,
}

impl Tenant {
    /// The one of `--from`.
    ///
    /// # Errors
    /// The key, the certificate or a node cannot be had, or flags do not go together.
    pub(super) async fn of(args: &AccessArgs, home: &Path) -> anyhow::Result<Self> {
        if args.offline && args.provider_url.is_none() {
            bail!("--offline asks no node, so it must be said with --provider-url where the provider is");
        }
        let key: PrivateKey = secrets::signer(&args.signer, home)?;
        let owner = key.address().clone();
        if let Some(other) = args.owner.as_ref().filter(|other| **other != owner) {
            bail!(
                "--owner {other} is not the account of the key, {owner}: only a lease's own tenant may ask"
            );
        }
        let chain = match args.offline {
            true => None,
            false => Some(Reader::new(endpoints(&args.node).await?)),
        };
        let credentials = Credentials::of(args.auth_type, &Arc::new(key), home, chain.as_ref()).await?;
        Ok(Self {
            owner,
            credentials,
            chain,
            provider_url: args.provider_url.clone(),
        })
    }

    /// One lease where a provider is named, as today's tool has it.
    ///
    /// # Errors
    /// As [`leases`](Self::leases).
    pub(super) async fn lease(&self, which: &LeaseArgs, provider: &Address) -> anyhow::Result<LeaseId> {
        let one = LeaseArgs {
            gseq: Some(which.gseq.unwrap_or(1)),
            oseq: Some(which.oseq.unwrap_or(1)),
            provider: Some(provider.clone()),
            ..which.clone()
        };
        let leases = self.leases(&one).await?;
        leases.into_iter().next().context("there is no such lease")
    }

    /// All live leases of the deployment for which what is given holds; at least one.
    ///
    /// # Errors
    /// There is none, or the chain cannot be asked.
    pub(super) async fn leases(&self, which: &LeaseArgs) -> anyhow::Result<Vec<LeaseId>> {
        let deployment = DeploymentId {
            owner: self.owner.clone(),
            dseq: which.dseq,
        };
        let chain = match (&self.provider_url, &which.provider, &self.chain) {
            // Where both are named nothing is left to ask, which is what makes `--offline` possible.
            (Some(_), Some(provider), _) => return Ok(vec![named(deployment, which, provider)]),
            (_, _, Some(chain)) => chain,
            (_, _, None) => bail!("without a node, the lease's provider must be named with --provider"),
        };
        // Also those that have ended, because they tell why there is nothing to ask about.
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
        // In the same order each time, whatever the node says, so that the output of two runs can be compared.
        leases.sort();
        if leases.is_empty() {
            bail!(none(&deployment, &records));
        }
        Ok(leases)
    }

    /// Why there is nothing more to come from a lease; `None` while it lives, and where that cannot be known.
    pub(super) async fn is_over(&self, lease: &LeaseId) -> Option<String> {
        match self.chain.as_ref()?.lease(lease).await {
            // Not found is no evidence: a node may be behind.
            Ok(found) => {
                let state = found.value?.lease.state;
                (!state.is_live()).then(|| format!("lease {lease} is over ({state:?})"))
            }
            Err(error) => {
                tracing::debug!("asking the chain about lease {lease}: {error}");
                None
            }
        }
    }

    /// Returns the manifest version that the chain has of a deployment, in lower-case hex. Returns `None` if no node
    /// was given or the node does not know the deployment.
    ///
    /// # Errors
    /// The query of the deployment failed.
    pub(super) async fn version(&self, dseq: u64) -> anyhow::Result<Option<String>> {
        let Some(chain) = &self.chain else {
            return Ok(None);
        };
        let owner = self.owner.clone();
        let found = chain.deployment(&DeploymentId { owner, dseq }).await?;
        Ok(found.map(|record| HEXLOWER.encode(&record.deployment.hash)))
    }

    /// The way to a provider.
    ///
    /// # Errors
    /// It is not registered, or its address is none.
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

/// Where a provider is.
///
/// # Errors
/// It is not registered, or the chain cannot be asked.
pub(super) async fn address(
    given: Option<&str>,
    chain: Option<&Reader>,
    provider: &Address,
) -> anyhow::Result<String> {
    if let Some(url) = given {
        return Ok(url.to_owned());
    }
    let chain = chain.context("without a node it must be said with --provider-url where the provider is")?;
    let found = chain.provider(provider).await;
    let found = found.with_context(|| format!("asking the chain where {provider} is"))?;
    let found = found.with_context(|| {
        format!("{provider} is no provider on this chain: look at --provider, --node and --chain-id")
    })?;
    Ok(found.host_uri)
}

fn named(deployment: DeploymentId, which: &LeaseArgs, provider: &Address) -> LeaseId {
    let group = GroupId {
        deployment,
        gseq: which.gseq.unwrap_or(1),
    };
    LeaseId {
        order: OrderId {
            group,
            oseq: which.oseq.unwrap_or(1),
        },
        provider: provider.clone(),
    }
}

async fn all(chain: &Reader, deployment: &DeploymentId) -> anyhow::Result<Vec<LeaseRecord>> {
    let filter = LeaseFilter {
        deployment: Some(deployment.clone()),
        ..LeaseFilter::default()
    };
    let (mut records, mut request) = (Vec::new(), PageRequest::default());
    loop {
        let page = chain.leases(&filter, request.clone()).await;
        let page = page.with_context(|| format!("asking the chain for the leases of {deployment}"))?;
        records.extend(page.items);
        match page.next {
            // A node that always names one more page is not followed without end.
            Some(key) if records.len() < LEASES_MAX => request.key = Some(key),
            _ => return Ok(records),
        }
    }
}

/// Why there is nothing to ask about.
fn none(deployment: &DeploymentId, ended: &[LeaseRecord]) -> String {
    let Some(last) = ended.last() else {
        return format!(
            "there is no such lease of deployment {deployment} on the chain: has a bid been accepted? (`query leases \
             --owner {} --dseq {}` shows all there are)",
            deployment.owner, deployment.dseq
        );
    };
    let more = match ended.len() {
        1 => String::new(),
        several => format!(", as are {} more", several - 1),
    };
    format!("lease {} is over ({:?}){more}", last.lease.id, last.lease.state)
}
