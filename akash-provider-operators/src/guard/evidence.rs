//! Reads whether records are absent: first the list of the records, then their definition. If the definition
//! is deleted while its records are listed, the second reading finds no definition, or a definition that is
//! not established or has another UID.

use super::AbsenceEvidence;
use crate::operator_state::{OperatorIndex, OperatorState};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::error::within;
use akash_provider_kube_kernel::pages;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const READ: &str = "read whether records are absent";
/// Delay after the first failed reading; the delay doubles up to [`WAIT_MAX`].
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// Maximum delay between two readings of the evidence.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Client that lists the records of one kind and reads the CustomResourceDefinition of the kind.
pub(crate) struct RecordReader<K> {
    pub(crate) client: Client,
    pub(crate) api: Api<K>,
    /// Converts the name of a record object to the index key of the record.
    pub(crate) key: fn(&str) -> String,
    /// Timeout of one call to the API server.
    pub(crate) limit: Duration,
}

impl<K> RecordReader<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + 'static,
{
    /// Reads the evidence at the start, and after each request of the guard. Never returns.
    pub(crate) async fn follow<I: OperatorIndex>(self, state: Arc<OperatorState<I>>) {
        let mut wait = WAIT_FIRST;
        loop {
            match self.read().await {
                Ok(evidence) => {
                    state.learn(evidence);
                    wait = WAIT_FIRST;
                    state.evidence_wanted.notified().await;
                }
                Err(error) => {
                    state.fail(&error);
                    sleep(wait).await;
                    wait = (wait * 2).min(WAIT_MAX);
                }
            }
        }
    }

    async fn read(&self) -> Result<AbsenceEvidence, Error> {
        let asked = Instant::now();
        let listed = pages::metadata(&self.api, ListParams::default(), self.limit, READ).await?;
        let names = listed.into_iter().filter_map(|record| record.metadata.name);
        let records = names.map(|name| (self.key)(&name)).collect();
        let definition = self.definition().await?;
        Ok(AbsenceEvidence {
            asked,
            definition,
            records,
        })
    }

    /// Returns the UID of the definition. Fails if the definition is missing or is being deleted.
    async fn definition(&self) -> Result<String, Error> {
        let name = format!("{}.{}", K::plural(&()), K::group(&()));
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        // By a list: the accounts of operators have had that right before.
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = within(self.limit, READ, api.list(&params)).await?;
        let absent = |why: &str| {
            let message = format!("CustomResourceDefinition {name} {why}; apply deploy/crds to restore it");
            Error::new(ErrorKind::NotFound, READ, message)
        };
        let definition = found
            .items
            .into_iter()
            .next()
            .ok_or_else(|| absent("is missing"))?;
        if definition.metadata.deletion_timestamp.is_some() {
            return Err(absent("is being deleted"));
        }
        let conditions = definition.status.into_iter().flat_map(|status| status.conditions);
        let mut conditions = conditions.flatten();
        if !conditions.any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Err(absent("is not established"));
        }
        Ok(definition.metadata.uid.unwrap_or_default())
    }
}
