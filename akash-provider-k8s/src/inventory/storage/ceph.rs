//! Ceph as Rook describes it: the size of a cluster, the copies of a pool.

use super::ClassFacts;
use kube::core::DynamicObject;
use serde_json::Value;

/// Ceph stops writing at this share of the raw size (`mon_osd_full_ratio`).
const FULL: (i128, i128) = (95, 100);
/// Copies where no pool says it: Ceph's own default.
const COPIES: i128 = 3;

/// What of a `CephCluster` is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephClusterFacts {
    namespace: Box<str>,
    name: Box<str>,
    /// Raw bytes, all and written; `None` while the status does not say.
    raw: Option<(i64, i64)>,
}

/// What of a `CephBlockPool` is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephPoolFacts {
    namespace: Box<str>,
    name: Box<str>,
    /// Usable of so many raw bytes: 1 of 3 for three copies, 4 of 6 for erasure code 4+2.
    usable: (i128, i128),
}

impl CephClusterFacts {
    /// Reads a cluster; where its status does not say what is written, all of it counts as written.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let amount = |name: &str| {
            let value = object.data.pointer(&format!("/status/ceph/capacity/{name}"))?;
            value.as_i64().filter(|n| *n >= 0)
        };
        let (namespace, name) = names(object);
        let total = amount("bytesTotal").filter(|n| *n > 0);
        Self {
            namespace,
            name,
            // Where nobody says how much is used, all of it is: what may not be there is not sold.
            raw: total.map(|total| (total, amount("bytesUsed").unwrap_or(total))),
        }
    }

    /// True when a storage class means this cluster: Rook's `clusterID` is the namespace of the cluster.
    pub(super) fn is(&self, id: &str) -> bool {
        *self.namespace == *id
    }
}

impl CephPoolFacts {
    /// Reads a pool; where it says nothing of copies, Ceph's default counts.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let number = |at: &str| {
            let number = object.data.pointer(at).and_then(Value::as_i64);
            // Never zero, because it divides.
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

/// Bytes a class can use and bytes that are in use by others; `shared` are the volumes of others in a cluster.
pub(super) fn amount(
    class: &ClassFacts,
    clusters: &[CephClusterFacts],
    pools: &[CephPoolFacts],
    ours: i128,
    shared: &dyn Fn(&CephClusterFacts) -> i128,
) -> Result<(i128, i128), String> {
    let (id, pool) = class.ceph.as_ref().ok_or("it is not of Ceph")?;
    let cluster = clusters.iter().find(|c| c.is(id));
    let cluster = cluster.ok_or_else(|| format!("there is no CephCluster in namespace `{id}`"))?;
    let (total, used) = cluster
        .raw
        .ok_or_else(|| format!("CephCluster `{}` does not say how much it holds", cluster.name))?;
    let pool = pools.iter().find(|p| *p.namespace == **id && p.name == *pool);
    let (part, of) = pool.map_or((1, COPIES), |p| p.usable);
    let usable = |raw: i64| i128::from(raw) * part / of;
    let allocatable = usable(total) * FULL.0 / FULL.1;
    // What our volumes may hold is counted by their reservations.
    let written = usable(used) - ours;
    // Volumes may yet be filled, and more may be written than volumes tell of.
    Ok((allocatable, shared(cluster).max(written)))
}
