//! Profiles: resources of a replica, placement attributes and prices.

use super::value::ValueRef;
use crate::sdl::diagnostics::Diagnostics;
use crate::sdl::document::{Compute, Placement, Sourced};
use crate::sdl::fault::{ErrorKind, Location, SdlError, truncated};
use crate::sdl::scalar;
use crate::types::{Attribute, Cpu, Dec, DecCoin, Gpu, Memory, SignedBy, Storage};
use std::collections::{BTreeMap, BTreeSet};

const SIZE: &str = "write a number and a unit, for example `512Mi`";

/// Storage classes of the Akash network.
const CLASSES: [&str; 5] = ["default", "beta1", "beta2", "beta3", "ram"];

pub(super) fn compute(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Compute, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["resources"], notes);
    let resources = fields
        .required("resources", "add cpu, memory and storage")?
        .map()?;
    resources.warn_others(&["cpu", "gpu", "memory", "storage"], notes);
    let mut part = |name: &str, help: &str| notes.keep(resources.required(name, help));
    let cpu_at = part("cpu", "write `units: 100m` below it");
    let memory_at = part("memory", "write `size: 512Mi` below it");
    let storage_at = part("storage", "write `size: 512Mi` below it");
    let gpu_at = resources.get("gpu");
    // Missing and invalid parts have an error, so their default values are never used.
    Ok(Compute {
        spot: at.spot.clone(),
        cpu: part_of(cpu_at, &at.spot, notes, cpu),
        memory: part_of(memory_at, &at.spot, notes, memory),
        gpu: part_of(gpu_at, &at.spot, notes, gpu),
        storage: part_of(storage_at, &at.spot, notes, storage).1,
    })
}

/// Returns a field of a profile, and the location of the field. If the field is missing, returns the default
/// value and the location of the profile.
fn part_of<T: Default>(
    at: Option<ValueRef<'_>>,
    profile: &Location,
    notes: &mut Diagnostics,
    read: impl Fn(&ValueRef<'_>, &mut Diagnostics) -> Result<T, SdlError>,
) -> (Location, T) {
    let Some(at) = at else {
        return (profile.clone(), T::default());
    };
    let part = read(&at, notes);
    (at.spot, notes.keep(part).unwrap_or_default())
}

fn memory(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Sourced<Memory>, SdlError> {
    let fields = at.map()?;
    fields.only(&["size"], notes);
    let size = fields.required("size", SIZE)?;
    let value = Memory::new(size.quantity(scalar::bytes, SIZE)?, Vec::new());
    let text = truncated(size.text()?);
    Ok(Sourced { value, text })
}

fn cpu(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Sourced<Cpu>, SdlError> {
    const HELP: &str = "write millicores such as `100m` or cores such as `0.5`";
    let fields = at.map()?;
    fields.only(&["units", "attributes"], notes);
    let written = fields.required("units", HELP)?;
    let units = written.quantity(scalar::milli_cpu, HELP)?;
    let mut attributes = Vec::new();
    if let Some(at) = fields.get("attributes") {
        let fields = at.map()?;
        fields.only(&["arch"], notes);
        for (key, at) in fields.each() {
            attributes.push(Attribute::new(key, at.text()?));
        }
    }
    let value = Cpu::new(units, attributes);
    let text = truncated(written.text()?);
    Ok(Sourced { value, text })
}

fn gpu(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Gpu, SdlError> {
    const HELP: &str = "write a whole number of GPUs";
    let fields = at.map()?;
    fields.only(&["units", "attributes"], notes);
    let units = match fields.get("units") {
        Some(at) => at.quantity(scalar::devices, HELP)?,
        None => 0,
    };
    let attributes = match fields.get("attributes") {
        Some(at) => gpu_attributes(&at, notes)?,
        None => Vec::new(),
    };
    if units > 0 && attributes.is_empty() {
        let problem = "GPUs are requested without a model";
        let help = "list GPU models, or add `attributes: {vendor: {nvidia: []}}` for any model";
        return Err(at.spot.error(ErrorKind::MissingField, problem, help));
    }
    Ok(Gpu::new(units, attributes))
}

fn gpu_attributes(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Vec<Attribute>, SdlError> {
    let fields = at.map()?;
    fields.only(&["vendor"], notes);
    let vendor = fields.required("vendor", "name a vendor, for example `nvidia`")?;
    let mut keys = BTreeSet::new();
    for (name, at) in vendor.map()?.each() {
        if name != "nvidia" {
            let problem = format!(
                "the vendor `{}` is unknown to the network and ignored",
                truncated(name)
            );
            notes.warn(at.spot.warning(problem, "use `nvidia`"));
            continue;
        }
        let Some(models) = vendor.map()?.get("nvidia") else {
            continue;
        };
        for item in models.list(notes)? {
            let key = gpu_model(&item, notes);
            let Some(key) = notes.keep(key) else { continue };
            if !keys.insert(key) {
                let problem = "this model is listed twice";
                notes.wrong(
                    item.spot
                        .error(ErrorKind::DuplicateKey, problem, "keep one of them"),
                );
            }
        }
    }
    // A vendor without models represents all its models.
    if keys.is_empty() {
        keys.insert("vendor/nvidia/model/*".to_owned());
    }
    Ok(keys.into_iter().map(|key| Attribute::new(key, "true")).collect())
}

fn gpu_model(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<String, SdlError> {
    const HELP: &str = "name a model as providers do, for example `a100`, or `*` alone for any";
    let fields = at.map()?;
    fields.warn_others(&["model", "ram", "interface"], notes);
    let model = fields.required("model", HELP)?.text()?;
    let mut key = format!("vendor/nvidia/model/{model}");
    if let Some(at) = fields.get("ram") {
        let help = "write the GPU memory as a number with a binary unit, for example `80Gi`";
        let bytes = at.quantity(scalar::gpu_ram, help)?;
        // In whole gibibytes, the form in which devices are compared.
        key.push_str(&format!("/ram/{}Gi", bytes >> 30));
    }
    if let Some(at) = fields.get("interface") {
        match at.text()? {
            interface @ ("pcie" | "sxm") => key.push_str(&format!("/interface/{interface}")),
            other => {
                let problem = format!("there is no GPU interface `{}`", truncated(other));
                return Err(at.spot.error(ErrorKind::Invalid, problem, "use `pcie` or `sxm`"));
            }
        }
    }
    // The whole key is checked, because memory and interface count towards its length.
    if model.is_empty() || !is_attribute_key(&key) {
        let problem = format!("`{}` is not a valid GPU model", truncated(model));
        return Err(at.spot.error(ErrorKind::Invalid, problem, HELP));
    }
    Ok(key)
}

/// Returns whether the Akash network accepts the attribute key. A `*` is allowed only at the end.
fn is_attribute_key(key: &str) -> bool {
    let body = key.strip_suffix('*').unwrap_or(key);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_/.-".contains(&b);
    let bare = body.len() == key.len();
    let fits = if bare {
        (2..=128).contains(&key.len())
    } else {
        (3..=128).contains(&key.len())
    };
    fits && body.starts_with(|c: char| c.is_ascii_alphabetic()) && body.bytes().all(allowed)
}

fn storage(
    at: &ValueRef<'_>,
    notes: &mut Diagnostics,
) -> Result<Vec<(Location, Sourced<Storage>)>, SdlError> {
    let (mut volumes, mut is_wrong) = (Vec::new(), false);
    if at.is_list() {
        for item in at.list(notes)? {
            let volume = volume(&item, notes);
            let volume = notes.keep(volume);
            is_wrong |= volume.is_none();
            volumes.extend(volume);
        }
    } else {
        let (spot, mut volume) = volume(at, notes)?;
        // A single volume is always called `default`, regardless of its name.
        volume.value.name = "default".to_owned();
        volumes.push((spot, volume));
    }
    if volumes.is_empty() && !is_wrong {
        let problem = "there is no volume";
        return Err(at
            .spot
            .error(ErrorKind::MissingField, problem, "write `size: 512Mi` below it"));
    }
    let mut names = BTreeSet::new();
    for (spot, volume) in &volumes {
        let name = &volume.value.name;
        if !names.insert(name) {
            let problem = format!("another volume is named `{}`", truncated(name));
            let help = "give each volume a unique `name`; a volume without a name is called `default`";
            notes.wrong(spot.error(ErrorKind::DuplicateKey, problem, help));
        }
    }
    sort(&mut volumes);
    Ok(volumes)
}

fn volume(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<(Location, Sourced<Storage>), SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["name", "size", "attributes"], notes);
    let size = fields.required("size", SIZE)?;
    let bytes = size.quantity(scalar::bytes, SIZE)?;
    let name = match fields.text("name")? {
        "" => "default",
        name => name,
    };
    let attributes = match fields.get("attributes") {
        Some(at) => volume_attributes(&at, notes)?,
        None => Vec::new(),
    };
    let value = Storage::new(name, bytes, attributes);
    let text = truncated(size.text()?);
    Ok((at.spot.clone(), Sourced { value, text }))
}

/// Returns `class` and `persistent`, with the defaults of the Akash tools.
fn volume_attributes(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Vec<Attribute>, SdlError> {
    let fields = at.map()?;
    fields.only(&["class", "persistent"], notes);
    let persistent = match fields.get("persistent") {
        Some(at) => at.text()?,
        None => "false",
    };
    let class = fields.text("class")?;
    let class = match class {
        // Only for the exact text `true`: with `on` and `yes` the class stays empty, as in the network's
        // tools.
        "" if persistent == "true" => "default",
        class => class,
    };
    let error = |problem: String, help: &str| Err(at.spot.error(ErrorKind::Invalid, problem, help));
    let truth = match persistent {
        "true" | "on" | "yes" => "true",
        "false" | "off" | "no" => "false",
        other => {
            let problem = format!("`{}` is not a boolean", truncated(other));
            return error(problem, "write `persistent: true` or `persistent: false`");
        }
    };
    // Compared as written, so `off` and `no` are refused, as in the network's tools.
    if class == "ram" && persistent != "false" {
        return error(
            "a volume in memory cannot be persistent".to_owned(),
            "remove `persistent`",
        );
    }
    if !class.is_empty() && class != "ram" && persistent == "false" {
        let problem = format!("the class `{}` is for persistent volumes", truncated(class));
        return error(problem, "add `persistent: true` or remove `class`");
    }
    if !class.is_empty() && !CLASSES.contains(&class) {
        let problem = format!("there is no storage class `{}`", truncated(class));
        return error(problem, "use one of default, beta1, beta2, beta3, ram");
    }
    let mut attributes = Vec::new();
    if !class.is_empty() {
        attributes.push(Attribute::new("class", class));
    }
    attributes.push(Attribute::new("persistent", truth));
    Ok(attributes)
}

/// Sorts volumes exactly like the Akash tools, because the order affects the hash.
fn sort(volumes: &mut [(Location, Sourced<Storage>)]) {
    for end in 1..volumes.len() {
        for at in (1..=end).rev() {
            let (Some((_, before)), Some((_, volume))) = (volumes.get(at - 1), volumes.get(at)) else {
                break;
            };
            if !goes_before(&volume.value, &before.value) {
                break;
            }
            volumes.swap(at, at - 1);
        }
    }
}

fn goes_before(a: &Storage, b: &Storage) -> bool {
    if a.bytes != b.bytes {
        return a.bytes < b.bytes;
    }
    match (a.attribute("persistent"), b.attribute("persistent")) {
        (None, Some(_)) => return true,
        (Some(a), Some(b)) if a < b => return true,
        (Some(_), None) => return false,
        (Some(_) | None, _) => {}
    }
    if !a.is_persistent() {
        return true;
    }
    b.is_persistent() && a.name < b.name
}

pub(super) fn placement(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<Placement, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["attributes", "signedBy", "pricing"], notes);
    // Sorted by key, as in the group on the chain.
    let mut attributes = BTreeMap::new();
    if let Some(at) = fields.get("attributes") {
        for (key, at) in at.map()?.each() {
            if !is_attribute_key(key) {
                let problem = format!("no provider can have an attribute named `{}`", truncated(key));
                notes.warn(
                    at.spot
                        .warning(problem, "use only letters, digits, `_`, `/`, `.` and `-`"),
                );
            }
            attributes.insert(key, notes.keep(at.text()).unwrap_or_default());
        }
    }
    let mut signed_by = SignedBy::default();
    if let Some(at) = fields.get("signedBy") {
        let fields = at.map()?;
        fields.warn_others(&["allOf", "anyOf"], notes);
        signed_by.all_of = fields.texts("allOf", notes)?.unwrap_or_default();
        signed_by.any_of = fields.texts("anyOf", notes)?.unwrap_or_default();
    }
    let mut pricing = BTreeMap::new();
    if let Some(at) = fields.get("pricing") {
        for (profile, at) in at.map()?.each() {
            let price = price(&at, notes);
            pricing.extend(
                notes
                    .keep(price)
                    .map(|price| (profile.to_owned(), (at.spot.clone(), price))),
            );
        }
    }
    Ok(Placement {
        attributes: attributes
            .into_iter()
            .map(|(k, v)| Attribute::new(k, v))
            .collect(),
        signed_by,
        pricing,
        spot: at.spot.clone(),
    })
}

fn price(at: &ValueRef<'_>, notes: &mut Diagnostics) -> Result<DecCoin, SdlError> {
    let fields = at.map()?;
    fields.warn_others(&["amount", "denom"], notes);
    let help = "write the price as a number above zero with at most 18 digits after the decimal point";
    let amount_at = fields.required("amount", help)?;
    let text = amount_at.text()?;
    // An SDL can contain `.5`, but the decimal parser requires a digit before the point.
    let padded = if text.starts_with('.') {
        format!("0{text}")
    } else {
        text.to_owned()
    };
    let amount: Dec = padded.parse().map_err(|error| {
        let problem = format!("this is not a price: {error}");
        amount_at.spot.error(ErrorKind::Invalid, problem, help)
    })?;
    if amount.is_zero() || amount.is_negative() {
        let problem = format!("the price `{}` is not above zero", truncated(text));
        return Err(amount_at.spot.error(ErrorKind::Invalid, problem, help));
    }
    let denom_at = fields.required("denom", "write `denom: uakt`")?;
    let denom = denom_at.text()?;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/:._-".contains(&b);
    let letter = denom.starts_with(|c: char| c.is_ascii_alphabetic());
    if !(3..=128).contains(&denom.len()) || !letter || !denom.bytes().all(allowed) {
        let problem = format!("`{}` cannot be a denomination", truncated(denom));
        return Err(denom_at
            .spot
            .error(ErrorKind::Invalid, problem, "write `denom: uakt`"));
    }
    if !matches!(denom, "uakt" | "uact") && !denom.starts_with("ibc/") {
        let problem = format!(
            "the denomination `{}` is unknown to the network's tools",
            truncated(denom)
        );
        notes.warn(denom_at.spot.warning(problem, "use `uakt` or `uact`"));
    }
    Ok(DecCoin::new(&denom.into(), amount))
}
