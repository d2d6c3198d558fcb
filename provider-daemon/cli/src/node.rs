//! Chain nodes that commands send their queries to.

use crate::error::WithHelp;
use crate::flags::NodeArgs;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Blame, EndpointLimits, Fault, NodeError, Roots, fetch_chain_id};
use anyhow::{Context, bail};
use std::error::Error;
use std::future::Future;

/// Maximum number of attempts per query, low because a user waits.
const ATTEMPTS: u32 = 3;
/// Remedy for a node that gives no usable response.
const REMEDY: &str = "select another node with --node";
/// Remedy for a node with a block time in the future.
const CLOCK_REMEDY: &str = "if the clock is wrong, set it with `timedatectl set-ntp true`; otherwise select another node with --node";

/// Runs the future `work` of a command to completion.
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

/// Returns the nodes of `--node` for commands that sign transactions. Requires `--chain-id`, so that a node
/// of another chain is not accepted.
///
/// # Errors
/// Returns an error if the chain ID is missing or an address is invalid.
pub fn endpoints_with_chain_id(args: &NodeArgs) -> anyhow::Result<Endpoints> {
    let chain_id = required_chain_id(args)?;
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

/// Returns the chain ID in `--chain-id`.
///
/// # Errors
/// Returns an error if the flag is missing or empty.
pub fn required_chain_id(args: &NodeArgs) -> anyhow::Result<&str> {
    given_chain_id(args).with_context(|| {
        WithHelp::new(
            "missing --chain-id",
            "add --chain-id, which is akashnet-2 for the main network",
        )
    })
}

/// Returns the node URLs in `--node`, without empty URLs.
///
/// # Errors
/// Returns an error if `--node` contains no URL.
pub fn addresses(args: &NodeArgs) -> anyhow::Result<Vec<String>> {
    let given = args
        .node
        .iter()
        .map(|node| node.trim())
        .filter(|node| !node.is_empty());
    let given: Vec<String> = given.map(str::to_owned).collect();
    if given.is_empty() {
        bail!(WithHelp::new(
            "missing node address in --node",
            "expected an address such as --node http://HOST:26657"
        ));
    }
    Ok(given)
}

/// Returns the CA certificates for node connections.
#[must_use]
pub fn roots(args: &NodeArgs) -> Roots {
    let file = args.node_ca.clone().filter(|file| !file.as_os_str().is_empty());
    file.map_or(Roots::System, Roots::File)
}

/// Returns the limits of one query in an interactive command: response time and number of attempts.
#[must_use]
pub fn limits(args: &NodeArgs) -> EndpointLimits {
    let mut limits = EndpointLimits::default();
    limits.response_time = args.node_timeout;
    limits.attempts = ATTEMPTS;
    limits
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
        [why] => bail!(WithHelp::new(why, REMEDY)),
        all => bail!(WithHelp::new(
            format!("no node responds:\n  {}", all.join("\n  ")),
            REMEDY
        )),
    }
}

/// Adds a remedy to the error of a node.
#[must_use]
pub fn failure(error: &NodeError) -> anyhow::Error {
    match &error.fault {
        Fault::Ahead { by } => {
            let (node, seconds) = (&error.endpoint, by.as_secs());
            let message =
                format!("{node}: the newest block is {seconds} s ahead of the clock of this machine");
            WithHelp::new(message, CLOCK_REMEDY).into()
        }
        Fault::NotFound { text, .. } => {
            let message = format!("no such record at {}: {text}", error.endpoint);
            WithHelp::new(message, "check the name of the record, --node and --chain-id").into()
        }
        fault if fault.blame() == Blame::Endpoint => WithHelp::new(error.to_string(), REMEDY).into(),
        _ => WithHelp::new(error.to_string(), "check the arguments of the command").into(),
    }
}

/// Returns the remedy if a chain query failed because of the node. Returns `None` for a block time in the
/// future, because the text of this error contains the remedy.
#[must_use]
pub fn help(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let fault = error.downcast_ref::<Fault>()?;
    let is_clock = matches!(fault, Fault::Ahead { .. });
    (!is_clock && fault.blame() == Blame::Endpoint).then_some(REMEDY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reports_node_errors_with_a_remedy() {
        let text = |fault| {
            let (endpoint, method) = ("http://127.0.0.1:1".into(), "status".into());
            let error = NodeError {
                endpoint,
                method,
                fault,
            };
            crate::error::error_text(&failure(&error), &[])
        };
        let refused = Fault::NotConnected("(connection refused): is the node running?".to_owned());
        assert_eq!(
            text(refused),
            format!(
                "error: cannot connect to http://127.0.0.1:1 (connection refused): is the node running?\nhelp: {REMEDY}"
            )
        );
        assert_eq!(
            text(Fault::CatchingUp { height: 7 }),
            format!("error: http://127.0.0.1:1, status: the node is catching up at height 7\nhelp: {REMEDY}")
        );
        let by = Duration::from_secs(7200);
        let clock = text(Fault::Ahead { by });
        assert!(clock.contains("\nhelp: if the clock is wrong"), "{clock}");
        let (record, height) = ("invalid provider: address not found".to_owned(), None);
        assert_eq!(
            text(Fault::NotFound { text: record, height }),
            "error: no such record at http://127.0.0.1:1: invalid provider: address not found\nhelp: check the name of \
             the record, --node and --chain-id"
        );
    }
}
