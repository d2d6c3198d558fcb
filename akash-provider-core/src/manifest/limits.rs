//! Limits on the lists and texts of a manifest.
//!
//! The chain and the Go provider do not limit these lists. This project defines most of the numbers. The
//! limits are several times the values in public SDL files, and low enough that one manifest cannot exhaust
//! hostnames, objects or memory.

use super::fault::{ManifestError, StructureFault, broken};
use super::{Credentials, Service, ServiceExpose, ServiceParams};
use crate::types::{Attribute, Resources};

/// Limit of one list or text of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Name of the field and of the object that contains it, for example `hosts of an expose`.
    pub field: &'static str,
    /// Maximum number of entries of a list, or of bytes of a text.
    pub max: usize,
    /// Unit of `max`: `entries` or `bytes`.
    pub unit: &'static str,
    /// Origin of the limit, such as Kubernetes or this project.
    pub source: &'static str,
}

const fn list(field: &'static str, max: usize, source: &'static str) -> Limit {
    let unit = "entries";
    Limit {
        field,
        max,
        unit,
        source,
    }
}

const fn text(field: &'static str, max: usize, source: &'static str) -> Limit {
    let unit = "bytes";
    Limit {
        field,
        max,
        unit,
        source,
    }
}

const OWN: &str = "own";
const LINUX: &str = "Linux: one argument or variable of a process";

pub(super) const GROUPS: Limit = list("groups of a manifest", 20, OWN);
const SERVICES: Limit = list("services of a group", 100, OWN);
const EXPOSE: Limit = list("expose of a service", 250, OWN);
const HOSTS: Limit = list("hosts of an expose", 100, OWN);
pub(super) const ALL_HOSTS: Limit = list("hosts of a manifest", 500, OWN);
const ENV: Limit = list("env of a service", 2_000, OWN);
const COMMAND: Limit = list("command of a service", 1_000, OWN);
const ARGS: Limit = list("args of a service", 1_000, OWN);
const VOLUMES: Limit = list(
    "resources.storage of a service",
    100,
    "own; the Go provider bids for at most 4 volumes",
);
const MOUNTS: Limit = list("params.storage of a service", 100, OWN);
const READ: Limit = list(
    "params.permissions.read of a service",
    10,
    "own; 3 permissions exist",
);
const ENDPOINTS: Limit = list("resources.endpoints of a service", 750, "own; 3 for each expose");
const ATTRIBUTES: Limit = list("attributes of a resource", 500, OWN);
const GROUP_NAME: Limit = text("name of a group", 256, OWN);
const IMAGE: Limit = text("image of a service", 1_024, OWN);
const ENV_TEXT: Limit = text("each env of a service", 128 * 1024 - 1, LINUX);
const COMMAND_TEXT: Limit = text("each command of a service", 128 * 1024 - 1, LINUX);
const ARGS_TEXT: Limit = text("each args of a service", 128 * 1024 - 1, LINUX);
const EXPOSE_SERVICE: Limit = text("service of an expose", 63, "DNS label");
const EXPOSE_IP: Limit = text("ip of an expose", 253, "Kubernetes: object name");
const VOLUME_NAME: Limit = text("name of a volume", 253, "Kubernetes: object name");
const MOUNT: Limit = text("mount of a volume", 4_095, "Linux: path");
const ATTRIBUTE_TEXT: Limit = text("key and value of an attribute", 1_024, OWN);
const TEE: Limit = text("params.tee.type of a service", 63, OWN);
const REGISTRY_HOST: Limit = text(
    "credentials.host of a service",
    512,
    "own; a URL of a DNS name of 253",
);
const REGISTRY_EMAIL: Limit = text("credentials.email of a service", 320, "RFC 5321: mail address");
const REGISTRY_USER: Limit = text("credentials.username of a service", 1_024, OWN);
const REGISTRY_PASSWORD: Limit = text(
    "credentials.password of a service",
    16 * 1024,
    "own; a key file of a cloud account has 3 KiB",
);

/// All limits, in the order of the documentation.
pub const LIMITS: [Limit; 28] = [
    GROUPS,
    SERVICES,
    EXPOSE,
    HOSTS,
    ALL_HOSTS,
    ENV,
    COMMAND,
    ARGS,
    VOLUMES,
    MOUNTS,
    READ,
    ENDPOINTS,
    ATTRIBUTES,
    GROUP_NAME,
    IMAGE,
    ENV_TEXT,
    COMMAND_TEXT,
    ARGS_TEXT,
    EXPOSE_SERVICE,
    EXPOSE_IP,
    VOLUME_NAME,
    MOUNT,
    ATTRIBUTE_TEXT,
    TEE,
    REGISTRY_HOST,
    REGISTRY_EMAIL,
    REGISTRY_USER,
    REGISTRY_PASSWORD,
];

impl Limit {
    pub(super) fn check(&self, at: &str, length: usize) -> Result<(), ManifestError> {
        if length <= self.max {
            return Ok(());
        }
        let fault = StructureFault::Limit {
            field: self.field.to_owned(),
            length,
            limit: self.max,
            unit: self.unit.to_owned(),
        };
        Err(broken(at, fault))
    }
}

pub(super) fn check_group(at: &str, group: &super::Group) -> Result<(), ManifestError> {
    GROUP_NAME.check(at, group.name.len())?;
    SERVICES.check(at, group.services.len())
}

pub(super) fn check_service(at: &str, service: &Service) -> Result<(), ManifestError> {
    IMAGE.check(at, service.image.len())?;
    for (list, limits) in [
        (&service.env, (ENV, ENV_TEXT)),
        (&service.command, (COMMAND, COMMAND_TEXT)),
        (&service.args, (ARGS, ARGS_TEXT)),
    ] {
        let list = list.as_deref().unwrap_or_default();
        limits.0.check(at, list.len())?;
        for text in list {
            limits.1.check(at, text.len())?;
        }
    }
    check_resources(at, &service.resources)?;
    EXPOSE.check(at, service.expose.len())?;
    for (n, expose) in service.expose.iter().enumerate() {
        check_expose(&format!("{at}.expose[{n}]"), expose)?;
    }
    service
        .params
        .iter()
        .try_for_each(|params| check_params(at, params))?;
    let mut logins = service.credentials.iter();
    logins.try_for_each(|login| check_login(at, login))
}

fn check_resources(at: &str, resources: &Resources) -> Result<(), ManifestError> {
    VOLUMES.check(at, resources.storage.len())?;
    ENDPOINTS.check(at, resources.endpoints.len())?;
    let attributes = |list: &[Attribute]| {
        ATTRIBUTES.check(at, list.len())?;
        let mut texts = list
            .iter()
            .flat_map(|attribute| [&attribute.key, &attribute.value]);
        texts.try_for_each(|text| ATTRIBUTE_TEXT.check(at, text.len()))
    };
    attributes(&resources.cpu.attributes)?;
    attributes(&resources.memory.attributes)?;
    attributes(&resources.gpu.attributes)?;
    for volume in &resources.storage {
        VOLUME_NAME.check(at, volume.name.len())?;
        attributes(&volume.attributes)?;
    }
    Ok(())
}

fn check_expose(at: &str, expose: &ServiceExpose) -> Result<(), ManifestError> {
    EXPOSE_SERVICE.check(at, expose.service.len())?;
    EXPOSE_IP.check(at, expose.ip.len())?;
    HOSTS.check(at, expose.hosts.as_ref().map_or(0, Vec::len))
}

fn check_params(at: &str, params: &ServiceParams) -> Result<(), ManifestError> {
    let mounts = params.storage.as_deref().unwrap_or_default();
    MOUNTS.check(at, mounts.len())?;
    for mount in mounts {
        VOLUME_NAME.check(at, mount.name.len())?;
        MOUNT.check(at, mount.mount.len())?;
    }
    let read = params.permissions.as_ref().and_then(|p| p.read.as_ref());
    READ.check(at, read.map_or(0, Vec::len))?;
    TEE.check(at, params.tee.as_ref().map_or(0, |tee| tee.kind.len()))?;
    params
        .credentials
        .iter()
        .try_for_each(|login| check_login(at, login))
}

fn check_login(at: &str, login: &Credentials) -> Result<(), ManifestError> {
    REGISTRY_HOST.check(at, login.host.len())?;
    REGISTRY_EMAIL.check(at, login.email.len())?;
    REGISTRY_USER.check(at, login.username.len())?;
    REGISTRY_PASSWORD.check(at, login.password.len())
}

#[cfg(test)]
mod tests;
