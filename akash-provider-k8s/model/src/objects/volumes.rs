//! Volumes of a service and their mounts.

use super::quantity::whole;
use super::{RenderError, text};
use akash_provider_core::manifest::{Service, StorageParams};
use akash_provider_core::types::Storage;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

const DEFAULT_CLASS: &str = "default";

pub(super) fn class(volume: &Storage) -> &str {
    volume.class().unwrap_or(DEFAULT_CLASS)
}

fn volume_name(service: &Service, volume: &str) -> String {
    format!("{}-{volume}", service.name)
}

fn check(service: &Service) -> Result<(), RenderError> {
    let mut seen = BTreeSet::new();
    for (n, volume) in service.resources.storage.iter().enumerate() {
        let refuse = |part: &str, problem: String| {
            Err(RenderError::new(
                &service.name,
                format!("resources.storage[{n}]{part}"),
                problem,
            ))
        };
        if !seen.insert(volume.name.as_str()) {
            return refuse(
                ".name",
                format!("duplicate name `{}`", text::shortened(&volume.name)),
            );
        }
        if volume.bytes > i64::MAX as u64 {
            return refuse(
                ".size",
                format!("exceeds {} bytes, the maximum of Kubernetes", i64::MAX),
            );
        }
        // Ephemeral storage of the container is no volume of the pod, so its name is not used.
        if !volume.is_persistent() && !volume.is_ram() {
            continue;
        }
        if !text::is_label(&volume_name(service, &volume.name)) {
            let problem = format!(
                "`{}` must have lower-case letters, digits and `-`, and at most {} characters with the prefix of the service's name and `-`",
                text::shortened(&volume.name),
                text::MAX_LABEL
            );
            return refuse(".name", problem);
        }
        // `ram` means a volume in memory and is no storage class.
        if volume.is_persistent() && (volume.class() == Some("ram") || !text::is_subdomain(class(volume))) {
            let problem = format!(
                "`{}` is not a class for persistent volumes",
                text::shortened(class(volume))
            );
            return refuse(".class", problem);
        }
    }
    Ok(())
}

pub(super) fn in_memory(service: &Service) -> Result<Option<Vec<Volume>>, RenderError> {
    check(service)?;
    let volumes = service.resources.storage.iter().filter(|volume| volume.is_ram());
    let rendered: Vec<_> = volumes
        .map(|volume| Volume {
            name: volume_name(service, &volume.name),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                size_limit: Some(whole(volume.bytes)),
            }),
            ..Volume::default()
        })
        .collect();
    Ok((!rendered.is_empty()).then_some(rendered))
}

pub(super) fn claims(service: &Service) -> Vec<PersistentVolumeClaim> {
    let volumes = service
        .resources
        .storage
        .iter()
        .filter(|volume| volume.is_persistent());
    let claim = |volume: &Storage| PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(volume_name(service, &volume.name)),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            // Each replica has its own claim.
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            volume_mode: Some("Filesystem".to_owned()),
            // Without a class, the default class of the cluster applies.
            storage_class_name: Some(class(volume).to_owned()).filter(|class| class != DEFAULT_CLASS),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), whole(volume.bytes))].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    };
    volumes.map(claim).collect()
}

pub(super) fn mounts(service: &Service) -> Result<Option<Vec<VolumeMount>>, RenderError> {
    let params = service.params.as_ref();
    let mounts = params
        .and_then(|params| params.storage.as_deref())
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (n, mount) in mounts.iter().enumerate() {
        let refuse = |part: &str, problem: String| {
            Err(RenderError::new(
                &service.name,
                format!("params.storage[{n}]{part}"),
                problem,
            ))
        };
        if let Some(problem) = unmountable(service, mount) {
            return refuse(".name", problem);
        }
        let Some(path) = plain_path(&mount.mount) else {
            let problem = format!(
                "`{}` is not a valid mount path; use an absolute path below `/` without `..`, `:` and null bytes",
                text::shortened(&mount.mount)
            );
            return refuse(".mount", problem);
        };
        // Normalized: `/data` and `//data/.` are the same path.
        if !seen.insert(path) {
            let problem = format!(
                "another volume is already mounted at `{}`",
                text::shortened(&mount.mount)
            );
            return refuse(".mount", problem);
        }
    }
    let rendered: Vec<_> = mounts
        .iter()
        .map(|mount| VolumeMount {
            name: volume_name(service, &mount.name),
            mount_path: mount.mount.clone(),
            read_only: mount.read_only.then_some(true),
            ..VolumeMount::default()
        })
        .collect();
    Ok((!rendered.is_empty()).then_some(rendered))
}

fn unmountable(service: &Service, mount: &StorageParams) -> Option<String> {
    let name = text::shortened(&mount.name);
    let mut volumes = service.resources.storage.iter();
    let Some(volume) = volumes.find(|volume| volume.name == mount.name) else {
        return Some(format!(
            "the service has no volume `{name}`; add it to its storage"
        ));
    };
    let can = volume.is_persistent() || volume.is_ram();
    (!can).then(|| {
        format!("volume `{name}` is ephemeral and cannot be mounted; set `persistent: true` and a class, or class `ram`")
    })
}

/// Returns the normalized parts of a mount path; `None` if the path is invalid.
fn plain_path(path: &str) -> Option<Vec<&str>> {
    // Kubernetes rejects colons, and the kernel null bytes.
    if !path.starts_with('/') || path.contains([':', '\0']) {
        return None;
    }
    let parts: Vec<_> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.is_empty() && !parts.contains(&"..")).then_some(parts)
}
