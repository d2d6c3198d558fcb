//! Tiers of the testbed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::component::Component;
use crate::error::Error;

/// Running Kubernetes components. Every tier includes those of [`Tier::Api`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// API server, store and controllers, without pods.
    Api,
    /// [`Self::Api`] and one node with real pods.
    Node,
    /// [`Self::Api`], a scheduler, and thousands of simulated nodes, which the caller creates.
    Scale,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::Api, Self::Node, Self::Scale];

    /// Returns the components in the order of their start.
    #[must_use]
    pub fn components(self) -> &'static [Component] {
        const API: [Component; 3] = [
            Component::Etcd,
            Component::ApiServer,
            Component::ControllerManager,
        ];
        const NODE: [Component; 7] = [
            Component::Etcd,
            Component::ApiServer,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Containerd,
            Component::Kubelet,
            Component::KubeProxy,
        ];
        const SCALE: [Component; 5] = [
            Component::Etcd,
            Component::ApiServer,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Kwok,
        ];
        match self {
            Self::Api => &API,
            Self::Node => &NODE,
            Self::Scale => &SCALE,
        }
    }

    /// Returns whether this tier has all components of `wanted`.
    #[must_use]
    pub fn holds(self, wanted: Self) -> bool {
        self == wanted || wanted == Self::Api
    }

    /// Returns the name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Node => "node",
            Self::Scale => "scale",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Tier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.as_str() == text)
            .ok_or_else(|| Error::new(format!("unknown tier `{text}`: expected api, node or scale")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        assert!("big".parse::<Tier>().is_err());
    }

    #[test]
    fn every_tier_includes_the_api_tier() {
        for tier in Tier::ALL {
            assert!(tier.holds(Tier::Api) && tier.holds(tier));
            assert!(tier.components().starts_with(Tier::Api.components()));
        }
        assert!(!Tier::Api.holds(Tier::Node) && !Tier::Scale.holds(Tier::Node));
    }
}
