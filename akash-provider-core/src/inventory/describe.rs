//! Texts about the resources of one replica.

use super::need::Need;
use crate::types::ResourceUnit;
use crate::types::quantity::{cores, rounded_bytes};

pub(super) fn describe(need: &Need, unit: &ResourceUnit) -> String {
    let mut text = format!("{} CPU, {} memory", cores_of(need.cpu), bytes(need.memory));
    if need.ephemeral > 0 {
        text.push_str(&format!(", {} ephemeral storage", bytes(need.ephemeral)));
    }
    for volume in unit.resources.storage.iter().filter(|v| v.is_persistent()) {
        let size = bytes(i64::try_from(volume.bytes).unwrap_or(i64::MAX));
        let class = volume.class().unwrap_or("");
        text.push_str(&format!(", {size} storage of class `{class}`"));
    }
    if need.gpu > 0 {
        text.push_str(&format!(", {} GPUs {}", need.gpu, wanted_gpus(unit)));
    }
    text
}

/// Lists the acceptable GPUs of a unit, at most five.
pub(super) fn wanted_gpus(unit: &ResourceUnit) -> String {
    const SHOWN: usize = 5;
    let attributes = &unit.resources.gpu.attributes;
    if attributes.is_empty() {
        return "of any model".to_owned();
    }
    let names: Vec<_> = attributes
        .iter()
        .take(SHOWN)
        .map(|a| format!("`{}`", a.key))
        .collect();
    let more = if attributes.len() > SHOWN {
        " or others"
    } else {
        ""
    };
    format!("{}{more}", names.join(" or "))
}

/// Formats an amount of bytes. The amount is negative if more is used than exists.
pub(super) fn bytes(bytes: i64) -> String {
    rounded_bytes(u128::try_from(bytes).unwrap_or_default())
}

pub(super) fn cores_of(millicores: i64) -> String {
    cores(u128::try_from(millicores).unwrap_or_default())
}
