//! Chain nodes that commands send their queries to.

use crate::args::NodeArgs;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Blame, Fault, Limits, NodeError, Roots, fetch_chain_id};
use anyhow::{Context, bail};
use std::future::Future;

/// Maximum attempts per query, because a user waits for the result.
const ATTEMPTS: u32 = 3;
/// Remedy for a node that gives no usable response.
const REMEDY: &str = "select another node with --node";

/// Runs `work`, the queries of a command, to its end.
///
/// # Errors
/// Returns the error of `work`.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // One thread is enough for sequential queries.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Returns the nodes of `--node`. Without `--chain-id`, the first node that responds determines the chain.
///
/// # Errors
/// Returns an error if an address is invalid, or if no node responds.
pub async fn endpoints(args: &NodeArgs) -> anyhow::Result<Endpoints> {
    let chain_id = match given_chain_id(args) {
        Some(id) => id.to_owned(),
        None => query_chain_id(args).await?,
    };
    Ok(Endpoints::with_roots(
        &addresses(args)?,
        &chain_id,
        limits(args),
        &roots(args),
    )?)
}

/// Returns the nodes of the chain in `--chain-id`, which is required for signing, so that a node of another chain is
/// not accepted.
///
/// # Errors
/// Returns an error if the chain ID is missing or an address is invalid.
pub fn endpoints_with_chain_id(args: &NodeArgs) -> anyhow::Result<Endpoints> {
    let chain_id = given_chain_id(args).context("missing --chain-id")?;
    Ok(Endpoints::with_roots(
        &addresses(args)?,
        chain_id,
        limits(args),
        &roots(args),
    )?)
}

/// Returns the value of `--chain-id`.
#[must_use]
pub fn given_chain_id(args: &NodeArgs) -> Option<&str> {
    // An empty environment variable results in an empty value.
    args.chain_id.as_deref().filter(|id| !id.is_empty())
}

/// Returns the URLs of the nodes in `--node`, without empty ones.
///
/// # Errors
/// Returns an error if there are none.
pub fn addresses(args: &NodeArgs) -> anyhow::Result<Vec<String>> {
    let given = args
        .node
        .iter()
        .map(|node| node.trim())
        .filter(|node| !node.is_empty());
    let given: Vec<String> = given.map(str::to_owned).collect();
    if given.is_empty() {
        bail!("missing node address in --node; expected http://HOST:26657");
    }
    Ok(given)
}

/// Returns the CA certificates for node connections.
#[must_use]
pub fn roots(args: &NodeArgs) -> Roots {
    let file = args.node_ca.clone().filter(|file| !file.as_os_str().is_empty());
    file.map_or(Roots::System, Roots::File)
}

/// Returns the response time and the number of attempts that an interactive command allows per chain query.
#[must_use]
pub fn limits(args: &NodeArgs) -> Limits {
    Limits {
        response_time: args.node_timeout,
        attempts: ATTEMPTS,
        ..Limits::default()
    }
}

async fn query_chain_id(args: &NodeArgs) -> anyhow::Result<String> {
    let mut why = Vec::new();
    // In the order of the flag, so that the same node decides each time.
    for address in addresses(args)? {
        match fetch_chain_id(&address, limits(args), &roots(args)).await {
            Ok(id) => return Ok(id),
            Err(error) => why.push(error.message().to_owned()),
        }
    }
    match &why[..] {
        [why] => bail!(with_remedy(why)),
        all => bail!(
            "no node responds; select another node with --node\n  {}",
            all.join("\n  ")
        ),
    }
}

/// Returns the text of a node error, with the remedy.
#[must_use]
pub fn error_text(error: &NodeError) -> String {
    match &error.fault {
        Fault::NotFound { text, .. } => format!("no such record at {}: {text}", error.endpoint),
        fault if fault.blame() == Blame::Endpoint => with_remedy(&error.to_string()),
        _ => error.to_string(),
    }
}

fn with_remedy(why: &str) -> String {
    let between = match why {
        why if why.ends_with(REMEDY) => return why.to_owned(),
        why if why.ends_with('?') => "",
        _ => ";",
    };
    format!("{why}{between} {REMEDY}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reports_node_errors_with_a_remedy() {
        let of = |fault| {
            let (endpoint, method) = ("http://127.0.0.1:1".into(), "status".into());
            let error = NodeError {
                endpoint,
                method,
                fault,
            };
            error_text(&error)
        };
        let refused = Fault::NotConnected("(connection refused): is the node running?".to_owned());
        assert_eq!(
            of(refused),
            format!(
                "cannot connect to http://127.0.0.1:1 (connection refused): is the node running? {REMEDY}"
            )
        );
        assert_eq!(
            of(Fault::CatchingUp { height: 7 }),
            format!("http://127.0.0.1:1, status: is catching up at height 7; {REMEDY}")
        );
        let by = Duration::from_secs(7200);
        let clock = of(Fault::Ahead { by });
        assert_eq!(clock.matches(REMEDY).count(), 1, "{clock}");
        let (text, height) = ("invalid provider: address not found".to_owned(), None);
        assert_eq!(
            of(Fault::NotFound { text, height }),
            "no such record at http://127.0.0.1:1: invalid provider: address not found"
        );
    }
}
