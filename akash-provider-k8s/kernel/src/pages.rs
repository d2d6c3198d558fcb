//! Paginated lists of objects and of their metadata.

use crate::error::within;
use akash_provider_core::error::{Error, ErrorKind};
use kube::Api;
use kube::api::ListParams;
use kube::core::{ObjectList, PartialObjectMeta};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Objects per page of a list.
pub const PAGE: u32 = 500;
/// Maximum number of pages of one list, enough for 100,000 objects. Stops the list of a server that always
/// returns another page.
pub const PAGES: usize = 200;

/// Lists the metadata of all objects that `params` select. `limit` applies to each page. Never returns a
/// partial list.
///
/// # Errors
/// The errors of the API server; [`ErrorKind::NotFound`] for an unknown kind.
pub async fn metadata<K>(
    api: &Api<K>,
    params: ListParams,
    limit: Duration,
    operation: &'static str,
) -> Result<Vec<PartialObjectMeta<K>>, Error>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let page = |params: ListParams| async move { api.list_metadata(&params).await };
    all(params, limit, operation, page).await
}

/// Lists all objects that `params` select. `limit` applies to each page. Never returns a partial list.
///
/// # Errors
/// The errors of the API server; [`ErrorKind::NotFound`] for an unknown kind.
pub async fn objects<K>(
    api: &Api<K>,
    params: ListParams,
    limit: Duration,
    operation: &'static str,
) -> Result<Vec<K>, Error>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let page = |params: ListParams| async move { api.list(&params).await };
    all(params, limit, operation, page).await
}

async fn all<T: Clone, F>(
    params: ListParams,
    limit: Duration,
    operation: &'static str,
    page: impl Fn(ListParams) -> F,
) -> Result<Vec<T>, Error>
where
    F: Future<Output = kube::Result<ObjectList<T>>>,
{
    let mut params = params.limit(PAGE);
    let mut found = Vec::new();
    for _ in 0..PAGES {
        let page = within(limit, operation, page(params.clone())).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    let message = format!("the list of the API server has more than {PAGES} pages of {PAGE} objects");
    Err(Error::new(ErrorKind::Unavailable, operation, message))
}
