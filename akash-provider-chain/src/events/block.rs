//! Blocks with their events, from block results or from a transaction search.

use super::decode::{BlockEvents, decode_events};
use crate::convert::excerpt;
use crate::endpoint::{HeightParams, NodeEndpoint, parse_time};
use crate::endpoints::{Capability, Endpoints};
use crate::fault::{Fault, NodeError};
use crate::rpc::types::{
    AbciEvent, BlockHash, BlockResponse, BlockResults, FoundTx, NewBlock, TxResult, TxSearch,
};
use crate::signer::TxHash;
use akash_provider_core::types::{BlockTime, Height};
use data_encoding::BASE64;
use serde::Serialize;

/// Number of transactions per page of a search: the maximum that nodes allow.
const SEARCH_PAGE: u64 = 100;
/// Maximum number of pages that one search reads. Every block needs fewer pages.
const SEARCH_PAGES: u64 = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) height: Height,
    pub(crate) time: BlockTime,
    pub(crate) hash: BlockHash,
    /// Hash of the previous block.
    pub(crate) parent: BlockHash,
    pub(crate) events: BlockEvents,
    /// Transactions of the block. `None` if only the results of the transactions are known.
    pub(crate) txs: Option<Vec<BlockTx>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockTx {
    pub(crate) hash: TxHash,
    pub(crate) code: i64,
    pub(crate) codespace: String,
    pub(crate) log: String,
    pub(crate) gas_used: u64,
}

/// Pairs the transactions of a block with their results. Returns `None` if a result is missing or a transaction cannot
/// be decoded.
fn pair_with_results(txs: &[String], results: &[TxResult]) -> Option<Vec<BlockTx>> {
    // Paired by position, which is ambiguous for different lengths.
    if txs.len() != results.len() {
        return None;
    }
    let pairs = txs.iter().zip(results);
    let seen = pairs.map(|(tx, result)| {
        Some(BlockTx {
            hash: TxHash::new(&BASE64.decode(tx.as_bytes()).ok()?),
            code: result.code,
            codespace: result.codespace.clone(),
            log: result.log.clone(),
            gas_used: result.gas_used,
        })
    });
    seen.collect()
}

#[derive(Serialize)]
struct SearchParams {
    query: String,
    prove: bool,
    page: String,
    per_page: String,
    order_by: &'static str,
}

impl Block {
    /// Converts a `NewBlock` event. Returns a fault if the block belongs to another chain.
    pub(crate) fn from_event(event: NewBlock, chain_id: &str) -> Result<Self, Fault> {
        let missing = |part: &str| Fault::Malformed(format!("NewBlock event without {part}"));
        let block = event.block.ok_or_else(|| missing("block"))?;
        let header = block.header;
        let results = event.result_finalize_block.ok_or_else(|| missing("results"))?;
        if header.chain_id != chain_id {
            return Err(Fault::OtherChain {
                expected: chain_id.to_owned(),
                found: excerpt(&header.chain_id),
            });
        }
        let height = header.height.0;
        if height == 0 {
            return Err(Fault::Malformed("block with height 0".to_owned()));
        }
        // Nodes encode an empty list as `null`.
        let txs = results.tx_results.unwrap_or_default();
        Ok(Self {
            height,
            time: parse_time(&header.time)?,
            hash: event.block_id.hash,
            parent: header.last_block_id.hash,
            events: decode_events(height, &txs, results.events.as_deref().unwrap_or_default()),
            txs: pair_with_results(&block.data.txs.unwrap_or_default(), &txs),
        })
    }

    /// Checks that the parent of this block is `last`, the last processed block. If not, events may be
    /// missing.
    pub(super) fn check_parent(&self, last: BlockHash) -> Result<(), String> {
        if self.parent == last {
            return Ok(());
        }
        let height = self.height;
        Err(format!(
            "block {height} does not follow the previous block: a node served a false chain"
        ))
    }
}

impl Endpoints {
    /// Builds the block at a height from the block results. If no node has the results, uses a transaction
    /// search.
    pub(crate) async fn block(&self, height: Height) -> Result<Block, NodeError> {
        let ask = |at: usize| {
            let endpoint = self.endpoint(at);
            async move {
                let endpoint = endpoint?;
                let block = block_from_results(&endpoint, height, self.chain_id()).await;
                let block = block.map_err(NodeError::blaming_the_node)?;
                Ok((block, None))
            }
        };
        let error = match self.attempt(Capability::Blocks, ask).await {
            Ok((_, block)) => return Ok(block),
            Err(error) => error,
        };
        // A node with pruned results may still have the transactions in its index. Other errors are final.
        if !matches!(error.fault, Fault::Pruned(_)) {
            return Err(error);
        }
        self.search(height).await.unwrap_or(Err(error))
    }

    /// Searches all nodes for the transactions of a block. Returns `None` if no responding node has the
    /// transactions. Returns an error if no node responds.
    async fn search(&self, height: Height) -> Option<Result<Block, NodeError>> {
        let mut unreachable = None;
        let mut has_response = false;
        for at in self.ready(Capability::Blocks) {
            let endpoint = self.endpoint(at).ok()?;
            match block_from_search(&endpoint, height, self.chain_id()).await {
                Ok(block) => return Some(Ok(block)),
                Err(error) if is_unreachable(&error.fault) => unreachable = Some(error),
                Err(error) => {
                    has_response = true;
                    tracing::debug!(%error, height, "transaction search does not return the block");
                }
            }
        }
        if has_response {
            return None;
        }
        Some(Err(
            unreachable.unwrap_or_else(|| self.unavailable(Capability::Blocks))
        ))
    }
}

const fn is_unreachable(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Unreachable(_) | Fault::NotConnected(_) | Fault::Timeout(_)
    )
}

async fn block_from_results(
    endpoint: &NodeEndpoint,
    height: Height,
    chain_id: &str,
) -> Result<Block, NodeError> {
    let params = HeightParams {
        height: height.to_string(),
    };
    let results = endpoint.call::<BlockResults>("block_results", params);
    // Block results contain no time, hash or transactions.
    let (results, head) = tokio::try_join!(results, Head::read(endpoint, height, chain_id))?;
    let received = results.height.0;
    if received != height {
        let fault = Fault::WrongHeight {
            requested: height,
            received,
        };
        return Err(endpoint.error("block_results", fault));
    }
    // The first two fields are from nodes before CometBFT 0.38.
    let lists = [
        results.begin_block_events,
        results.end_block_events,
        results.finalize_block_events,
    ];
    let block: Vec<AbciEvent> = lists.into_iter().flatten().flatten().collect();
    let txs = results.txs_results.unwrap_or_default();
    Ok(Block {
        height,
        time: head.time,
        hash: head.hash,
        parent: head.parent,
        events: decode_events(height, &txs, &block),
        txs: pair_with_results(&head.txs, &txs),
    })
}

/// Header data and transactions of a block, without the results of the transactions.
struct Head {
    time: BlockTime,
    hash: BlockHash,
    parent: BlockHash,
    txs: Vec<String>,
}

impl Head {
    async fn read(endpoint: &NodeEndpoint, height: Height, chain_id: &str) -> Result<Self, NodeError> {
        let params = HeightParams {
            height: height.to_string(),
        };
        let response: BlockResponse = endpoint.call("block", params).await?;
        let checked = Self::check(response, height, chain_id);
        checked.map_err(|fault| endpoint.error("block", fault))
    }

    fn check(response: BlockResponse, height: Height, chain_id: &str) -> Result<Self, Fault> {
        let missing = || Fault::HeightUnavailable(format!("no block {height}"));
        let block = response.block.ok_or_else(missing)?;
        let header = block.header;
        if header.chain_id != chain_id {
            return Err(Fault::OtherChain {
                expected: chain_id.to_owned(),
                found: excerpt(&header.chain_id),
            });
        }
        if header.height.0 != height {
            return Err(Fault::WrongHeight {
                requested: height,
                received: header.height.0,
            });
        }
        Ok(Self {
            time: parse_time(&header.time)?,
            hash: response.block_id.hash,
            parent: header.last_block_id.hash,
            txs: block.data.txs.unwrap_or_default(),
        })
    }
}

/// Searches for the transactions of a block. Returns an error unless the search finds all transactions.
async fn block_from_search(
    endpoint: &NodeEndpoint,
    height: Height,
    chain_id: &str,
) -> Result<Block, NodeError> {
    let head = Head::read(endpoint, height, chain_id).await?;
    let count = head.txs.len();
    let mut found: Vec<FoundTx> = Vec::new();
    for page in 1..=SEARCH_PAGES {
        if found.len() >= count {
            break;
        }
        let params = SearchParams {
            query: format!("tx.height={height}"),
            prove: false,
            page: page.to_string(),
            per_page: SEARCH_PAGE.to_string(),
            order_by: "asc",
        };
        let response: TxSearch = endpoint.call("tx_search", params).await?;
        let txs = response.txs.unwrap_or_default();
        let total = usize::try_from(response.total_count.0).unwrap_or(usize::MAX);
        // The index is late or pruned. Further pages would not complete the result.
        if txs.is_empty() || total != count {
            break;
        }
        found.extend(txs);
    }
    if found.len() != count || found.iter().any(|tx| tx.height.0 != height) {
        let why = format!("block has {count} transactions, search returned {}", found.len());
        return Err(endpoint.error("tx_search", Fault::Malformed(why)));
    }
    // Events are reported in the order of the block.
    found.sort_by_key(|tx| tx.index);
    let txs: Vec<TxResult> = found.into_iter().map(|tx| tx.tx_result).collect();
    Ok(Block {
        height,
        time: head.time,
        hash: head.hash,
        parent: head.parent,
        // A search returns transactions only, without the events of the block itself.
        events: decode_events(height, &txs, &[]),
        txs: None,
    })
}
