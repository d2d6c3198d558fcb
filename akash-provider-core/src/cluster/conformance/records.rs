//! Records that somebody else has damaged. A suite cannot do that from outside, so a backend's tests say how.

use super::{Setup, listed, remove};
use crate::cluster::{Cluster, Remains};
use crate::types::LeaseId;
use futures::future::BoxFuture;
use std::fmt;

/// Does damage to what a backend keeps of a lease, behind its back; the backend has seen it when the future ends.
pub type Harm<'a> = Box<dyn Fn(LeaseId) -> BoxFuture<'a, ()> + Send + Sync + 'a>;

/// How records of a backend are damaged.
pub struct Damage<'a> {
    /// Makes a record unreadable.
    pub spoil: Harm<'a>,
    /// Takes a record away and leaves what runs; `None` where what runs cannot be without its record.
    pub lose: Option<Harm<'a>>,
}

impl fmt::Debug for Damage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Damage")
            .field("lose", &self.lose.is_some())
            .finish_non_exhaustive()
    }
}

/// A record that cannot be read, and what runs without a record, are told as such; the same manifest mends both
/// and a teardown takes both away.
///
/// # Panics
/// When it is not so.
pub async fn a_damaged_record_is_told_and_never_left_out(
    cluster: &dyn Cluster,
    setup: &Setup,
    damage: &Damage<'_>,
) {
    let spoil = (20, Remains::Unreadable, Some(&damage.spoil));
    let lose = (21, Remains::Unrecorded, damage.lose.as_ref());
    for (dseq, remains, harm) in [spoil, lose] {
        let Some(harm) = harm else { continue };
        let rule = setup.rule(format!("a record that is {remains:?} is told and never left out"));
        let lease = setup.lease(1, dseq);
        let deployment = setup.deployment(&lease, 1);
        rule.ok("deploy", cluster.deploy(&deployment)).await;
        for repair in [true, false] {
            harm(lease.clone()).await;
            let all = rule.ok("deployments", cluster.deployments()).await;
            let is_listed = all.deployments.iter().any(|d| d.lease == lease);
            assert!(!is_listed, "{rule}: nobody knows what {lease} is to run");
            let told: Vec<_> = all.unusable.iter().filter(|u| u.is_of(&lease)).collect();
            assert_eq!(told.len(), 1, "{rule}: {lease} is told once");
            assert_eq!(told[0].remains, remains, "{rule}");
            assert!(!told[0].problem.is_empty(), "{rule}: with what is wrong");
            if repair {
                rule.ok("deploy", cluster.deploy(&deployment)).await;
                let there = listed(cluster, setup, &lease, &rule).await;
                assert_eq!(there.as_ref(), Some(&deployment), "{rule}: its manifest mends it");
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
