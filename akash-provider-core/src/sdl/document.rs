//! An SDL with its fields read and its references still names.

use super::fault::Spot;
use crate::manifest::{Credentials, HttpOptions, Permissions, Proto};
use crate::types::{Attribute, Cpu, DecCoin, Gpu, Memory, SignedBy, Storage};
use std::collections::BTreeMap;
use std::time::Duration;

/// How a text is built into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Each service has a resource unit of its own.
    V2_0,
    /// Services of a placement share the unit of their compute profile.
    V2_1,
}

#[derive(Debug)]
pub(super) struct Document {
    pub(super) version: Version,
    pub(super) services_line: u32,
    pub(super) services: BTreeMap<String, Service>,
    pub(super) compute: BTreeMap<String, Compute>,
    pub(super) placements: BTreeMap<String, Placement>,
    pub(super) deployment_line: u32,
    pub(super) deployment: BTreeMap<String, Deployed>,
    pub(super) endpoints: BTreeMap<String, Spot>,
    pub(super) reclamation: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Service {
    pub(super) spot: Spot,
    pub(super) image: String,
    pub(super) command: Option<Vec<String>>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<String>>,
    pub(super) expose: Vec<Expose>,
    pub(super) params: Option<Params>,
    pub(super) credentials: Option<Credentials>,
}

#[derive(Debug)]
pub(super) struct Expose {
    pub(super) spot: Spot,
    pub(super) port: u16,
    /// 0 when it is `port`.
    pub(super) external: u16,
    pub(super) proto: Proto,
    pub(super) to: Vec<To>,
    pub(super) hosts: Option<Vec<String>>,
    pub(super) http: HttpOptions,
}

#[derive(Debug)]
pub(super) struct To {
    pub(super) spot: Spot,
    pub(super) service: String,
    pub(super) global: bool,
    pub(super) ip: String,
}

#[derive(Debug)]
pub(super) struct Params {
    pub(super) storage: BTreeMap<String, Mount>,
    pub(super) permissions: Option<Permissions>,
    pub(super) tee: Option<(Spot, String)>,
}

#[derive(Debug)]
pub(super) struct Mount {
    pub(super) spot: Spot,
    pub(super) mount: String,
    pub(super) read_only: bool,
}

#[derive(Debug)]
pub(super) struct Compute {
    pub(super) spot: Spot,
    pub(super) cpu: (Spot, Cpu),
    pub(super) memory: (Spot, Memory),
    /// Zero units at the profile's own spot when there is none.
    pub(super) gpu: (Spot, Gpu),
    /// In the network's order.
    pub(super) storage: Vec<(Spot, Storage)>,
}

#[derive(Debug)]
pub(super) struct Placement {
    pub(super) attributes: Vec<Attribute>,
    pub(super) signed_by: SignedBy,
    pub(super) pricing: BTreeMap<String, (Spot, DecCoin)>,
    pub(super) spot: Spot,
}

/// A service and the placements it goes to.
#[derive(Debug)]
pub(super) struct Deployed {
    pub(super) spot: Spot,
    pub(super) placed: BTreeMap<String, Placed>,
}

#[derive(Debug)]
pub(super) struct Placed {
    pub(super) spot: Spot,
    pub(super) profile: String,
    pub(super) count: u32,
}
