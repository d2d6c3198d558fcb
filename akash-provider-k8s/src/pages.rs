//! Lists of metadata, page by page: what is there, without what it says.

use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Objects of one page of a list.
pub(crate) const PAGE: u32 = 500;
/// Pages of one list: a hundred thousand objects, more than any cluster has of what is listed here. A server that
/// always has another page is not followed for ever.
pub(crate) const PAGES: usize = 200;

/// Metadata of all objects that `params` select. Each page has the whole of `limit`; a list that breaks off is an
/// error and never a short list.
///
/// # Errors
/// As the API server answers; [`ErrorKind::NotFound`] for a kind it does not know.
pub(crate) async fn metadata<K>(
    api: &Api<K>,
    params: ListParams,
    limit: Duration,
    operation: &'static str,
) -> Result<Vec<PartialObjectMeta<K>>, Error>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = within(limit, operation, api.list_metadata(&params)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(endless(operation))
}

/// A list has more pages than anybody reads.
pub(crate) fn endless(operation: &'static str) -> Error {
    let message = format!("the API server's list has more than {PAGES} pages of {PAGE} objects");
    Error::new(ErrorKind::Unavailable, operation, message)
}
