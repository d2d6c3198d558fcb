//! Lists of metadata, page by page: what is there, without what it says.

use crate::error::within;
use akash_provider_core::error::Error;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// Metadata of all objects that `params` select. Each page has the whole of `limit`; a list that breaks off is an
/// error and never a short list.
///
/// # Errors
/// As the API server answers; [`ErrorKind::NotFound`](akash_provider_core::error::ErrorKind::NotFound) for a kind
/// it does not know.
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
    loop {
        let page = within(limit, operation, api.list_metadata(&params)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
}
