//! Queries by the path of their service, for `abci_query` and gRPC alike.

pub(super) mod cosmos;
mod records;

use super::node::{NoState, Node, State};
use akash_provider_chain::convert::Malformed;
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse};
use akash_provider_core::types::Height;
use prost::Message;
use std::fmt::Display;
use std::str::FromStr;
use tonic::Code;

/// Records of a page where the question names no number, as the network's default.
const PAGE_DEFAULT: usize = 100;
/// Most records of a page.
const PAGE_MAX: usize = 10_000;

/// An answer that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    /// As gRPC tells it.
    pub(super) status: Code,
    /// The text over gRPC.
    pub(super) text: String,
    /// The text over `abci_query`, without what its code adds.
    log: String,
    /// The code over `abci_query`, where it does not follow from the status.
    number: Option<(u32, &'static str)>,
    /// Refused before there was a state to ask: gRPC then says no height.
    pub(super) is_without_state: bool,
}

impl Refused {
    /// A module's own error of something that is not there.
    fn not_found(module: &str, code: u32, text: &str) -> Self {
        Self {
            status: Code::NotFound,
            text: format!("codespace {module} code {code}: {text}"),
            log: text.to_owned(),
            number: None,
            is_without_state: false,
        }
    }

    /// An error that says its status.
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

    /// One of the shared codes.
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

    /// Code and text of an `abci_query` answer; the codespace is always `sdk`.
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

impl From<Malformed> for Refused {
    fn from(error: Malformed) -> Self {
        Self::malformed(&error)
    }
}

impl From<NoState> for Refused {
    fn from(error: NoState) -> Self {
        let refused = match error {
            NoState::Future => Self::sdk(
                26,
                "invalid height",
                "cannot query with height in the future; please provide a valid height",
            ),
            NoState::Pruned { asked, newest } => Self::sdk(
                38,
                "not found",
                format!(
                    "failed to load state at height {asked}; version does not exist (latest height: {newest})"
                ),
            ),
        };
        refused.without_state()
    }
}

/// Which transport a question came through: some services are behind one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Abci,
    Grpc,
}

/// Answers a question about the state after a block; the newest for height 0.
pub(super) fn answer(
    node: &Node,
    transport: Transport,
    path: &str,
    data: &[u8],
    asked: Height,
) -> Result<(Vec<u8>, Height), (Refused, Height)> {
    let newest = node.lock().height();
    let at_newest = |refused: Refused| (refused, newest);
    let (height, state) = {
        let inner = node.lock();
        inner.state(asked).map_err(|e| at_newest(e.into()))?
    };
    let answer = cosmos::answer(node, transport, &state, path, data, height)
        .or_else(|| records::answer(&state, path, data))
        .unwrap_or_else(|| Err(unknown(transport, path)));
    answer
        .map(|bytes| (bytes, height))
        .map_err(|refused| (refused, height))
}

fn unknown(transport: Transport, path: &str) -> Refused {
    match transport {
        Transport::Abci => Refused::sdk(6, "unknown request", "unknown query path"),
        Transport::Grpc => {
            let service = path.trim_start_matches('/').split('/').next().unwrap_or_default();
            Refused::status(Code::Unimplemented, format!("unknown service {service}")).without_state()
        }
    }
}

type Answered = Result<Vec<u8>, Refused>;

/// The answer when the path is this question's.
fn ask<M: Method + Default>(
    path: &str,
    data: &[u8],
    answer: impl FnOnce(M) -> Result<M::Response, Refused>,
) -> Option<Answered> {
    if path != M::PATH {
        return None;
    }
    let request = match M::decode(data) {
        Ok(request) => request,
        Err(error) => return Some(Err(Refused::malformed(&error))),
    };
    Some(answer(request).map(|response| response.encode_to_vec()))
}

/// Where a record stands in a listing: its state, and its id within that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<I>(usize, I);

impl<I: Display> Display for Place<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl<I: FromStr> FromStr for Place<I> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (state, id) = text.split_once('/').ok_or(())?;
        Ok(Self(state.parse().map_err(|_| ())?, id.parse().map_err(|_| ())?))
    }
}

/// A page of records that come in the order of their places.
fn page<T, W, P: Ord + Display + FromStr>(
    records: impl Iterator<Item = T>,
    place: impl Fn(&T) -> P,
    wire: impl Fn(&T) -> W,
    request: Option<PageRequest>,
) -> Result<(Vec<W>, Option<PageResponse>), Refused> {
    let request = request.unwrap_or_default();
    let invalid = |text: &str| Refused::status(Code::InvalidArgument, text);
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
    // The key is the one of the first record of the page, as the network's is.
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

/// True where a filter names nothing, or this.
fn is_like<T: PartialEq + Default>(filter: &T, value: &T) -> bool {
    *filter == T::default() || filter == value
}

/// A filter by state: its name, or nothing for all.
fn wanted_states<S: Copy>(name: &str, states: &[(&str, S)]) -> Result<Vec<S>, Refused> {
    let all = || states.iter().map(|(_, state)| *state).collect();
    if name.is_empty() {
        return Ok(all());
    }
    let found = states.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, state)| vec![*state])
        .ok_or_else(|| Refused::status(Code::InvalidArgument, "invalid state value"))
}

type At<'a> = &'a State;
