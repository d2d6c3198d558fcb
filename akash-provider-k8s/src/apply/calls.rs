//! API calls for the kinds of lease objects.

use super::item::{Data, ItemKind, ObjectId, data_of};
use super::plan::Delete;
use crate::labels;
use akash_provider_core::error::Error;
use akash_provider_kube_kernel::calls::KubeCalls;
use akash_provider_kube_kernel::pages;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ListParams, PropagationPolicy};
use kube::core::DynamicObject;

/// Selects which part of each listed object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadScope {
    /// Metadata only.
    Metadata,
    /// Metadata, and for Secrets also the hashes of the data.
    Data,
}

/// Deletes an object. Returns false if the object is missing, or if the object with this name has another
/// UID.
pub(super) async fn delete(
    calls: &KubeCalls,
    kind: ItemKind,
    ns: &str,
    name: &str,
    uid: Option<&str>,
) -> Result<bool, Error> {
    let policy = kind.is_workload().then_some(PropagationPolicy::Foreground);
    calls.delete(&kind.resource(), ns, name, uid, policy).await
}

/// Lists the objects of a kind that have the labels of the provider.
pub(super) async fn ours(calls: &KubeCalls, kind: ItemKind, ns: &str) -> Result<Vec<Delete>, Error> {
    let found = listed(calls, kind, Some(ns), ReadScope::Metadata).await?;
    let named = found.into_iter().map(|(meta, _)| Delete {
        id: ObjectId::new(kind, meta.name.unwrap_or_default()),
        uid: meta.uid,
    });
    Ok(named.collect())
}

/// Lists the objects of one kind that have the labels of the provider, in one namespace or in all
/// namespaces. `parts` selects whether the data of the objects is read.
pub(crate) async fn listed(
    calls: &KubeCalls,
    kind: ItemKind,
    ns: Option<&str>,
    parts: ReadScope,
) -> Result<Vec<(ObjectMeta, Data)>, Error> {
    let selector = match ns {
        Some(ns) => labels::to_selector(&labels::selector(ns)),
        None => labels::SELECTOR.to_owned(),
    };
    selected(calls, kind, ns, &selector, parts).await
}

/// Like [`listed`], with a label selector.
pub(crate) async fn selected(
    calls: &KubeCalls,
    kind: ItemKind,
    ns: Option<&str>,
    selector: &str,
    parts: ReadScope,
) -> Result<Vec<(ObjectMeta, Data)>, Error> {
    let (limit, operation) = (calls.limit(), calls.operation());
    let api: Api<DynamicObject> = calls.api(&kind.resource(), ns.unwrap_or_default());
    let params = ListParams::default().labels(selector);
    let found = match parts {
        ReadScope::Metadata => {
            let found = pages::metadata(&api, params, limit, operation).await?;
            found.into_iter().map(|o| (o.metadata, Data::new())).collect()
        }
        ReadScope::Data => {
            let found = pages::objects(&api, params, limit, operation).await?;
            found
                .into_iter()
                .map(|o| (o.metadata, data_of(&o.data)))
                .collect()
        }
    };
    Ok(found)
}
