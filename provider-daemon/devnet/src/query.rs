//! Queries by the path of their service, for `abci_query` and gRPC.

pub(super) mod cosmos;
mod records;

use super::node::{DevnetNode, MarketState, NoState};
use akash_provider_chain::convert::Malformed;
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse};
use akash_provider_core::types::Height;
use prost::Message;
use std::fmt::Display;
use std::str::FromStr;
use tonic::Code;

/// Default number of records in a page, as on the Akash network.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 10_000;

/// Error of a query. Contains the fields of the gRPC response and of the `abci_query` response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryError {
    /// gRPC status of the error.
    pub(super) status: Code,
    /// Error text that a response over gRPC contains.
    pub(super) text: String,
    /// Error text for `abci_query`. The response also contains the text of the error code.
    log: String,
    /// Error code for `abci_query` and its text. With `None`, both follow from `status`.
    number: Option<(u32, &'static str)>,
    /// True if the query failed before the node selected a height. The gRPC response then contains no height.
    pub(super) is_without_state: bool,
}

impl QueryError {
    fn not_found(module: &str, code: u32, text: &str) -> Self {
        Self {
            status: Code::NotFound,
            text: format!("codespace {module} code {code}: {text}"),
            log: text.to_owned(),
            number: None,
            is_without_state: false,
        }
    }

    pub(super) fn status(status: Code, text: impl Into<String>) -> Self {
        let text = text.into();
        let name = match status {
            Code::NotFound => "NotFound",
            Code::InvalidArgument => "InvalidArgument",
            Code::Unimplemented => "Unimplemented",
            _ => "Unknown",
        };
        Self {
            status,
            log: format!("rpc error: code = {name} desc = {text}"),
            text,
            number: None,
            is_without_state: false,
        }
    }

    /// Creates an error with a code of the codespace `sdk`.
    fn sdk(number: u32, meaning: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            status: Code::Unknown,
            text: format!("{text}: {meaning}"),
            log: text,
            number: Some((number, meaning)),
            is_without_state: false,
        }
    }

    fn without_state(self) -> Self {
        Self {
            is_without_state: true,
            ..self
        }
    }

    fn malformed(error: &impl Display) -> Self {
        Self::sdk(18, "invalid request", error.to_string())
    }

    /// Returns the error code and the error text for `abci_query`. The code belongs to the codespace `sdk`.
    pub(super) fn abci(&self) -> (u32, String) {
        let (code, meaning) = self.number.unwrap_or(match self.status {
            Code::NotFound => (22, "key not found"),
            Code::InvalidArgument | Code::FailedPrecondition => (18, "invalid request"),
            Code::Unauthenticated => (4, "unauthorized"),
            _ => (6, "unknown request"),
        });
        (code, format!("{}: {meaning}", self.log))
    }
}

impl From<Malformed> for QueryError {
    fn from(error: Malformed) -> Self {
        Self::malformed(&error)
    }
}

impl From<NoState> for QueryError {
    fn from(error: NoState) -> Self {
        let refused = match error {
            NoState::Future => Self::sdk(
                26,
                "invalid height",
                "cannot query with height in the future; please provide a valid height",
            ),
            NoState::Pruned { requested, newest } => Self::sdk(
                38,
                "not found",
                format!(
                    "failed to load state at height {requested}; version does not exist (latest height: {newest})"
                ),
            ),
        };
        refused.without_state()
    }
}

/// Transport of a query. Some services are available on one transport only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Abci,
    Grpc,
}

/// Executes a query on the state after the block at a height, or on the newest state for height 0.
pub(super) fn execute(
    node: &DevnetNode,
    transport: Transport,
    path: &str,
    data: &[u8],
    requested: Height,
) -> Result<(Vec<u8>, Height), (QueryError, Height)> {
    let newest = node.lock().height();
    let at_newest = |refused: QueryError| (refused, newest);
    let (height, state) = {
        let inner = node.lock();
        inner.state(requested).map_err(|e| at_newest(e.into()))?
    };
    let mut call = QueryCall {
        path,
        data,
        result: None,
    };
    cosmos::execute(node, transport, &state, height, &mut call);
    records::execute(&state, &mut call);
    let result = call.result.unwrap_or_else(|| Err(unknown(transport, path)));
    result
        .map(|bytes| (bytes, height))
        .map_err(|refused| (refused, height))
}

fn unknown(transport: Transport, path: &str) -> QueryError {
    match transport {
        Transport::Abci => QueryError::sdk(6, "unknown request", "unknown query path"),
        Transport::Grpc => {
            let service = path.trim_start_matches('/').split('/').next().unwrap_or_default();
            QueryError::status(Code::Unimplemented, format!("unknown service {service}")).without_state()
        }
    }
}

type QueryResult = Result<Vec<u8>, QueryError>;

/// Query, and its result after a handler has served the path.
struct QueryCall<'a> {
    path: &'a str,
    data: &'a [u8],
    result: Option<QueryResult>,
}

impl QueryCall<'_> {
    /// Executes the query if its path is the path of the method `M`.
    fn handle<M: Method + Default>(&mut self, handler: impl FnOnce(M) -> Result<M::Response, QueryError>) {
        if self.path == M::PATH {
            let request = M::decode(self.data).map_err(|error| QueryError::malformed(&error));
            let response = request.and_then(handler);
            self.result = Some(response.map(|response| response.encode_to_vec()));
        }
    }
}

/// Position of a record in a sorted list: a rank, such as the state of the record, and the ID of the record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ListPosition<I>(usize, I);

impl<I: Display> Display for ListPosition<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl<I: FromStr> FromStr for ListPosition<I> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (state, id) = text.split_once('/').ok_or(())?;
        Ok(Self(state.parse().map_err(|_| ())?, id.parse().map_err(|_| ())?))
    }
}

/// Returns a page of records, sorted by `place`.
fn page<T, W, P: Ord + Display + FromStr>(
    records: impl Iterator<Item = T>,
    place: impl Fn(&T) -> P,
    wire: impl Fn(&T) -> W,
    request: Option<PageRequest>,
) -> Result<(Vec<W>, Option<PageResponse>), QueryError> {
    let request = request.unwrap_or_default();
    let invalid = |text: &str| QueryError::status(Code::InvalidArgument, text);
    let first = match std::str::from_utf8(&request.key) {
        Ok("") => None,
        Ok(key) => Some(key.parse::<P>().map_err(|_| invalid("invalid pagination key"))?),
        Err(_) => return Err(invalid("invalid pagination key")),
    };
    if request.offset > 0 && first.is_some() {
        return Err(invalid(
            "invalid request, either offset or key is expected, got both",
        ));
    }
    let limit = match usize::try_from(request.limit) {
        Ok(0) => PAGE_DEFAULT,
        Ok(limit) => limit.min(PAGE_MAX),
        Err(_) => PAGE_MAX,
    };
    // As in the network, the key is that of the first record of the page.
    let mut rest = records
        .skip_while(|record| first.as_ref().is_some_and(|first| place(record) < *first))
        .skip(usize::try_from(request.offset).unwrap_or(usize::MAX));
    let items: Vec<W> = rest.by_ref().take(limit).map(|record| wire(&record)).collect();
    let next_key = rest.next().map(|record| place(&record).to_string().into_bytes());
    let pagination = PageResponse {
        next_key: next_key.unwrap_or_default(),
        total: items.len() as u64,
    };
    Ok((items, Some(pagination)))
}

/// Returns true if the filter is empty or equals the value.
fn matches_filter<T: PartialEq + Default>(filter: &T, value: &T) -> bool {
    *filter == T::default() || filter == value
}

/// Returns the state with the given name, or all states for an empty name.
fn wanted_states<S: Copy>(name: &str, states: &[(&str, S)]) -> Result<Vec<S>, QueryError> {
    let all = || states.iter().map(|(_, state)| *state).collect();
    if name.is_empty() {
        return Ok(all());
    }
    let found = states.iter().find(|(state, _)| *state == name);
    found
        .map(|(_, state)| vec![*state])
        .ok_or_else(|| QueryError::status(Code::InvalidArgument, "invalid state value"))
}

type At<'a> = &'a MarketState;
