//! Audit records of the deletions that the backend decides itself.
//!
//! | deletion | record |
//! |---|---|
//! | password Secret of a lease without Manifest; object that weakens the isolation of a lease; route, certificate or load balancer without record | before the deletion, which waits while the log cannot be written |
//! | pod that blocks an update; Secret that an update does not use; route or load balancer with a record; discovery pod | after the deletion |
//!
//! The provider records teardowns. Other deletions within an update of the tenant or a repair of an object are not
//! recorded: the object is written again, or the tenant removed it. Volumes remain until the teardown. Removed labels of
//! nodes are not recorded: they change only the capacity that the provider offers.

use akash_provider_core::audit::{Act, ActKind, ActOutcome, Actor, AuditLog, AuditedAct};
use akash_provider_core::error::Error;
use akash_provider_core::types::LeaseId;
use std::fmt::Display;
use std::sync::Arc;

/// Reason for the deletion of a Secret that an update does not use.
pub const UNUSED: &str = "not_in_manifest";

/// Missing record. The deletion of its objects has no other reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRecord {
    /// Key of the record in the index.
    pub key: String,
    /// Whether the reason for the missing record is known: the record was removed after the operator started,
    /// or the Manifest no longer contains the hostname or address.
    pub has_reason: bool,
}

/// Audit log of deletions. The default value records nothing.
#[derive(Debug, Clone, Default)]
pub struct DeletionLog(Option<Arc<dyn AuditLog>>);

impl PartialEq for DeletionLog {
    /// Returns true for any two logs, so that a comparison of settings ignores the log.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl DeletionLog {
    /// Creates a deletion log that writes to the audit log `log`.
    #[must_use]
    pub fn new(log: impl AuditLog) -> Self {
        Self(Some(Arc::new(log)))
    }

    /// Records the intent, runs `delete`, then records the outcome. `delete` returns false if the object is
    /// missing or has changed.
    ///
    /// # Errors
    /// Returns the error of `delete`. Also returns an error if the intent of a destructive act cannot be
    /// recorded. `delete` does not start in this case.
    pub async fn record(
        &self,
        act: Act,
        delete: impl Future<Output = Result<bool, Error>>,
    ) -> Result<bool, Error> {
        let Some(log) = &self.0 else {
            return delete.await;
        };
        let act = AuditedAct::new(Arc::clone(log), act);
        act.record_intent().await?;
        let deleted = delete.await;
        act.record_outcome(match &deleted {
            Ok(true) => ActOutcome::new("done", None),
            Ok(false) => ActOutcome::new(
                "unchanged",
                Some("the object is missing or has changed".to_owned()),
            ),
            Err(error) => ActOutcome::new("failed", Some(error.to_string())),
        });
        deleted
    }

    /// Records a deleted Secret with registry passwords. Does not wait for the log, so that no update waits.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub async fn record_secret(
        &self,
        reason: &str,
        lease: &LeaseId,
        (namespace, name, uid): (&str, &str, Option<&str>),
    ) -> Result<(), Error> {
        let secret = ("Secret", namespace, name, uid);
        let act = deletion(ActKind::SecretDelete, reason, lease, secret);
        self.record_completed(act).await
    }

    /// Records a completed deletion of a kind that does not wait for the log.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub async fn record_completed(&self, act: Act) -> Result<(), Error> {
        self.record(act, async { Ok(true) }).await.map(drop)
    }

    /// Runs `delete` for a route, certificate or load balancer, and records the deletion. The deletion waits
    /// for the log if a missing record is its reason. Otherwise the reason is `other_reason`, and the deletion
    /// does not wait, because an object that differs from its record can serve the wrong tenant.
    ///
    /// # Errors
    /// The errors of [`Self::record`].
    pub async fn record_route(
        &self,
        missing: Option<&MissingRecord>,
        other_reason: &str,
        subject: &str,
        object: DeletedObject<'_>,
        delete: impl Future<Output = Result<bool, Error>>,
    ) -> Result<bool, Error> {
        let Some(missing) = missing else {
            let is_deleted = delete.await?;
            if is_deleted {
                let act = deletion(ActKind::RouteDelete, other_reason, subject, object);
                self.record_completed(act).await?;
            }
            return Ok(is_deleted);
        };
        // Without a known reason, an administrator has confirmed the deletion.
        let reason = match missing.has_reason {
            true => "record_removed",
            false => "record_missing",
        };
        let act = deletion(ActKind::ObjectDelete, reason, subject, object);
        self.record(act, delete).await
    }
}

/// Kind, namespace, name and UID of a deleted object.
pub type DeletedObject<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

/// Returns the audit record of the deletion of an object.
#[must_use]
pub fn deletion(
    kind: ActKind,
    reason: &str,
    subject: impl Display,
    (object, namespace, name, uid): DeletedObject<'_>,
) -> Act {
    let mut act = Act::new(kind, Actor::Provider, subject.to_string()).with_reason(reason);
    let uid = uid.unwrap_or("unknown");
    act.evidence.object = Some(format!("{object} {namespace}/{name}, uid {uid}"));
    act
}
