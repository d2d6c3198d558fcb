//! Pool of endpoints. Requests use the fastest healthy endpoint, and fail over to other endpoints.
//!
//! The pool sends no background traffic: a request triggers a health check if the last check is too old. A
//! failed endpoint is not used during a growing back-off. If no endpoint is healthy, a request checks each
//! endpoint again after 0.2 to 1 second. The selected endpoint is used until it fails, or until another
//! endpoint is clearly faster for some time. Identical concurrent queries share one response.

mod agreement;
mod clock;
mod pending;
mod processed;
mod status;
#[cfg(test)]
mod tests;

use crate::convert::Malformed;
pub use crate::endpoint::EndpointStatistics;
use crate::endpoint::health::EndpointHealth;
use crate::endpoint::{BadEndpoint, NodeEndpoint, QueryResponse};
use crate::fault::{Blame, Fault, NodeError};
use crate::limits::EndpointLimits;
use crate::lock::lock;
use crate::method::Method;
use crate::rpc::types::BlockHash;
use crate::tls::Roots;
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::types::Height;
use bytes::Bytes;
use pending::{PendingQueries, SharedResponse};
use processed::Processed;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
pub use status::EndpointStatus;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum lag of an endpoint behind the endpoint with the highest block, in blocks.
pub const LAG_MAX: Height = 5;
/// Margin for the comparison of response times: A is faster than B if `2 × A + margin < B`.
const LATENCY_NOISE: Duration = Duration::from_millis(20);
/// Minimum interval between two health checks of an endpoint while no endpoint is healthy. Each failed check
/// doubles the interval, up to [`URGENT_MAX`].
const URGENT_MIN: Duration = Duration::from_millis(200);
/// Maximum interval of health checks while no endpoint is healthy.
const URGENT_MAX: Duration = Duration::from_secs(1);
/// Back-off before the first retry of a request, doubled after each retry.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Maximum back-off before a retry of a request.
const RETRY_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capability {
    /// Queries, which every endpoint supports.
    Queries,
    /// Blocks and transactions, which require JSON-RPC.
    Blocks,
}

#[derive(Debug)]
struct Member {
    endpoint: Arc<NodeEndpoint>,
    health: Mutex<EndpointHealth>,
}

#[derive(Debug, Default)]
struct EndpointSelection {
    queries: Option<usize>,
    blocks: Option<usize>,
    /// Endpoint that may replace the selected endpoint, and the time at which this endpoint became the
    /// fastest.
    faster: Option<(usize, Instant)>,
    switches: u64,
    reason: Option<String>,
}

#[derive(Debug)]
struct EndpointPool {
    members: Vec<Member>,
    chain_id: String,
    limits: EndpointLimits,
    processed: Mutex<Processed>,
    /// True if the current correction of the local clock is based on the nodes of this pool.
    corrects_clock: AtomicBool,
    choice: Mutex<EndpointSelection>,
    refreshing: tokio::sync::Mutex<()>,
    pending: PendingQueries,
}

/// Pool of endpoints of one chain. Clones share all state.
#[derive(Debug, Clone)]
pub struct Endpoints {
    shared: Arc<EndpointPool>,
}

impl Endpoints {
    /// Creates a pool of nodes of the chain `chain_id`, without opening a connection.
    ///
    /// # Errors
    /// Returns an error if an address is invalid, or if `addresses` is empty.
    pub fn new<A: AsRef<str>>(
        addresses: &[A],
        chain_id: &str,
        limits: EndpointLimits,
    ) -> Result<Self, BadEndpoint> {
        Self::with_roots(addresses, chain_id, limits, &Roots::System)
    }

    /// Creates a pool that uses the root certificates `roots` for TLS connections.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoints::new`], and an error if the root certificates cannot be read.
    pub fn with_roots<A: AsRef<str>>(
        addresses: &[A],
        chain_id: &str,
        limits: EndpointLimits,
        roots: &Roots,
    ) -> Result<Self, BadEndpoint> {
        let member = |address: &A| {
            Ok(Member {
                endpoint: Arc::new(NodeEndpoint::new(address.as_ref(), limits, roots)?),
                health: Mutex::default(),
            })
        };
        let mut members: Vec<Member> = addresses.iter().map(member).collect::<Result<_, BadEndpoint>>()?;
        make_names_unique(&mut members);
        if members.is_empty() {
            return Err(BadEndpoint {
                address: String::new(),
                why: "no address".to_owned(),
            });
        }
        let shared = EndpointPool {
            members,
            chain_id: chain_id.to_owned(),
            limits,
            processed: Mutex::default(),
            corrects_clock: AtomicBool::new(false),
            choice: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            pending: PendingQueries::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the chain id of the nodes in the pool.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        &self.shared.chain_id
    }

    /// Returns the limits for requests to nodes and for their responses.
    #[must_use]
    pub fn limits(&self) -> EndpointLimits {
        self.shared.limits
    }

    /// Returns the newest height that the healthy JSON-RPC endpoints have reported.
    pub(crate) fn newest(&self) -> Height {
        let ready = self.ready(Capability::Blocks).into_iter();
        let members = ready.filter_map(|at| self.shared.members.get(at));
        members.map(|m| lock(&m.health).height).max().unwrap_or_default()
    }

    /// Sends a query to the best endpoint, with fail-over to other endpoints. Returns the response and its
    /// height.
    ///
    /// # Errors
    /// Returns the last error after all attempts. A refused request is not sent to another endpoint.
    pub async fn query<M: Method>(
        &self,
        request: &M,
        pin: Option<Height>,
    ) -> Result<(M::Response, Height), NodeError> {
        self.query_as::<M, M::Response>(request, pin, |_| Ok(())).await
    }

    /// Sends a query and decodes the response as message type `R`. If `check` refuses the decoded response,
    /// the next endpoint is tried.
    pub(crate) async fn query_as<M: Method, R: Message + Default>(
        &self,
        request: &M,
        pin: Option<Height>,
        check: impl Fn(&R) -> Result<(), Malformed> + Clone + Send + Sync + 'static,
    ) -> Result<(R, Height), NodeError> {
        let landed = self.query_shared::<M, R>(request, pin, check).await?;
        let name = landed.by;
        let decoded = R::decode(landed.answer.bytes);
        let decoded = decoded.map_err(|e| self.error_at(name, M::PATH, Fault::Malformed(e.to_string())))?;
        Ok((decoded, landed.answer.height))
    }

    /// Calls a JSON-RPC method of the best endpoint, with fail-over to other endpoints.
    ///
    /// # Errors
    /// Returns the last error after all attempts. A refused request is not sent to another endpoint.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize + Clone + Send,
    ) -> Result<T, NodeError> {
        let ask = |at: usize| {
            let (params, endpoint) = (params.clone(), self.endpoint(at));
            async move { Ok((endpoint?.call(method, params).await?, None)) }
        };
        self.attempt(Capability::Blocks, ask)
            .await
            .map(|(_, answer)| answer)
    }

    /// Returns the newest block that the selected endpoint reports.
    ///
    /// # Errors
    /// Returns an error if no endpoint responds.
    pub async fn sync_info(&self) -> Result<SyncInfo, NodeError> {
        self.tip(false).await.map(|(info, _)| info)
    }

    /// Returns the newest block that a node reports, and the hash of this block.
    ///
    /// If this block is more than [`LAG_MAX`] above the processed block, the function also checks an earlier
    /// header of the node. If no block was processed yet, the function checks the earlier header only if
    /// `is_new` is true.
    pub(crate) async fn tip(&self, is_new: bool) -> Result<(SyncInfo, BlockHash), NodeError> {
        let ask = |at: usize| {
            let endpoint = self.endpoint(at);
            async move {
                let endpoint = endpoint?;
                let (info, hash) = endpoint.tip().await.map_err(NodeError::blaming_the_node)?;
                self.check_tip(&endpoint, &info, is_new).await?;
                let height = info.height;
                Ok(((info, hash), Some(height)))
            }
        };
        self.attempt(Capability::Queries, ask)
            .await
            .map(|(_, answer)| answer)
    }

    /// Selects an endpoint with the required capability. Endpoints in `avoid` are the last choice.
    pub(crate) async fn choose(&self, capability: Capability, avoid: &[usize]) -> Result<usize, NodeError> {
        self.refresh_if_due(capability).await;
        let mut ready = self.ready(capability);
        // If all endpoints are in `avoid`, one of them is used again.
        if ready.iter().any(|at| !avoid.contains(at)) {
            ready.retain(|at| !avoid.contains(at));
        }
        self.prefer(capability, &ready)
            .ok_or_else(|| self.unavailable(capability))
    }

    pub(crate) fn endpoint(&self, at: usize) -> Result<Arc<NodeEndpoint>, NodeError> {
        let member = self.shared.members.get(at);
        member
            .map(|m| Arc::clone(&m.endpoint))
            .ok_or_else(|| self.unavailable(Capability::Queries))
    }

    /// Calls `question` for one endpoint after another until a call succeeds. Returns the index of the
    /// endpoint and the result.
    pub(crate) async fn attempt<T, Q, F>(
        &self,
        capability: Capability,
        question: Q,
    ) -> Result<(usize, T), NodeError>
    where
        Q: Fn(usize) -> F,
        F: Future<Output = Result<(T, Option<Height>), NodeError>>,
    {
        if !self.shared.members.iter().any(|m| is_able(m, capability)) {
            // Waiting does not change the protocol of an endpoint.
            return Err(self.unavailable(capability));
        }
        let mut avoid = Vec::new();
        let mut last = None;
        let mut wait = RETRY_MIN;
        for _ in 0..self.shared.limits.attempts.max(1) {
            let at = match self.choose(capability, &avoid).await {
                Ok(at) => at,
                Err(error) => {
                    // An earlier error of a node is more useful than the error for no healthy endpoint.
                    last.get_or_insert(error);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                    continue;
                }
            };
            let began = Instant::now();
            let error = match question(at).await {
                // A response below the processed height must not count as a success.
                Ok((answer, height)) => match self.check_height(at, height) {
                    Ok(()) => {
                        self.record_response(at, began.elapsed(), height);
                        return Ok((at, answer));
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match error.fault.blame() {
                Blame::Request => return Err(error),
                Blame::Endpoint => self.record_fault(at, &error.fault),
                // The endpoint does not have this height, but is healthy otherwise.
                Blame::Height => {}
            }
            let is_gone = matches!(error.fault, Fault::Pruned(_));
            avoid.push(at);
            last = Some(error);
            if self.ready(capability).iter().all(|at| avoid.contains(at)) {
                // Waiting does not restore a pruned height.
                if is_gone {
                    break;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
        Err(last.unwrap_or_else(|| self.unavailable(capability)))
    }

    async fn query_shared<M: Method, R: Message + Default>(
        &self,
        request: &M,
        pin: Option<Height>,
        check: impl Fn(&R) -> Result<(), Malformed> + Clone + Send + Sync + 'static,
    ) -> Result<SharedResponse, NodeError> {
        let data = Bytes::from(request.encode_to_vec());
        let this = self.clone();
        let key = (M::PATH, data.clone(), pin);
        let flight = move || async move {
            let ask = |at: usize| {
                let (data, endpoint, check) = (data.clone(), this.endpoint(at), check.clone());
                async move {
                    let endpoint = endpoint?;
                    let answer: QueryResponse = endpoint.query(M::PATH, data, pin).await?;
                    let unreadable = |why| endpoint.error(M::PATH, Fault::Malformed(why));
                    // Decoded here too, so that a malformed response leads to a fail-over.
                    let readable = R::decode(answer.bytes.clone()).map_err(|e| unreadable(e.to_string()))?;
                    check(&readable).map_err(|e| unreadable(e.to_string()))?;
                    let height = answer.height;
                    // A pinned height does not indicate a lagging node.
                    Ok((answer, pin.is_none().then_some(height)))
                }
            };
            let landed = this.attempt(Capability::Queries, ask).await;
            landed.map(|(by, answer)| SharedResponse { by, answer })
        };
        self.shared.pending.join(key, flight).await
    }

    fn record_response(&self, at: usize, took: Duration, height: Option<Height>) {
        if let Some(member) = self.shared.members.get(at) {
            // 0 keeps the known height.
            lock(&member.health).record_response(took, height.unwrap_or_default());
        }
    }

    pub(crate) fn request_check(&self, at: usize) {
        if let Some(member) = self.shared.members.get(at) {
            lock(&member.health).is_check_requested = true;
        }
    }

    /// Requests a health check of an endpoint that returned an unusable response. For any other fault, starts
    /// a back-off of the endpoint.
    pub(crate) fn record_fault(&self, at: usize, fault: &Fault) {
        let Some(member) = self.shared.members.get(at) else {
            return;
        };
        let mut health = lock(&member.health);
        match fault {
            Fault::Malformed(_)
            | Fault::TooLarge { .. }
            | Fault::WrongHeight { .. }
            | Fault::Behind { .. } => {
                health.is_check_requested = true;
            }
            _ => {
                let now = Instant::now();
                if health.warnings.is_logged(now) {
                    tracing::warn!(endpoint = %member.endpoint.name, %fault, "request to a chain node failed, the node is not used until it passes a check: repair the node, or remove it from --node");
                }
                health.record_failure(now, fault.clone(), jitter(at));
            }
        }
    }

    fn error_at(&self, at: usize, method: &str, fault: Fault) -> NodeError {
        let member = self.shared.members.get(at);
        if let Some(member) = member {
            member.endpoint.counters.count_fault(&fault);
        }
        NodeError {
            endpoint: member.map_or_else(|| "".into(), |m| Arc::clone(&m.endpoint.name)),
            method: method.into(),
            fault,
        }
    }

    /// Returns an error with the reason why no endpoint can be used.
    pub(crate) fn unavailable(&self, capability: Capability) -> NodeError {
        let mut able = self.shared.members.iter().filter(|m| is_able(m, capability));
        let text = match capability {
            Capability::Queries => "no endpoint has responded yet",
            Capability::Blocks => "no endpoint with JSON-RPC has responded, and gRPC provides no blocks",
        };
        let unknown = || Fault::Unreachable(text.to_owned());
        let last_fault = able.find_map(|m| {
            let fault = lock(&m.health).fault.clone();
            fault.map(|fault| (Arc::clone(&m.endpoint.name), fault))
        });
        let (endpoint, fault) = last_fault.unwrap_or_else(|| ("all endpoints".into(), unknown()));
        NodeError {
            endpoint,
            method: "status".into(),
            fault,
        }
    }
}

/// Makes the names of endpoints unique. Addresses that differ only in their credentials have the same name,
/// because names contain no credentials.
fn make_names_unique(members: &mut [Member]) {
    let mut names = BTreeSet::new();
    for (at, member) in members.iter_mut().enumerate() {
        if names.insert(Arc::clone(&member.endpoint.name)) {
            continue;
        }
        // No other reference to the endpoint exists yet.
        if let Some(endpoint) = Arc::get_mut(&mut member.endpoint) {
            endpoint.name = format!("{} ({})", endpoint.name, at + 1).into();
        }
    }
}

/// Returns true if the endpoint has the required capability. A gRPC endpoint provides no blocks.
fn is_able(member: &Member, capability: Capability) -> bool {
    capability == Capability::Queries || member.endpoint.rpc().is_some()
}

fn jitter(at: usize) -> u32 {
    u32::try_from(at).unwrap_or_default()
}
