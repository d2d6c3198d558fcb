//! Limits of the Akash network per unit and per group.

use super::build::BuildOutput;
use super::diagnostics::Diagnostics;
use super::document::{Compute, Document};
use super::fault::{ErrorKind, Location, SdlError};
use crate::types::quantity::{bytes, cores};
use crate::types::{Dec, GroupSpec, ResourceUnit};

const MI: u64 = 1 << 20;
const TI: u64 = 1 << 40;
/// Minimum and maximum millicores per replica.
const CPU: (u64, u64) = (10, 384_000);
/// Maximum number of GPUs per replica.
const GPU: u64 = 24;
/// Minimum and maximum bytes of memory per replica.
const MEMORY: (u64, u64) = (MI, 2 * TI);
/// Minimum and maximum bytes of each volume.
const VOLUME: (u64, u64) = (5 * MI, 32 * TI);
/// Maximum price per replica and block, in the smallest unit of the token.
const PRICE: i64 = 10_000_000;
/// Maximum amount of a resource in a group, as a multiple of the maximum per replica.
const GROUP: u128 = 50;

/// Function that formats a quantity with its unit.
type Unit = fn(u128) -> String;

/// Checks the used profiles and prices against the limits of the chain.
pub(super) fn parts(document: &Document, notes: &mut Diagnostics) {
    let mut denom = None;
    for (place, placement) in document.placements.iter() {
        let placed = document.deployment.values();
        for placed in placed.filter_map(|deployed| deployed.placed.get(place)) {
            if let Some(compute) = document.compute.get(&placed.profile) {
                check_compute(compute, notes);
            }
            let Some((spot, price)) = placement.pricing.get(&placed.profile) else {
                continue;
            };
            if price.amount > Dec::from_int(PRICE) {
                let problem = format!("the price {price} exceeds the limit of the network");
                notes.wrong(limit(spot, problem, format!("use at most {PRICE}")));
            }
            if *denom.get_or_insert(&price.denom) != &price.denom {
                let problem = "prices are in more than one denomination".to_owned();
                let help = "use one denomination for all prices of the deployment".to_owned();
                notes.wrong(limit(spot, problem, help));
            }
        }
    }
}

pub(super) fn groups(built: &BuildOutput, document: &Document, notes: &mut Diagnostics) {
    for group in &built.groups {
        if let Some(placement) = document.placements.get(&group.name) {
            notes.keep(check_group(group, &placement.spot));
        }
    }
}

fn check_compute(compute: &Compute, notes: &mut Diagnostics) {
    let (spot, cpu) = &compute.cpu;
    let millicores = |value| format!("{value}m");
    let unit = if cpu.text.ends_with('m') {
        millicores
    } else {
        cores
    };
    notes.keep(within(spot, "CPU", &cpu.text, cpu.value.units, CPU, unit));
    let (spot, memory) = &compute.memory;
    notes.keep(within(
        spot,
        "memory",
        &memory.text,
        memory.value.bytes,
        MEMORY,
        bytes,
    ));
    let (spot, gpu) = &compute.gpu;
    let written = gpu.units.to_string();
    let devices = |value: u128| value.to_string();
    notes.keep(within(spot, "GPUs", &written, gpu.units, (0, GPU), devices));
    if gpu.units == 0 && !gpu.attributes.is_empty() {
        let problem = "GPU models are named and no GPUs are requested".to_owned();
        notes.wrong(limit(spot, problem, "set `units` or remove `gpu`".to_owned()));
    }
    for (spot, volume) in &compute.storage {
        notes.keep(within(
            spot,
            "storage",
            &volume.text,
            volume.value.bytes,
            VOLUME,
            bytes,
        ));
    }
}

/// Checks that a quantity is within its range. `written` is the quantity as written in the SDL.
fn within(
    spot: &Location,
    what: &str,
    written: &str,
    value: u64,
    (least, most): (u64, u64),
    unit: Unit,
) -> Result<(), SdlError> {
    let direction = match value {
        small if small < least => "less",
        large if large > most => "more",
        _ => return Ok(()),
    };
    let problem = format!("`{written}` is {direction} {what} than the network accepts");
    let (least, most) = (unit(least.into()), unit(most.into()));
    Err(limit(spot, problem, format!("use `{least}` to `{most}`")))
}

fn check_group(group: &GroupSpec, spot: &Location) -> Result<(), SdlError> {
    // In 128 bits, because the largest memory for the largest count overflows 64 bits.
    let total = |of: fn(&ResourceUnit) -> u64| -> u128 {
        let units = group.resources.iter();
        units
            .map(|unit| u128::from(of(unit)) * u128::from(unit.count))
            .sum()
    };
    // The network limits each volume separately, not their sum.
    let largest_volume = |unit: &ResourceUnit| {
        let volumes = unit.resources.storage.iter();
        volumes.map(|volume| volume.bytes).max().unwrap_or(0)
    };
    let volume = group
        .resources
        .iter()
        .map(|unit| u128::from(largest_volume(unit)) * u128::from(unit.count));
    let totals: [(&str, u128, u64, Unit); 4] = [
        ("CPU", total(|unit| unit.resources.cpu.units), CPU.1, cores),
        ("GPUs", total(|unit| unit.resources.gpu.units), GPU, |value| {
            value.to_string()
        }),
        (
            "of memory",
            total(|unit| unit.resources.memory.bytes),
            MEMORY.1,
            bytes,
        ),
        ("in one volume", volume.max().unwrap_or(0), VOLUME.1, bytes),
    ];
    for (what, total, each, unit) in totals {
        let most = u128::from(each) * GROUP;
        if total > most {
            let problem = format!("its services request {} {what} together", unit(total));
            return Err(limit(
                spot,
                problem,
                format!("use at most {} per placement", unit(most)),
            ));
        }
    }
    Ok(())
}

fn limit(spot: &Location, problem: String, help: String) -> SdlError {
    spot.error(ErrorKind::Limit, problem, help)
}
