//! Resources of one replica, as numbers that can be compared and multiplied without overflow.

use super::gpu::{GpuRequest, wants};
use super::layout::{Free, Layout};
use crate::types::{ResourceUnit, Storage};

/// Maximum amount of a resource in one replica. Sums of such amounts do not overflow.
const AMOUNT_LIMIT: i64 = 1 << 56;

/// Resources that one replica of a unit takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Need {
    pub(super) cpu: i64,
    /// Memory, including volumes in memory.
    pub(super) memory: i64,
    /// Size of the ephemeral storage, or the default size if the replica has no ephemeral volume.
    pub(super) ephemeral: i64,
    pub(super) gpu: i64,
    pub(super) wants: Vec<GpuRequest>,
    /// Persistent storage as pairs of a class index and a size in bytes. Each class occurs once.
    pub(super) volumes: Vec<(usize, i64)>,
    /// Bit set of the class indexes in `volumes`.
    pub(super) classes: u64,
    /// First volume that no node can mount.
    pub(super) impossible: Option<(usize, Impossible)>,
}

/// Reason why no node of the cluster can mount a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    /// The persistent volume has no class, or the class `ram`.
    PersistentWithoutClass,
    /// The cluster does not have the class.
    UnknownClass,
}

impl Impossible {
    pub(super) fn describe(self, volume: &Storage) -> String {
        let class = volume.class().unwrap_or("");
        match self {
            Self::PersistentWithoutClass => format!(
                "volume `{}` is persistent and needs a storage class, but its class is `{class}`",
                volume.name
            ),
            Self::UnknownClass => format!(
                "volume `{}` requests storage class `{class}`, which this cluster does not offer",
                volume.name
            ),
        }
    }
}

impl Need {
    pub(super) fn new(layout: &Layout, unit: &ResourceUnit) -> Self {
        let resources = &unit.resources;
        let mut need = Self {
            cpu: amount(resources.cpu.units),
            memory: amount(resources.memory.bytes),
            gpu: amount(resources.gpu.units),
            ephemeral: amount(resources.ephemeral_bytes().unwrap_or(u64::MAX)),
            ..Self::default()
        };
        if need.gpu > 0 {
            need.wants = wants(&resources.gpu.attributes);
        }
        for (at, volume) in resources.storage.iter().enumerate() {
            let bytes = amount(volume.bytes);
            if volume.is_ram() {
                // Both addends are at most the limit, so the sum cannot overflow.
                need.memory = (need.memory + bytes).min(AMOUNT_LIMIT);
            }
            if !volume.is_persistent() {
                continue;
            }
            // Memory is not persistent, so `ram` is not a class for persistent volumes.
            let class = match volume.class().filter(|c| *c != "ram") {
                Some(class) => layout.class(class).ok_or(Impossible::UnknownClass),
                None => Err(Impossible::PersistentWithoutClass),
            };
            match class {
                Ok(class) => need.add_volume(class, bytes),
                Err(why) => need.impossible = need.impossible.or(Some((at, why))),
            }
        }
        need
    }

    fn add_volume(&mut self, class: usize, bytes: i64) {
        self.classes |= 1 << class;
        match self.volumes.iter_mut().find(|(c, _)| *c == class) {
            Some((_, sum)) => *sum = (*sum + bytes).min(AMOUNT_LIMIT),
            None => self.volumes.push((class, bytes)),
        }
    }

    /// Returns false if one replica certainly does not fit. This fast check excludes most nodes.
    pub(super) fn fits(&self, free: &Free) -> bool {
        // A node with an overcommitted resource still accepts a replica that does not need the resource.
        free.cpu.max(0) >= self.cpu
            && free.memory.max(0) >= self.memory
            && free.ephemeral.max(0) >= self.ephemeral
            && free.gpu.max(0) >= self.gpu
    }

    /// Returns the GPUs that a bid can offer: each requested GPU with every matching model of the cluster.
    pub(super) fn choices(&self, layout: &Layout) -> Vec<GpuRequest> {
        let mut choices: Vec<GpuRequest> = Vec::new();
        for kind in &layout.kinds {
            for want in self.wants.iter().filter(|w| w.accepts(kind)) {
                let narrowed = want.narrowed(kind);
                // Several requests can result in the same choice.
                if !choices.contains(&narrowed) {
                    choices.push(narrowed);
                }
            }
        }
        choices
    }
}

fn amount(value: u64) -> i64 {
    i64::try_from(value).map_or(AMOUNT_LIMIT, |v| v.min(AMOUNT_LIMIT))
}
