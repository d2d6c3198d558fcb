//! The check of damaged records. The tests of a backend cause the damage.

use super::{Setup, listed, remove};
use crate::cluster::{Cluster, RecordDefect};
use crate::types::LeaseId;
use futures::future::BoxFuture;
use std::fmt;

/// Function that damages the stored record of a lease, and waits until the backend has observed the damage.
pub type DamageFn<'a> = Box<dyn Fn(LeaseId) -> BoxFuture<'a, ()> + Send + Sync + 'a>;

/// Functions that damage records of a backend.
pub struct Damage<'a> {
    /// Makes a record unreadable.
    pub corrupt: DamageFn<'a>,
    /// Deletes a record but not its workload; `None` if no workload can exist without its record.
    pub delete: Option<DamageFn<'a>>,
}

impl fmt::Debug for Damage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Damage")
            .field("delete", &self.delete.is_some())
            .finish_non_exhaustive()
    }
}

/// Checks that an unreadable or missing record is reported, is repaired by a deploy, and does not prevent a
/// teardown.
///
/// # Panics
/// Panics when the backend violates the rule.
pub async fn damaged_records_are_reported(cluster: &dyn Cluster, setup: &Setup, damage: &Damage<'_>) {
    let corrupt = (20, RecordDefect::Unreadable, Some(&damage.corrupt));
    let delete = (21, RecordDefect::Unrecorded, damage.delete.as_ref());
    for (dseq, remains, harm) in [corrupt, delete] {
        let Some(harm) = harm else { continue };
        let rule = setup.rule(format!("a record that is {remains:?} is reported"));
        let lease = setup.lease(1, dseq);
        let deployment = setup.deployment(&lease, 1);
        rule.ok("deploy", cluster.deploy(&deployment)).await;
        for repair in [true, false] {
            harm(lease.clone()).await;
            let all = rule.ok("deployments", cluster.deployments()).await;
            let is_listed = all.deployments.iter().any(|d| d.lease == lease);
            assert!(!is_listed, "{rule}: {lease} has no usable record");
            let reports: Vec<_> = all.unusable.iter().filter(|u| u.belongs_to(&lease)).collect();
            assert_eq!(reports.len(), 1, "{rule}: {lease} is reported once");
            assert_eq!(reports[0].remains, remains, "{rule}");
            assert!(
                !reports[0].problem.is_empty(),
                "{rule}: the report names the problem"
            );
            if repair {
                rule.ok("deploy", cluster.deploy(&deployment)).await;
                let there = listed(cluster, setup, &lease, &rule).await;
                assert_eq!(
                    there.as_ref(),
                    Some(&deployment),
                    "{rule}: its manifest repairs the record"
                );
            } else {
                remove(cluster, setup, &lease, &rule).await;
                assert_eq!(
                    listed(cluster, setup, &lease, &rule).await,
                    None,
                    "{rule}: after its teardown"
                );
            }
        }
    }
}
