//! Health of a workload, and the health values that count as unhealthy time.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Health of a workload.
///
/// Only time with the health `bad` counts as unhealthy time. The JSON form is `unknown`, `good`, `bad` or the name of
/// an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The health is unknown. This time does not count as unhealthy time.
    #[default]
    Unknown,
    /// Every service has all its replicas.
    Good,
    /// Containers of the tenant fail: they crash, exit, do not start, or their image does not exist.
    Bad,
    /// A service lacks replicas, and the tenant's containers are not the cause. This time does not count as
    /// unhealthy time.
    #[serde(untagged)]
    Out(Outage),
}

/// Reason why replicas are missing. The containers of the tenant are not the cause. If several reasons apply,
/// the most specific one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outage {
    /// The node of a replica is not ready or does not report.
    NodeAway,
    /// A replica was evicted, drained, preempted or deleted.
    Evicted,
    /// No node accepts a replica, because the nodes are full, cordoned or unsuitable.
    Unschedulable,
    /// A client other than the provider lowered the number of replicas.
    ScaledDown,
    /// Admission (a quota, a policy, a webhook) refuses replicas.
    Refused,
    /// An image cannot be pulled, and the tenant's image reference is not known to be wrong.
    ImagePull,
    /// The workload or a part of the workload does not exist.
    Missing,
    /// A replica is starting, for example attaching volumes or pulling an image.
    Starting,
    /// The cause is unknown.
    Unexplained,
}

impl Health {
    /// Returns true if time with this health counts as unhealthy time.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        match self {
            Self::Bad => true,
            Self::Unknown | Self::Good | Self::Out(_) => false,
        }
    }

    /// Returns the name of the health, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Out(outage) => outage.name(),
        }
    }
}

impl Outage {
    /// Every outage.
    pub const ALL: [Self; 9] = [
        Self::NodeAway,
        Self::Evicted,
        Self::Unschedulable,
        Self::ScaledDown,
        Self::Refused,
        Self::ImagePull,
        Self::Missing,
        Self::Starting,
        Self::Unexplained,
    ];

    /// Returns the name of the outage, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeAway => "node_away",
            Self::Evicted => "evicted",
            Self::Unschedulable => "unschedulable",
            Self::ScaledDown => "scaled_down",
            Self::Refused => "refused",
            Self::ImagePull => "image_pull",
            Self::Missing => "missing",
            Self::Starting => "starting",
            Self::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failing_containers_count_as_unhealthy_and_health_serializes_as_its_name() {
        let observed = [Health::Unknown, Health::Good, Health::Bad];
        let all = observed.into_iter().chain(Outage::ALL.map(Health::Out));
        for health in all {
            assert_eq!(health.is_counted(), health == Health::Bad, "{health}");
            let written = serde_json::to_value(health).unwrap();
            assert_eq!(written, health.name());
            assert_eq!(serde_json::from_value::<Health>(written).unwrap(), health);
            let packed = rmp_serde::to_vec_named(&health).unwrap();
            assert_eq!(rmp_serde::from_slice::<Health>(&packed).unwrap(), health);
        }
    }
}
