//! Limits of a group, checked before any query: the limits of the Akash network, and sizes that real groups never
//! reach.

use akash_provider_core::bidding::{check_size, limits};
use akash_provider_core::types::{Attribute, DeclineCode, GroupSpec, ResourceUnit};

pub(super) const UNITS_MAX: usize = 20;
/// Maximum number of attributes in each list of attributes.
pub(super) const ATTRIBUTES_MAX: usize = 64;
/// Maximum number of volumes of a resource unit. The same maximum applies to its endpoints.
pub(super) const PARTS_MAX: usize = 64;
pub(super) const HOSTNAMES_MAX: usize = 100;
const HOSTNAME_BYTES_MAX: usize = 255;
/// Maximum total size of the names, keys and values of a group, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 32 * 1024;

/// Code and text of an exceeded limit.
type Excess = (DeclineCode, String);

/// Checks a group and its hostnames.
///
/// # Errors
/// Returns the first exceeded limit.
pub(super) fn check(group: &GroupSpec, hostnames: &[String]) -> Result<(), Excess> {
    at_most("units of the group", group.resources.len(), UNITS_MAX)?;
    // The same limit as for bids, so that each auditor may cause a chain query.
    check_size(group).map_err(|decline| (decline.code(), decline.to_string()))?;
    at_most("hostnames", hostnames.len(), HOSTNAMES_MAX)?;
    for name in hostnames {
        at_most("bytes of a hostname", name.len(), HOSTNAME_BYTES_MAX)?;
    }
    for unit in &group.resources {
        check_unit(unit)?;
    }
    let placement = &group.requirements.attributes;
    at_most("attributes of the placement", placement.len(), ATTRIBUTES_MAX)?;
    at_most("bytes of names and attributes", text_bytes(group), TEXT_BYTES_MAX)?;
    let invalid = |text: String| (DeclineCode::InvalidGroup, text);
    limits::check_group(group).map_err(|e| invalid(format!("the group is invalid: {e}")))?;
    // Price strategies get the denomination, and one of them is a shell script.
    let denom = group.max_price().map(|p| p.denom).unwrap_or_default();
    if is_denom(&denom) {
        Ok(())
    } else {
        Err(invalid(format!("invalid denomination {denom:?}")))
    }
}

fn at_most(what: &str, there: usize, most: usize) -> Result<(), Excess> {
    if there > most {
        let text = format!("{there} {what}, at most {most} are accepted");
        return Err((DeclineCode::TooLarge, text));
    }
    Ok(())
}

fn check_unit(unit: &ResourceUnit) -> Result<(), Excess> {
    let resources = &unit.resources;
    at_most("volumes of a unit", resources.storage.len(), PARTS_MAX)?;
    at_most("endpoints of a unit", resources.endpoints.len(), PARTS_MAX)?;
    lists(unit).try_for_each(|list| at_most("attributes of a resource", list.len(), ATTRIBUTES_MAX))
}

fn lists(unit: &ResourceUnit) -> impl Iterator<Item = &Vec<Attribute>> {
    let resources = &unit.resources;
    let own = [
        &resources.cpu.attributes,
        &resources.gpu.attributes,
        &resources.memory.attributes,
    ];
    own.into_iter()
        .chain(resources.storage.iter().map(|v| &v.attributes))
}

fn text_bytes(group: &GroupSpec) -> usize {
    let attribute = |a: &Attribute| a.key.len() + a.value.len();
    let signed_by = &group.requirements.signed_by;
    let mut sum = group.name.len();
    sum += signed_by
        .all_of
        .iter()
        .chain(&signed_by.any_of)
        .map(String::len)
        .sum::<usize>();
    sum += group.requirements.attributes.iter().map(attribute).sum::<usize>();
    for unit in &group.resources {
        sum += unit.resources.storage.iter().map(|v| v.name.len()).sum::<usize>();
        sum += lists(unit).flatten().map(attribute).sum::<usize>();
    }
    sum
}

fn is_denom(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins = bytes.next().is_some_and(|b| b.is_ascii_alphabetic());
    let goes_on = |b: u8| b.is_ascii_alphanumeric() || b"/:._-".contains(&b);
    begins && (3..=128).contains(&text.len()) && bytes.all(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::bidding::AUDITORS_MAX;
    use akash_provider_core::sdl;
    use akash_provider_core::types::DecCoin;

    const SDL: &str = r#"
version: "2.0"
services: {web: {image: web:1, expose: [{port: 80, to: [{global: true}]}]}}
profiles:
  compute: {small: {resources: {cpu: {units: 0.1}, memory: {size: 16Mi}, storage: {size: 16Mi}}}}
  placement: {here: {pricing: {small: {denom: uact, amount: 50000}}}}
deployment: {web: {here: {profile: small, count: 1}}}
"#;

    fn group() -> GroupSpec {
        let mut group = sdl::parse(SDL).unwrap().groups.remove(0);
        group.resources.truncate(1);
        group
    }

    fn broken(change: impl FnOnce(&mut GroupSpec)) -> Option<String> {
        let mut group = group();
        check(&group, &[]).unwrap();
        change(&mut group);
        check(&group, &[]).err().map(|(_, text)| text)
    }

    fn units(group: &mut GroupSpec, count: usize) {
        let one = group.resources[0].clone();
        group.resources = (1..)
            .map(|id| {
                let mut unit = one.clone();
                unit.resources.id = id;
                unit
            })
            .take(count)
            .collect();
    }

    fn attributes(count: usize) -> Vec<Attribute> {
        (0..count)
            .map(|n| Attribute::new(format!("key{n}"), "x"))
            .collect()
    }

    #[test]
    fn every_list_of_a_group_has_a_limit() {
        assert_eq!(broken(|g| units(g, UNITS_MAX)), None);
        let words = broken(|g| units(g, UNITS_MAX + 1)).unwrap();
        assert_eq!(words, "21 units of the group, at most 20 are accepted");
        type Place = fn(&mut GroupSpec) -> &mut Vec<Attribute>;
        let places: [Place; 4] = [
            |g| &mut g.requirements.attributes,
            |g| &mut g.resources[0].resources.cpu.attributes,
            |g| &mut g.resources[0].resources.memory.attributes,
            |g| &mut g.resources[0].resources.storage[0].attributes,
        ];
        for place in places {
            assert_eq!(broken(|g| *place(g) = attributes(ATTRIBUTES_MAX)), None);
            assert!(broken(|g| *place(g) = attributes(ATTRIBUTES_MAX + 1)).is_some());
        }
        let auditors = |count: usize| (0..count).map(|n| format!("akash{n}")).collect::<Vec<_>>();
        assert_eq!(
            broken(|g| g.requirements.signed_by.any_of = auditors(AUDITORS_MAX)),
            None
        );
        assert!(broken(|g| g.requirements.signed_by.any_of = auditors(AUDITORS_MAX + 1)).is_some());
        let volumes = |count| {
            move |g: &mut GroupSpec| {
                let one = g.resources[0].resources.storage[0].clone();
                g.resources[0].resources.storage = vec![one; count];
            }
        };
        assert_eq!(broken(volumes(PARTS_MAX)), None);
        assert!(broken(volumes(PARTS_MAX + 1)).is_some());
        assert!(broken(|g| g.name = "x".repeat(TEXT_BYTES_MAX + 1)).is_some());
    }

    #[test]
    fn hostnames_have_limits() {
        let names = |count: usize, bytes: usize| vec!["x".repeat(bytes); count];
        assert_eq!(check(&group(), &names(HOSTNAMES_MAX, HOSTNAME_BYTES_MAX)), Ok(()));
        assert!(check(&group(), &names(HOSTNAMES_MAX + 1, 1)).is_err());
        assert!(check(&group(), &names(1, HOSTNAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn an_invalid_denomination_is_refused() {
        let set = |denom: &str| {
            let price = DecCoin::new(&denom.into(), "1".parse().unwrap());
            broken(|g| g.resources[0].price = price)
        };
        for good in [
            "uact",
            "ibc/27394FB092D2ECCD56123C74F36E4C1F926001CEADA9CA97EA622B25F41E5EB2",
        ] {
            assert_eq!(set(good), None, "{good}");
        }
        for bad in [
            "",
            "ua",
            "1uact",
            "u$(id)",
            "u act",
            "uact\n",
            "ü123",
            &"u".repeat(129),
        ] {
            assert!(set(bad).is_some(), "{bad:?}");
        }
    }
}
