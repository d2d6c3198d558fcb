//! Statistics of requests to the API server, as plain data.

mod api;
mod request;

pub use api::{ApiCalls, ApiStatistics, CountedCalls};
pub use request::{ApiCall, ApiResult, Verb};
