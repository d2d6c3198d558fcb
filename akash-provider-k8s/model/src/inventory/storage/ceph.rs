//! Ceph clusters of Rook: size of a cluster, copies of a pool.

use super::ClassFacts;
use crate::inventory::reason::SizeProblem;
use kube::core::DynamicObject;
use serde_json::Value;

/// Share of the raw size at which Ceph stops writing (`mon_osd_full_ratio`).
const FULL: (i128, i128) = (95, 100);
/// Default number of copies of a Ceph pool.
const COPIES: i128 = 3;

/// Fields of a `CephCluster` that determine the storage capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephClusterFacts {
    namespace: Box<str>,
    name: Box<str>,
    /// Raw bytes, total and written; `None` without a status.
    raw: Option<(i64, i64)>,
}

/// Fields of a `CephBlockPool` that determine the storage capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephPoolFacts {
    namespace: Box<str>,
    name: Box<str>,
    /// Usable share of the raw bytes: 1 of 3 for three copies, 4 of 6 for erasure code 4+2.
    usable: (i128, i128),
}

impl CephClusterFacts {
    /// Decodes a cluster. If the status does not contain the number of used bytes, the cluster counts as
    /// full.
    #[must_use]
    pub fn from_object(object: &DynamicObject) -> Self {
        let amount = |name: &str| {
            let value = object.data.pointer(&format!("/status/ceph/capacity/{name}"))?;
            value.as_i64().filter(|n| *n >= 0)
        };
        let (namespace, name) = names(object);
        let total = amount("bytesTotal").filter(|n| *n > 0);
        Self {
            namespace,
            name,
            // Unknown use counts as full, so that no missing space is sold.
            raw: total.map(|total| (total, amount("bytesUsed").unwrap_or(total))),
        }
    }

    /// Returns true if the storage class uses this cluster. In Rook, `clusterID` is the namespace of the
    /// cluster.
    pub(super) fn is(&self, id: &str) -> bool {
        *self.namespace == *id
    }
}

impl CephPoolFacts {
    /// Decodes a pool. If the pool does not set the number of copies, the default of Ceph applies.
    #[must_use]
    pub fn from_object(object: &DynamicObject) -> Self {
        let number = |at: &str| {
            let number = object.data.pointer(at).and_then(Value::as_i64);
            // A divisor, so never zero.
            number.filter(|n| (1..=64).contains(n)).map(i128::from)
        };
        let chunks = (
            number("/spec/erasureCoded/dataChunks"),
            number("/spec/erasureCoded/codingChunks"),
        );
        let usable = match chunks {
            (Some(data), Some(coding)) => (data, data + coding),
            _ => (1, number("/spec/replicated/size").unwrap_or(COPIES)),
        };
        let (namespace, name) = names(object);
        Self {
            namespace,
            name,
            usable,
        }
    }
}

fn names(object: &DynamicObject) -> (Box<str>, Box<str>) {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    (text(&object.metadata.namespace), text(&object.metadata.name))
}

/// Returns the usable bytes of a class, and the bytes that other users use. `shared` returns the size of the
/// volumes that other users have in a Ceph cluster.
pub(super) fn amount(
    class: &ClassFacts,
    clusters: &[CephClusterFacts],
    pools: &[CephPoolFacts],
    ours: i128,
    shared: &dyn Fn(&CephClusterFacts) -> i128,
) -> Result<(i128, i128), SizeProblem> {
    let (id, pool) = class.ceph.as_ref().ok_or(SizeProblem::Unreported)?;
    let cluster = clusters.iter().find(|c| c.is(id));
    let cluster = cluster.ok_or_else(|| SizeProblem::MissingCephCluster {
        namespace: id.clone(),
    })?;
    let (total, used) = cluster.raw.ok_or_else(|| SizeProblem::UnsizedCephCluster {
        namespace: cluster.namespace.clone(),
        name: cluster.name.clone(),
    })?;
    let pool = pools.iter().find(|p| *p.namespace == **id && p.name == *pool);
    let (part, of) = pool.map_or((1, COPIES), |p| p.usable);
    let usable = |raw: i64| i128::from(raw) * part / of;
    let allocatable = usable(total) * FULL.0 / FULL.1;
    // Data of own volumes is counted by their reservations.
    let written = usable(used) - ours;
    // Volumes may still fill up, and data may exceed the volumes.
    Ok((allocatable, shared(cluster).max(written)))
}
