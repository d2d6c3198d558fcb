//! Confirmation of responses by a second node.
//!
//! Equal records agree at any heights. All other responses are compared at one height: the node with the
//! higher response is queried again at the lower height. The lower height becomes the height of the result.

use super::pending::SharedResponse;
use super::{Capability, Endpoints};
use crate::convert::Malformed;
use crate::endpoint::{NodeEndpoint, QueryResponse, Transport};
use crate::fault::{Fault, NodeError};
use crate::lock::lock;
use crate::method::Method;
use akash_provider_core::types::{Agreement, Height, Observed};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// Maximum difference between the times of the newest blocks of two nodes. In this time, the Akash network
/// creates about [`LAG_MAX`](super::LAG_MAX) blocks.
const LAG_TIME: Duration = Duration::from_secs(30);

/// Queried record (`None` if the record does not exist), and height of the response.
type RecordAtHeight<T> = (Option<T>, Height);

impl Endpoints {
    /// Queries a record at the best node and at a second node, and compares the responses.
    ///
    /// # Errors
    /// Returns an error if the first query fails.
    pub(crate) async fn observe<M, T, C>(&self, request: &M, convert: C) -> Result<Observed<T>, NodeError>
    where
        M: Method,
        T: PartialEq,
        C: Fn(M::Response) -> Result<T, Malformed>,
    {
        let malformed = |at, why: String| self.error_at(at, M::PATH, Fault::Malformed(why));
        let (at, value, height) = match self
            .query_shared::<M, M::Response>(request, None, |_| Ok(()))
            .await
        {
            Ok(SharedResponse { by, answer }) => {
                let decoded = M::Response::decode(answer.bytes).map_err(|e| malformed(by, e.to_string()))?;
                let value = convert(decoded).map_err(|e| malformed(by, e.to_string()))?;
                (by, Some(value), answer.height)
            }
            Err(error) if error.is_not_found() => {
                let at = self.position(&error.endpoint);
                (at, None, self.height_of_absence(at, &error.fault))
            }
            Err(error) => return Err(error),
        };
        let alone = |agreement| (None, height, agreement);
        let (instead, height, agreement) = if self.other_nodes(at).is_empty() {
            alone(Agreement::Single)
        } else {
            match self.second(at).await {
                Some(second) => {
                    let reading = (value.as_ref(), height);
                    let compared = self.compare(at, second, request, &convert, reading).await;
                    // If the second node fails, the record is unconfirmed, but not wrong.
                    compared.unwrap_or_else(|_| alone(Agreement::Unreachable))
                }
                None => alone(Agreement::Unreachable),
            }
        };
        Ok(Observed::new(instead.unwrap_or(value), height, agreement))
    }

    pub(crate) async fn query_with_endpoint<M: Method>(
        &self,
        request: &M,
    ) -> (Result<M::Response, NodeError>, Option<usize>) {
        match self
            .query_shared::<M, M::Response>(request, None, |_| Ok(()))
            .await
        {
            Ok(SharedResponse { by, answer }) => {
                let malformed =
                    |e: prost::DecodeError| self.error_at(by, M::PATH, Fault::Malformed(e.to_string()));
                (M::Response::decode(answer.bytes).map_err(malformed), Some(by))
            }
            Err(error) => (Err(error), None),
        }
    }

    /// Sends a query to a node other than the node of the endpoint `first`. Returns `None` if no other node can be
    /// used.
    pub(crate) async fn query_another<M: Method>(
        &self,
        first: usize,
        request: &M,
    ) -> Option<Result<M::Response, NodeError>> {
        let endpoint = self.endpoint(self.second(first).await?).ok()?;
        let answer = endpoint
            .query(M::PATH, request.encode_to_vec().into(), None)
            .await;
        Some(answer.and_then(|answer| {
            let decoded = M::Response::decode(answer.bytes);
            decoded.map_err(|e| endpoint.error(M::PATH, Fault::Malformed(e.to_string())))
        }))
    }

    /// Sends a query to two nodes, compares the responses, and returns the response of the first node. If no
    /// second node can be used, the response is returned without a comparison.
    ///
    /// # Errors
    /// Returns an error if the first node fails, or if the second node returns a different response. "Not
    /// found" from the second node counts as a different response. Other failures of the second node are
    /// ignored.
    pub(crate) async fn query_agreed<M: Method>(&self, request: &M) -> Result<M::Response, NodeError>
    where
        M::Response: PartialEq,
    {
        let (first, by) = self.query_with_endpoint(request).await;
        let (first, Some(by)) = (first?, by) else {
            return Err(self.unavailable(Capability::Queries));
        };
        match self.query_another(by, request).await {
            None => Ok(first),
            Some(Ok(second)) if second == first => Ok(first),
            Some(Err(error)) if !error.is_not_found() => Ok(first),
            Some(_) => {
                let why = "another node returns a different response".to_owned();
                Err(self.error_at(by, M::PATH, Fault::Untrusted(why)))
            }
        }
    }

    pub(crate) fn is_other_node(&self, one: usize, other: usize) -> bool {
        self.other_nodes(one).contains(&other)
    }

    /// Returns true if there are endpoints of at least two nodes.
    pub(crate) fn has_second(&self) -> bool {
        !self.other_nodes(0).is_empty()
    }

    /// Compares the record of the node `first` with the record of the node `other`. If the records differ,
    /// queries the node with the higher height again, at the lower height.
    ///
    /// Returns the second response of the node `first`, the lower height, and the result of the comparison.
    /// The second response is `None` if the node `first` was queried only once.
    async fn compare<M, T, C>(
        &self,
        first: usize,
        other: usize,
        request: &M,
        convert: &C,
        (value, height): (Option<&T>, Height),
    ) -> Result<(Option<Option<T>>, Height, Agreement), NodeError>
    where
        M: Method,
        T: PartialEq,
        C: Fn(M::Response) -> Result<T, Malformed>,
    {
        let verdict = |same: bool| {
            if same {
                Agreement::Confirmed
            } else {
                Agreement::Disputed
            }
        };
        let second = self.endpoint(other)?;
        let (seen, seen_at) = self.read(other, &second, request, None, convert).await?;
        // Two absent records at different heights are inconclusive, because such a response often has no height.
        if seen_at == height || (value == seen.as_ref() && value.is_some()) {
            return Ok((None, height.min(seen_at), verdict(value == seen.as_ref())));
        }
        if seen_at > height {
            let (seen, _) = self.read(other, &second, request, Some(height), convert).await?;
            return Ok((None, height, verdict(value == seen.as_ref())));
        }
        let endpoint = self.endpoint(first)?;
        let (again, _) = self
            .read(first, &endpoint, request, Some(seen_at), convert)
            .await?;
        let same = again == seen;
        Ok((Some(again), seen_at, verdict(same)))
    }

    async fn read<M, T, C>(
        &self,
        at: usize,
        endpoint: &NodeEndpoint,
        request: &M,
        pin: Option<Height>,
        convert: &C,
    ) -> Result<RecordAtHeight<T>, NodeError>
    where
        M: Method,
        C: Fn(M::Response) -> Result<T, Malformed>,
    {
        let malformed = |why: String| endpoint.error(M::PATH, Fault::Malformed(why));
        let QueryResponse { bytes, height } =
            match endpoint.query(M::PATH, request.encode_to_vec().into(), pin).await {
                Ok(answer) => answer,
                Err(error) if error.is_not_found() => {
                    // Such a response has no height, and is no evidence.
                    let newest = self.shared.members.get(at).map(|m| lock(&m.health).height);
                    return Ok((None, pin.or(newest).unwrap_or_default()));
                }
                Err(error) => return Err(error),
            };
        let decoded = M::Response::decode(bytes).map_err(|e| malformed(e.to_string()))?;
        let value = convert(decoded).map_err(|e| malformed(e.to_string()))?;
        Ok((Some(value), height))
    }

    /// Returns the height of a "not found" response, or the newest known height of the endpoint if the
    /// response has no height.
    fn height_of_absence(&self, at: usize, fault: &Fault) -> Height {
        let reported = match fault {
            Fault::NotFound { height, .. } => *height,
            _ => None,
        };
        let last_height = || self.shared.members.get(at).map(|m| lock(&m.health).height);
        reported.or_else(last_height).unwrap_or_default()
    }

    fn position(&self, name: &str) -> usize {
        let mut members = self.shared.members.iter();
        members
            .position(|m| *m.endpoint.name == *name)
            .unwrap_or_default()
    }

    /// Returns the endpoints that do not belong to the node of endpoint `first`.
    fn other_nodes(&self, first: usize) -> Vec<usize> {
        let Ok(first_endpoint) = self.endpoint(first) else {
            return Vec::new();
        };
        let members = self.shared.members.iter().enumerate();
        let others = members.filter(|(at, m)| *at != first && !is_same_node(&first_endpoint, &m.endpoint));
        others.map(|(at, _)| at).collect()
    }

    /// Returns the fastest healthy endpoint that does not belong to the node of endpoint `first`.
    async fn second(&self, first: usize) -> Option<usize> {
        let others = self.other_nodes(first);
        let healthy = || {
            let ready = self.ready(Capability::Queries).into_iter();
            let latency = |at: &usize| self.shared.members.get(*at).and_then(|m| lock(&m.health).latency);
            ready.filter(|at| others.contains(at)).min_by_key(latency)
        };
        if let Some(at) = healthy() {
            return Some(at);
        }
        // Requests use one node, so the health of the others may be unknown.
        self.refresh_if_due(Capability::Queries).await;
        match healthy() {
            Some(at) => Some(at),
            None => self.timely(first, &others).await,
        }
    }

    /// Returns an endpoint of `others` with the fault [`Fault::Behind`] and a recent block. The block is at
    /// most [`LAG_TIME`] older than the newest block of `first`.
    ///
    /// An honest endpoint also has this fault if `first` reports a height that is too high.
    async fn timely(&self, first: usize, others: &[usize]) -> Option<usize> {
        let newest = lock(&self.shared.members.get(first)?.health).tip.time;
        for at in others {
            let member = self.shared.members.get(*at)?;
            let is_behind = matches!(lock(&member.health).fault, Some(Fault::Behind { .. }));
            if !is_behind {
                continue;
            }
            let status = member.endpoint.sync_info();
            let limit = self.shared.limits.connect_time;
            let Ok(Ok(info)) = tokio::time::timeout(limit, status).await else {
                continue;
            };
            let is_ours = info.chain_id == self.shared.chain_id && !info.catching_up;
            if is_ours && info.time.plus(LAG_TIME) >= newest {
                return Some(*at);
            }
        }
        None
    }
}

/// Returns true if both endpoints count as one node. The hosts must be equal. The ports must also be equal,
/// unless one endpoint uses gRPC and the other JSON-RPC.
fn is_same_node(a: &Arc<NodeEndpoint>, b: &Arc<NodeEndpoint>) -> bool {
    let kinds_differ = matches!(a.transport, Transport::Rpc(_)) != matches!(b.transport, Transport::Rpc(_));
    a.url.host_str() == b.url.host_str() && (kinds_differ || a.url.port() == b.url.port())
}
