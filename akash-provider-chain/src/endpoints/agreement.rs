//! What the reading of a record is worth: whether a second node says the same.
//!
//! Both are compared at one height: where the two answers are from different heights, the one that is ahead is
//! asked again about the height of the other. The reading is from that height.

use super::flights::Landed;
use super::{Endpoints, Need};
use crate::convert::Malformed;
use crate::endpoint::{Answer, Endpoint, Transport};
use crate::fault::{Fault, NodeError};
use crate::lock::lock;
use crate::method::Method;
use akash_provider_core::types::{Agreement, Height, Observed};
use prost::Message;
use std::sync::Arc;

/// A reading at one node: what was found, and at which height.
type Reading<T> = (Option<T>, Height);

impl Endpoints {
    /// Reads a record at the best node and at a second one.
    ///
    /// # Errors
    /// When the first reading fails.
    pub(crate) async fn observe<M, T, C>(&self, request: &M, convert: C) -> Result<Observed<T>, NodeError>
    where
        M: Method,
        T: PartialEq,
        C: Fn(M::Response) -> Result<T, Malformed>,
    {
        let malformed = |at, why: String| self.error_at(at, M::PATH, Fault::Malformed(why));
        let (at, value, height) = match self.fly::<M, M::Response>(request, None, |_| Ok(())).await {
            Ok(Landed { by, answer }) => {
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
        let (instead, height, agreement) = if self.witnesses(at).is_empty() {
            alone(Agreement::Single)
        } else {
            match self.second(at).await {
                Some(witness) => {
                    let reading = (value.as_ref(), height);
                    let compared = self.compare(at, witness, request, &convert, reading).await;
                    // A second node that fails leaves the reading unconfirmed, not wrong.
                    compared.unwrap_or_else(|_| alone(Agreement::Unreachable))
                }
                None => alone(Agreement::Unreachable),
            }
        };
        Ok(Observed {
            value: instead.unwrap_or(value),
            height,
            agreement,
        })
    }

    /// Asks, and says who answered.
    pub(crate) async fn ask_whom<M: Method>(
        &self,
        request: &M,
    ) -> (Result<M::Response, NodeError>, Option<usize>) {
        match self.fly::<M, M::Response>(request, None, |_| Ok(())).await {
            Ok(Landed { by, answer }) => {
                let malformed =
                    |e: prost::DecodeError| self.error_at(by, M::PATH, Fault::Malformed(e.to_string()));
                (M::Response::decode(answer.bytes).map_err(malformed), Some(by))
            }
            Err(error) => (Err(error), None),
        }
    }

    /// Asks another node than that one; `None` where there is none that can be asked.
    pub(crate) async fn ask_another<M: Method>(
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

    /// Queries two nodes where two are available: a stored value must not come from one node alone.
    ///
    /// # Errors
    /// When the first one fails, or the second one returns something else. A second one that fails is ignored.
    pub(crate) async fn ask_agreed<M: Method>(&self, request: &M) -> Result<M::Response, NodeError>
    where
        M::Response: PartialEq,
    {
        let (first, by) = self.ask_whom(request).await;
        let (first, Some(by)) = (first?, by) else {
            return Err(self.nobody(Need::Queries));
        };
        match self.ask_another(by, request).await {
            None => Ok(first),
            Some(Ok(second)) if second == first => Ok(first),
            Some(Err(error)) if !error.is_not_found() => Ok(first),
            Some(_) => {
                let why = "another node gives a different response".to_owned();
                Err(self.error_at(by, M::PATH, Fault::Untrusted(why)))
            }
        }
    }

    /// True where two endpoints are of different nodes.
    pub(crate) fn is_other_node(&self, one: usize, other: usize) -> bool {
        self.witnesses(one).contains(&other)
    }

    /// True where there are endpoints of two nodes.
    pub(crate) fn has_second(&self) -> bool {
        !self.witnesses(0).is_empty()
    }

    /// Compares at one height. `instead` is what the first node says at the lower height, where it was asked.
    async fn compare<M, T, C>(
        &self,
        first: usize,
        witness: usize,
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
        let second = self.endpoint(witness)?;
        let (seen, seen_at) = self.read(witness, &second, request, None, convert).await?;
        // Two absences at different heights are not enough: such an answer often does not say its height.
        if seen_at == height || (value == seen.as_ref() && value.is_some()) {
            return Ok((None, height.min(seen_at), verdict(value == seen.as_ref())));
        }
        if seen_at > height {
            let (seen, _) = self
                .read(witness, &second, request, Some(height), convert)
                .await?;
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
        endpoint: &Endpoint,
        request: &M,
        pin: Option<Height>,
        convert: &C,
    ) -> Result<Reading<T>, NodeError>
    where
        M: Method,
        C: Fn(M::Response) -> Result<T, Malformed>,
    {
        let malformed = |why: String| endpoint.error(M::PATH, Fault::Malformed(why));
        let Answer { bytes, height } =
            match endpoint.query(M::PATH, request.encode_to_vec().into(), pin).await {
                Ok(answer) => answer,
                Err(error) if error.is_not_found() => {
                    // Such an answer does not say its height; it is no evidence at any.
                    let newest = self.shared.members.get(at).map(|m| lock(&m.health).height);
                    return Ok((None, pin.or(newest).unwrap_or_default()));
                }
                Err(error) => return Err(error),
            };
        let decoded = M::Response::decode(bytes).map_err(|e| malformed(e.to_string()))?;
        let value = convert(decoded).map_err(|e| malformed(e.to_string()))?;
        Ok((Some(value), height))
    }

    /// The height at which a record was not found: what the node says, else the newest that is known of it.
    fn height_of_absence(&self, at: usize, fault: &Fault) -> Height {
        let said = match fault {
            Fault::NotFound { height, .. } => *height,
            _ => None,
        };
        let known = || self.shared.members.get(at).map(|m| lock(&m.health).height);
        said.or_else(known).unwrap_or_default()
    }

    fn position(&self, name: &str) -> usize {
        let mut members = self.shared.members.iter();
        members
            .position(|m| *m.endpoint.name == *name)
            .unwrap_or_default()
    }

    /// Endpoints of other nodes than that one.
    fn witnesses(&self, first: usize) -> Vec<usize> {
        let Ok(first_endpoint) = self.endpoint(first) else {
            return Vec::new();
        };
        let members = self.shared.members.iter().enumerate();
        let others = members.filter(|(at, m)| *at != first && !is_same_node(&first_endpoint, &m.endpoint));
        others.map(|(at, _)| at).collect()
    }

    /// The fastest healthy endpoint of another node.
    async fn second(&self, first: usize) -> Option<usize> {
        let others = self.witnesses(first);
        let healthy = || {
            let ready = self.ready(Need::Queries).into_iter();
            let latency = |at: &usize| self.shared.members.get(*at).and_then(|m| lock(&m.health).latency);
            ready.filter(|at| others.contains(at)).min_by_key(latency)
        };
        if let Some(at) = healthy() {
            return Some(at);
        }
        // Questions go to one node, so the others may never have been looked at.
        self.refresh_if_due(Need::Queries).await;
        healthy()
    }
}

/// The gRPC and the JSON-RPC of one host are one node; two ports of one kind are two.
fn is_same_node(a: &Arc<Endpoint>, b: &Arc<Endpoint>) -> bool {
    let kinds_differ = matches!(a.transport, Transport::Rpc(_)) != matches!(b.transport, Transport::Rpc(_));
    a.url.host_str() == b.url.host_str() && (kinds_differ || a.url.port() == b.url.port())
}
