//! The nodes a command asks.

use crate::args::NodeArgs;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Blame, Fault, Limits, NodeError, Roots, fetch_chain_id};
use anyhow::{Context, bail};
use std::future::Future;

/// Times a command asks before it gives up: somebody is waiting.
const ATTEMPTS: u32 = 3;
/// Remedy for a node that gives no usable response.
const ANOTHER: &str = "name another node with --node";

/// Runs one command's questions.
///
/// # Errors
/// The command's own.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // One thread does: a command asks one thing after the other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// The nodes. Where no chain id is given, the first node that answers says which chain is asked about.
///
/// # Errors
/// An address cannot be a node's, or none of them answers.
pub async fn endpoints(args: &NodeArgs) -> anyhow::Result<Endpoints> {
    let chain_id = match given_chain_id(args) {
        Some(id) => id.to_owned(),
        None => found_chain_id(args).await?,
    };
    Ok(Endpoints::with_roots(
        &addresses(args)?,
        &chain_id,
        limits(args),
        &roots(args),
    )?)
}

/// The nodes of a chain that must be named: where something is signed, a wrong address must not do.
///
/// # Errors
/// No chain is named, or an address cannot be a node's.
pub fn named(args: &NodeArgs) -> anyhow::Result<Endpoints> {
    let chain_id = given_chain_id(args).context("--chain-id is missing: say which chain this is for")?;
    Ok(Endpoints::with_roots(
        &addresses(args)?,
        chain_id,
        limits(args),
        &roots(args),
    )?)
}

/// The chain id that was given.
#[must_use]
pub fn given_chain_id(args: &NodeArgs) -> Option<&str> {
    // A variable of the environment that is set to nothing gives an empty text.
    args.chain_id.as_deref().filter(|id| !id.is_empty())
}

/// The addresses, without empty ones.
///
/// # Errors
/// There is none.
pub fn addresses(args: &NodeArgs) -> anyhow::Result<Vec<String>> {
    let given = args
        .node
        .iter()
        .map(|node| node.trim())
        .filter(|node| !node.is_empty());
    let given: Vec<String> = given.map(str::to_owned).collect();
    if given.is_empty() {
        bail!("--node names no node: write it as http://host:26657");
    }
    Ok(given)
}

/// Who may vouch for the nodes.
#[must_use]
pub fn roots(args: &NodeArgs) -> Roots {
    let file = args.node_ca.clone().filter(|file| !file.as_os_str().is_empty());
    file.map_or(Roots::System, Roots::File)
}

/// The limits of a command that somebody waits for.
#[must_use]
pub fn limits(args: &NodeArgs) -> Limits {
    Limits {
        response_time: args.node_timeout,
        attempts: ATTEMPTS,
        ..Limits::default()
    }
}

async fn found_chain_id(args: &NodeArgs) -> anyhow::Result<String> {
    let mut why = Vec::new();
    // In the order of the flags, so that the same node decides each time.
    for address in addresses(args)? {
        match fetch_chain_id(&address, limits(args), &roots(args)).await {
            Ok(id) => return Ok(id),
            Err(error) => why.push(error.message().to_owned()),
        }
    }
    match &why[..] {
        [why] => bail!(or_another(why)),
        all => bail!(
            "no node answers; name another with --node\n  {}",
            all.join("\n  ")
        ),
    }
}

/// What a node did not answer, with the flag that names it.
#[must_use]
pub fn told(error: &NodeError) -> String {
    match &error.fault {
        Fault::NotFound { text, .. } => format!("there is no such record at {}: {text}", error.endpoint),
        fault if fault.blame() == Blame::Endpoint => or_another(&error.to_string()),
        _ => error.to_string(),
    }
}

fn or_another(why: &str) -> String {
    let between = match why {
        why if why.ends_with(ANOTHER) => return why.to_owned(),
        why if why.ends_with('?') => "",
        _ => ";",
    };
    format!("{why}{between} {ANOTHER}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_a_node_does_not_answer_is_said_with_the_mend() {
        let of = |fault| {
            let (endpoint, method) = ("http://127.0.0.1:1".into(), "status".into());
            let error = NodeError {
                endpoint,
                method,
                fault,
            };
            told(&error)
        };
        let refused = Fault::NotConnected("(connection refused): is the node running?".to_owned());
        assert_eq!(
            of(refused),
            format!(
                "cannot connect to http://127.0.0.1:1 (connection refused): is the node running? {ANOTHER}"
            )
        );
        assert_eq!(
            of(Fault::CatchingUp { height: 7 }),
            format!("http://127.0.0.1:1, status: is catching up at height 7; {ANOTHER}")
        );
        let by = Duration::from_secs(7200);
        let clock = of(Fault::Ahead { by });
        assert_eq!(clock.matches(ANOTHER).count(), 1, "{clock}");
        let (text, height) = ("invalid provider: address not found".to_owned(), None);
        assert_eq!(
            of(Fault::NotFound { text, height }),
            "there is no such record at http://127.0.0.1:1: invalid provider: address not found"
        );
    }
}
