//! A parsed SDL document. References between its parts are not resolved yet.

use super::fault::Location;
use crate::manifest::{Credentials, HttpOptions, Permissions, Proto};
use crate::types::{Attribute, Cpu, DecCoin, Gpu, Memory, SignedBy, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SdlVersion {
    /// Each service has its own resource unit.
    V2_0,
    /// The services of a placement that have the same compute profile are in one resource unit.
    V2_1,
}

/// Parts by name. `unread` contains the names of the invalid parts.
#[derive(Debug)]
pub(super) struct NamedParts<T> {
    pub(super) read: BTreeMap<String, T>,
    pub(super) unread: BTreeSet<String>,
    /// Whether the section is missing or could not be parsed.
    pub(super) is_unread: bool,
}

impl<T> NamedParts<T> {
    /// Returns true if no part has this name, not even an invalid part.
    pub(super) fn lacks(&self, name: &str) -> bool {
        !self.is_unread && !self.unread.contains(name) && !self.read.contains_key(name)
    }

    /// Returns whether all parts are valid.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_unread && self.unread.is_empty()
    }
}

impl<T> Default for NamedParts<T> {
    fn default() -> Self {
        Self {
            read: BTreeMap::new(),
            unread: BTreeSet::new(),
            is_unread: false,
        }
    }
}

impl<T> Deref for NamedParts<T> {
    type Target = BTreeMap<String, T>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

#[derive(Debug)]
pub(super) struct Document {
    pub(super) version: SdlVersion,
    pub(super) services_line: u32,
    pub(super) services: NamedParts<SdlService>,
    pub(super) compute: NamedParts<Compute>,
    pub(super) placements: NamedParts<Placement>,
    pub(super) deployment_line: u32,
    pub(super) deployment: NamedParts<DeploymentEntry>,
    pub(super) endpoints: NamedParts<Location>,
    pub(super) reclamation: Option<Duration>,
}

impl Document {
    /// Returns the location of a service in the SDL. `place` starts with the names of the placement and the
    /// service (`placement.service…`).
    pub(super) fn spot_of(&self, place: &str) -> Location {
        // With the dot, because the name of one placement can be a prefix of another.
        let below = |name: &String| place.strip_prefix(name.as_str())?.strip_prefix('.');
        let service = self.placements.keys().find_map(below).and_then(|rest| {
            let name = rest.split(['.', '[']).next()?;
            self.services.get(name)
        });
        service.map_or_else(
            || Location::new(self.services_line, "services"),
            |service| service.spot.clone(),
        )
    }
}

#[derive(Debug)]
pub(super) struct SdlService {
    pub(super) spot: Location,
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
    pub(super) spot: Location,
    pub(super) port: u16,
    /// External port; 0 if it equals `port`.
    pub(super) external: u16,
    pub(super) proto: Proto,
    pub(super) to: Vec<To>,
    pub(super) hosts: Option<Vec<String>>,
    pub(super) http: HttpOptions,
}

#[derive(Debug)]
pub(super) struct To {
    pub(super) spot: Location,
    pub(super) service: String,
    pub(super) global: bool,
    pub(super) ip: String,
}

#[derive(Debug)]
pub(super) struct Params {
    pub(super) storage: BTreeMap<String, Mount>,
    pub(super) permissions: Option<Permissions>,
    pub(super) tee: Option<(Location, String)>,
}

#[derive(Debug)]
pub(super) struct Mount {
    pub(super) spot: Location,
    pub(super) mount: String,
    pub(super) read_only: bool,
}

/// A parsed resource, and the text of its quantity in the SDL.
#[derive(Debug, Default)]
pub(super) struct Sourced<T> {
    pub(super) value: T,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Compute {
    pub(super) spot: Location,
    pub(super) cpu: (Location, Sourced<Cpu>),
    pub(super) memory: (Location, Sourced<Memory>),
    /// GPUs and their location. Without a `gpu` field: zero GPUs and the location of the profile.
    pub(super) gpu: (Location, Gpu),
    /// Volumes, sorted as in the Akash tools.
    pub(super) storage: Vec<(Location, Sourced<Storage>)>,
}

#[derive(Debug)]
pub(super) struct Placement {
    pub(super) attributes: Vec<Attribute>,
    pub(super) signed_by: SignedBy,
    pub(super) pricing: BTreeMap<String, (Location, DecCoin)>,
    pub(super) spot: Location,
}

/// A service and its placements.
#[derive(Debug)]
pub(super) struct DeploymentEntry {
    pub(super) spot: Location,
    pub(super) placed: NamedParts<PlacementEntry>,
}

#[derive(Debug)]
pub(super) struct PlacementEntry {
    pub(super) spot: Location,
    pub(super) profile: String,
    pub(super) count: u32,
}
