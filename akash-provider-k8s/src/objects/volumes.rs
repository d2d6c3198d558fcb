//! Volumes and where they are mounted.

use super::quantity::whole;
use super::{Refusal, text};
use akash_provider_core::manifest::{Service, StorageParams};
use akash_provider_core::types::Storage;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, Volume, VolumeMount,
    VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

/// Name of the class that stands for the cluster's own default.
const DEFAULT_CLASS: &str = "default";

/// Class of a persistent volume.
pub(super) fn class(volume: &Storage) -> &str {
    volume.class().unwrap_or(DEFAULT_CLASS)
}

/// Name of a volume in its pod.
fn volume_name(service: &Service, volume: &str) -> String {
    format!("{}-{volume}", service.name)
}

/// Checks names, sizes and classes of a service's volumes.
fn check(service: &Service) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (n, volume) in service.resources.storage.iter().enumerate() {
        let refuse = |part: &str, problem: String| {
            Err(Refusal::new(
                &service.name,
                format!("resources.storage[{n}]{part}"),
                problem,
            ))
        };
        if !seen.insert(volume.name.as_str()) {
            return refuse(".name", format!("`{}` is there twice", text::shown(&volume.name)));
        }
        if volume.bytes > i64::MAX as u64 {
            return refuse(
                ".size",
                format!("more than {} bytes; Kubernetes counts no further", i64::MAX),
            );
        }
        // What is part of the container's own disk is no volume of the pod, so its name is free.
        if !volume.is_persistent() && !volume.is_ram() {
            continue;
        }
        if !text::is_label(&volume_name(service, &volume.name)) {
            let problem = format!(
                "`{}` has to be lower-case letters, digits and `-`, and with the service's name and a `-` before it at most {} characters",
                text::shown(&volume.name),
                text::MAX_LABEL
            );
            return refuse(".name", problem);
        }
        // `ram` is no class of a cluster: it stands for volumes in memory.
        if volume.is_persistent() && (volume.class() == Some("ram") || !text::is_subdomain(class(volume))) {
            let problem = format!(
                "`{}` is no class for persistent volumes",
                text::shown(class(volume))
            );
            return refuse(".class", problem);
        }
    }
    Ok(())
}

/// Volumes in memory, as the pod has them.
pub(super) fn in_memory(service: &Service) -> Result<Option<Vec<Volume>>, Refusal> {
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

/// Claims of persistent volumes; empty where the service has none.
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
            // Each replica has a claim of its own.
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            volume_mode: Some("Filesystem".to_owned()),
            // Without a class the cluster's own default holds.
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

/// Where the container sees its volumes.
pub(super) fn mounts(service: &Service) -> Result<Option<Vec<VolumeMount>>, Refusal> {
    let params = service.params.as_ref();
    let mounts = params
        .and_then(|params| params.storage.as_deref())
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (n, mount) in mounts.iter().enumerate() {
        let refuse = |part: &str, problem: String| {
            Err(Refusal::new(
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
                "`{}` is no absolute path below `/` without `..`, `:` and zero bytes",
                text::shown(&mount.mount)
            );
            return refuse(".mount", problem);
        };
        // Compared by its parts: `/data` and `//data/.` are the same place.
        if !seen.insert(path) {
            let problem = format!("another volume is mounted at `{}` too", text::shown(&mount.mount));
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
    let name = text::shown(&mount.name);
    let mut volumes = service.resources.storage.iter();
    let Some(volume) = volumes.find(|volume| volume.name == mount.name) else {
        return Some(format!(
            "the service has no volume `{name}`; list it in its storage"
        ));
    };
    let can = volume.is_persistent() || volume.is_ram();
    (!can).then(|| {
        format!("`{name}` is neither persistent nor in memory, and only such volumes can be mounted; set `persistent: true` and a class, or class `ram`")
    })
}

/// A path without its idle parts; `None` where it cannot be mounted at.
fn plain_path(path: &str) -> Option<Vec<&str>> {
    // Kubernetes takes no path with a colon, and no process one with a zero byte.
    if !path.starts_with('/') || path.contains([':', '\0']) {
        return None;
    }
    let parts: Vec<_> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.is_empty() && !parts.contains(&"..")).then_some(parts)
}
