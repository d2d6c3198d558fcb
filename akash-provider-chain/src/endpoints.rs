//! Several endpoints as one: the fastest healthy one is asked, and another one when it fails.
//!
//! Nothing is asked while nobody asks: an endpoint's health is read when a question comes and the last reading
//! is old. An endpoint that fails is left alone for a while that grows; only when none is left are all tried
//! again each second. The one in use is kept until it fails or another one is clearly faster for some time.
//! Equal questions under way share one answer.

mod agreement;
mod clock;
mod flights;
mod processed;
mod status;
#[cfg(test)]
mod tests;

use crate::convert::Malformed;
use crate::endpoint::health::Health;
use crate::endpoint::{Answer, BadEndpoint, Endpoint};
use crate::fault::{Blame, Fault, NodeError};
use crate::limits::Limits;
use crate::lock::lock;
use crate::method::Method;
use crate::tls::Roots;
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::types::Height;
use bytes::Bytes;
use flights::{Flights, Landed};
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

/// Blocks an endpoint may be behind the best one.
pub(crate) const LAG_MAX: Height = 5;
/// Differences of latency below this do not count.
const LATENCY_NOISE: Duration = Duration::from_millis(20);
/// First wait before endpoints are tried again when none is left; it doubles with an endpoint's failures.
const URGENT_MIN: Duration = Duration::from_millis(200);
/// Longest wait before endpoints are tried again when none is left.
const URGENT_MAX: Duration = Duration::from_secs(1);
/// First wait before a question is asked again; it doubles.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest wait before a question is asked again.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What an endpoint must be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Answer queries, which every endpoint can.
    Queries,
    /// Tell blocks, and take transactions.
    Blocks,
}

#[derive(Debug)]
struct Member {
    endpoint: Arc<Endpoint>,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Choice {
    queries: Option<usize>,
    blocks: Option<usize>,
    /// Who has been faster than the one in use, and since when.
    faster: Option<(usize, Instant)>,
    switches: u64,
    reason: Option<String>,
}

#[derive(Debug)]
struct Shared {
    members: Vec<Member>,
    chain_id: String,
    limits: Limits,
    processed: Mutex<Processed>,
    /// The clock is corrected by these nodes.
    corrects_clock: AtomicBool,
    choice: Mutex<Choice>,
    refreshing: tokio::sync::Mutex<()>,
    flights: Flights,
}

/// All endpoints of one chain. A clone is the same set.
#[derive(Debug, Clone)]
pub struct Endpoints {
    shared: Arc<Shared>,
}

impl Endpoints {
    /// The endpoints at `addresses`, which all belong to the chain `chain_id`. Nothing is connected yet.
    ///
    /// # Errors
    /// When an address cannot be an endpoint, or there is none.
    pub fn new<A: AsRef<str>>(addresses: &[A], chain_id: &str, limits: Limits) -> Result<Self, BadEndpoint> {
        Self::with_roots(addresses, chain_id, limits, &Roots::System)
    }

    /// The same; `roots` vouch for the nodes that are spoken to in TLS.
    ///
    /// # Errors
    /// As [`Endpoints::new`], and when the roots cannot be read.
    pub fn with_roots<A: AsRef<str>>(
        addresses: &[A],
        chain_id: &str,
        limits: Limits,
        roots: &Roots,
    ) -> Result<Self, BadEndpoint> {
        let member = |address: &A| {
            Ok(Member {
                endpoint: Arc::new(Endpoint::new(address.as_ref(), limits, roots)?),
                health: Mutex::default(),
            })
        };
        let mut members: Vec<Member> = addresses.iter().map(member).collect::<Result<_, BadEndpoint>>()?;
        tell_apart(&mut members);
        if members.is_empty() {
            return Err(BadEndpoint {
                address: String::new(),
                why: "none is given".to_owned(),
            });
        }
        let shared = Shared {
            members,
            chain_id: chain_id.to_owned(),
            limits,
            processed: Mutex::default(),
            corrects_clock: AtomicBool::new(false),
            choice: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            flights: Flights::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The chain they belong to.
    #[must_use]
    pub fn chain_id(&self) -> &str {
        &self.shared.chain_id
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// The newest height that an endpoint which tells blocks is known to have.
    pub(crate) fn newest(&self) -> Height {
        let ready = self.ready(Need::Blocks).into_iter();
        let members = ready.filter_map(|at| self.shared.members.get(at));
        members.map(|m| lock(&m.health).height).max().unwrap_or_default()
    }

    /// Asks a query of the best endpoint and, when that one fails, of others; the answer and its height.
    ///
    /// # Errors
    /// The last endpoint's fault, or the question's.
    pub async fn ask<M: Method>(
        &self,
        request: &M,
        pin: Option<Height>,
    ) -> Result<(M::Response, Height), NodeError> {
        self.ask_parts::<M, M::Response>(request, pin, |_| Ok(())).await
    }

    /// The same, with the answer read as another message that is cut in the same way. An answer that does not pass
    /// the check is a fault of the endpoint, so others are asked.
    pub(crate) async fn ask_parts<M: Method, R: Message + Default>(
        &self,
        request: &M,
        pin: Option<Height>,
        check: impl Fn(&R) -> Result<(), Malformed> + Clone + Send + Sync + 'static,
    ) -> Result<(R, Height), NodeError> {
        let landed = self.fly::<M, R>(request, pin, check).await?;
        let name = landed.by;
        let decoded = R::decode(landed.answer.bytes);
        let decoded = decoded.map_err(|e| self.error_at(name, M::PATH, Fault::Malformed(e.to_string())))?;
        Ok((decoded, landed.answer.height))
    }

    /// Calls a method of the JSON-RPC at the best endpoint that has one and, when it fails, at others.
    ///
    /// # Errors
    /// The last endpoint's fault, or the question's.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize + Clone + Send,
    ) -> Result<T, NodeError> {
        let ask = |at: usize| {
            let (params, endpoint) = (params.clone(), self.endpoint(at));
            async move { Ok((endpoint?.call(method, params).await?, None)) }
        };
        self.attempt(Need::Blocks, ask).await.map(|(_, answer)| answer)
    }

    /// What the endpoint in use says of itself, asked now.
    ///
    /// # Errors
    /// When none answers.
    pub async fn sync_info(&self) -> Result<SyncInfo, NodeError> {
        self.tip(false).await
    }

    /// The same; with `is_new` the height must be proven by a header also where nothing was processed before.
    pub(crate) async fn tip(&self, is_new: bool) -> Result<SyncInfo, NodeError> {
        let ask = |at: usize| {
            let endpoint = self.endpoint(at);
            async move {
                let endpoint = endpoint?;
                let info = endpoint.sync_info().await.map_err(NodeError::blaming_the_node)?;
                self.vet(&endpoint, &info, is_new).await?;
                let height = info.height;
                Ok((info, Some(height)))
            }
        };
        self.attempt(Need::Queries, ask).await.map(|(_, answer)| answer)
    }

    /// An endpoint that can do what is needed, not among those to avoid.
    pub(crate) async fn choose(&self, need: Need, avoid: &[usize]) -> Result<usize, NodeError> {
        self.refresh_if_due(need).await;
        let mut ready = self.ready(need);
        // When all are to be avoided, one of them is asked again all the same.
        if ready.iter().any(|at| !avoid.contains(at)) {
            ready.retain(|at| !avoid.contains(at));
        }
        self.prefer(need, &ready).ok_or_else(|| self.nobody(need))
    }

    pub(crate) fn endpoint(&self, at: usize) -> Result<Arc<Endpoint>, NodeError> {
        let member = self.shared.members.get(at);
        member
            .map(|m| Arc::clone(&m.endpoint))
            .ok_or_else(|| self.nobody(Need::Queries))
    }

    /// Runs a question against one endpoint after the other until one answers. The question says from which
    /// height its answer is, where it knows.
    pub(crate) async fn attempt<T, Q, F>(&self, need: Need, question: Q) -> Result<(usize, T), NodeError>
    where
        Q: Fn(usize) -> F,
        F: Future<Output = Result<(T, Option<Height>), NodeError>>,
    {
        if !self.shared.members.iter().any(|m| is_able(m, need)) {
            // Waiting makes no endpoint speak another protocol.
            return Err(self.nobody(need));
        }
        let mut avoid = Vec::new();
        let mut last = None;
        let mut wait = RETRY_MIN;
        for _ in 0..self.shared.limits.attempts.max(1) {
            let at = match self.choose(need, &avoid).await {
                Ok(at) => at,
                Err(error) => {
                    // What a node answered before says more than that nobody can be asked.
                    last.get_or_insert(error);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                    continue;
                }
            };
            let began = Instant::now();
            let error = match question(at).await {
                // An answer from before the floor must not count as a good one, however fast it came.
                Ok((answer, height)) => match self.check_height(at, height) {
                    Ok(()) => {
                        self.note_answer(at, began.elapsed(), height);
                        return Ok((at, answer));
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match error.fault.blame() {
                Blame::Question => return Err(error),
                Blame::Endpoint => self.note_fault(at, &error.fault),
                // It may lack this one height and be well otherwise.
                Blame::Height => {}
            }
            let is_gone = matches!(error.fault, Fault::Pruned(_));
            avoid.push(at);
            last = Some(error);
            if self.ready(need).iter().all(|at| avoid.contains(at)) {
                // Waiting brings no height back.
                if is_gone {
                    break;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
        Err(last.unwrap_or_else(|| self.nobody(need)))
    }

    async fn fly<M: Method, R: Message + Default>(
        &self,
        request: &M,
        pin: Option<Height>,
        check: impl Fn(&R) -> Result<(), Malformed> + Clone + Send + Sync + 'static,
    ) -> Result<Landed, NodeError> {
        let data = Bytes::from(request.encode_to_vec());
        let this = self.clone();
        let key = (M::PATH, data.clone(), pin);
        let flight = move || async move {
            let ask = |at: usize| {
                let (data, endpoint, check) = (data.clone(), this.endpoint(at), check.clone());
                async move {
                    let endpoint = endpoint?;
                    let answer: Answer = endpoint.query(M::PATH, data, pin).await?;
                    let unreadable = |why| endpoint.error(M::PATH, Fault::Malformed(why));
                    // Decoded here too, so that bytes which are no answer make another node be asked.
                    let readable = R::decode(answer.bytes.clone()).map_err(|e| unreadable(e.to_string()))?;
                    check(&readable).map_err(|e| unreadable(e.to_string()))?;
                    let height = answer.height;
                    // An old height that was asked for is no sign of an old node.
                    Ok((answer, pin.is_none().then_some(height)))
                }
            };
            let landed = this.attempt(Need::Queries, ask).await;
            landed.map(|(by, answer)| Landed { by, answer })
        };
        self.shared.flights.join(key, flight).await
    }

    fn note_answer(&self, at: usize, took: Duration, height: Option<Height>) {
        if let Some(member) = self.shared.members.get(at) {
            // 0 leaves the known height as it is.
            lock(&member.health).answered(took, height.unwrap_or_default());
        }
    }

    /// Looks again at an endpoint before long.
    pub(crate) fn doubt(&self, at: usize) {
        if let Some(member) = self.shared.members.get(at) {
            lock(&member.health).is_doubted = true;
        }
    }

    /// Leaves an endpoint alone that cannot be spoken to; looks again at one that only answered badly.
    pub(crate) fn note_fault(&self, at: usize, fault: &Fault) {
        let Some(member) = self.shared.members.get(at) else {
            return;
        };
        let mut health = lock(&member.health);
        match fault {
            Fault::Malformed(_)
            | Fault::TooLarge { .. }
            | Fault::WrongHeight { .. }
            | Fault::Behind { .. } => {
                health.is_doubted = true;
            }
            _ => {
                let now = Instant::now();
                if health.warnings.is_logged(now) {
                    tracing::warn!(endpoint = %member.endpoint.name, %fault, "a node cannot be used");
                }
                health.failed(now, fault.clone(), spread(at));
            }
        }
    }

    fn error_at(&self, at: usize, method: &str, fault: Fault) -> NodeError {
        let member = self.shared.members.get(at);
        NodeError {
            endpoint: member.map_or_else(|| "".into(), |m| Arc::clone(&m.endpoint.name)),
            method: method.into(),
            fault,
        }
    }

    /// Why nobody can be asked.
    pub(crate) fn nobody(&self, need: Need) -> NodeError {
        let mut able = self.shared.members.iter().filter(|m| is_able(m, need));
        let text = match need {
            Need::Queries => "no endpoint has been reached yet",
            Need::Blocks => "no endpoint with JSON-RPC has been reached; gRPC carries no blocks",
        };
        let unknown = || Fault::Unreachable(text.to_owned());
        let known = able.find_map(|m| {
            let fault = lock(&m.health).fault.clone();
            fault.map(|fault| (Arc::clone(&m.endpoint.name), fault))
        });
        let (endpoint, fault) = known.unwrap_or_else(|| ("all endpoints".into(), unknown()));
        NodeError {
            endpoint,
            method: "status".into(),
            fault,
        }
    }
}

/// Two addresses that differ in what is not shown get different names all the same: an endpoint is found by its own.
fn tell_apart(members: &mut [Member]) {
    let mut names = BTreeSet::new();
    for (at, member) in members.iter_mut().enumerate() {
        if names.insert(Arc::clone(&member.endpoint.name)) {
            continue;
        }
        // Nobody else has the endpoint yet.
        if let Some(endpoint) = Arc::get_mut(&mut member.endpoint) {
            endpoint.name = format!("{} ({})", endpoint.name, at + 1).into();
        }
    }
}

/// gRPC carries no blocks.
fn is_able(member: &Member, need: Need) -> bool {
    need == Need::Queries || member.endpoint.rpc().is_some()
}

fn spread(at: usize) -> u32 {
    u32::try_from(at).unwrap_or_default()
}
