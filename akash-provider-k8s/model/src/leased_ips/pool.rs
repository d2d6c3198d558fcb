//! Address pools of MetalLB, and their numbers of used addresses. Invalid pools never fail the count, and large
//! ranges take constant time.

use crate::problem::cut;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PROBLEMS_MAX: usize = 8;

/// Address range of one IP version, with both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Range {
    is_v6: bool,
    first: u128,
    last: u128,
}

/// `IPAddressPool` object of MetalLB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Sorted and disjoint ranges. Adjacent ranges are merged.
    ranges: Vec<Range>,
    /// True if addresses that end in .0 or .255 are excluded.
    avoids_buggy: bool,
    /// True if MetalLB assigns addresses of this pool to Services that name no pool.
    pub assigns: bool,
    /// True if the pool is limited to some namespaces or Services.
    pub is_reserved: bool,
    /// Invalid parts of the pool, which are not counted.
    pub problems: Vec<String>,
}

/// Decodes a pool.
#[must_use]
pub fn pool(object: &DynamicObject) -> Pool {
    let spec = object.data.get("spec");
    let field = |name: &str| spec.and_then(|spec| spec.get(name)).filter(|v| !v.is_null());
    let flag = |name: &str, or: bool| field(name).map_or(or, |value| value.as_bool().unwrap_or(or));
    let mut pool = Pool {
        avoids_buggy: flag("avoidBuggyIPs", false),
        assigns: flag("autoAssign", true),
        is_reserved: field("serviceAllocation").is_some_and(is_limited),
        ..Pool::default()
    };
    let mut ranges = Vec::new();
    match field("addresses").and_then(Value::as_array) {
        None => pool.problems.push("the pool has no list of addresses".to_owned()),
        Some(all) => {
            for text in all {
                match text
                    .as_str()
                    .ok_or_else(|| "not a string".to_owned())
                    .and_then(range)
                {
                    Ok(range) => ranges.push(range),
                    Err(why) if pool.problems.len() < PROBLEMS_MAX => {
                        pool.problems.push(cut(format!("invalid range {text}: {why}")));
                    }
                    Err(_) => {}
                }
            }
        }
    }
    let total = ranges.len();
    pool.ranges = merged(ranges);
    if pool.ranges.len() < total && overlaps_of(object) {
        pool.problems.push("ranges overlap and count once".to_owned());
    }
    pool
}

impl Pool {
    /// Returns the number of addresses, at most `u32::MAX`.
    #[must_use]
    pub fn total(&self) -> u32 {
        let sum = self.ranges.iter().fold(0_u128, |sum, range| {
            sum.saturating_add(range.usable(self.avoids_buggy))
        });
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// Returns true for an address that the pool may assign.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let (is_v6, number) = number(address);
        if self.avoids_buggy && is_buggy(address) {
            return false;
        }
        let after = self
            .ranges
            .partition_point(|range| (range.is_v6, range.first) <= (is_v6, number));
        let before = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        before.is_some_and(|range| range.is_v6 == is_v6 && number <= range.last)
    }

    /// Returns the number of `addresses` that are in the pool.
    #[must_use]
    pub fn in_use(&self, addresses: &BTreeSet<IpAddr>) -> u32 {
        let used = addresses.iter().filter(|address| self.has(**address)).count();
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Returns true if an address is in both pools.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            if a.is_v6 == b.is_v6 && a.first <= b.last && b.first <= a.last {
                return true;
            }
            // The range that ends first overlaps no later range.
            if (a.is_v6, a.last) < (b.is_v6, b.last) {
                ours.next();
            } else {
                theirs.next();
            }
        }
        false
    }

    /// Returns the number of distinct addresses in `pools`.
    #[must_use]
    pub fn union<'a>(pools: impl IntoIterator<Item = &'a Self>) -> u32 {
        let (mut plain, mut careful) = (Vec::new(), Vec::new());
        for pool in pools {
            let ranges = if pool.avoids_buggy {
                &mut careful
            } else {
                &mut plain
            };
            ranges.extend(pool.ranges.iter().copied());
        }
        let sum = |ranges: &[Range], avoids_buggy: bool| {
            let all = ranges.iter();
            all.fold(0_u128, |sum, range| {
                sum.saturating_add(range.usable(avoids_buggy))
            })
        };
        let (plain, all) = (merged(plain.clone()), merged([plain, careful].concat()));
        // Addresses of pools that avoid .0 and .255 are counted with that restriction.
        let usable = sum(&all, true).saturating_add(sum(&plain, false).saturating_sub(sum(&plain, true)));
        u32::try_from(usable).unwrap_or(u32::MAX)
    }
}

impl Range {
    /// Returns the number of addresses in the range. `avoids_buggy` excludes addresses that end in .0 or
    /// .255.
    fn usable(&self, avoids_buggy: bool) -> u128 {
        // The whole IPv6 space has one address more than `u128::MAX`.
        let all = (self.last - self.first).saturating_add(1);
        if !avoids_buggy || self.is_v6 {
            return all;
        }
        let ending = |end: u128| {
            // Number of addresses up to `last` with this ending.
            let up_to = |last: u128| (last + 256 - end) / 256;
            up_to(self.last) - self.first.checked_sub(1).map_or(0, up_to)
        };
        all - ending(0) - ending(255)
    }
}

fn is_limited(allocation: &Value) -> bool {
    ["namespaces", "namespaceSelectors", "serviceSelectors"]
        .iter()
        .any(|field| {
            allocation
                .get(field)
                .and_then(Value::as_array)
                .is_some_and(|all| !all.is_empty())
        })
}

/// Parses a range, `A-B` or `A/PREFIX`.
fn range(text: &str) -> Result<Range, String> {
    let address = |text: &str| {
        let text = text.trim();
        text.parse::<IpAddr>()
            .map_err(|_| format!("invalid address `{text}`"))
    };
    if let Some((first, last)) = text.split_once('-') {
        let (from, to) = (number(address(first)?), number(address(last)?));
        return match (from, to) {
            ((v6, first), (same, last)) if v6 == same && first <= last => Ok(Range {
                is_v6: v6,
                first,
                last,
            }),
            _ => Err("the end is before the start".to_owned()),
        };
    }
    let (at, prefix) = text.split_once('/').ok_or("expected `A-B` or `A/PREFIX`")?;
    let (is_v6, number) = number(address(at)?);
    let width: u32 = if is_v6 { 128 } else { 32 };
    let prefix: u32 = prefix.trim().parse().map_err(|_| "the prefix is not a number")?;
    let host = width
        .checked_sub(prefix)
        .ok_or_else(|| format!("the prefix is longer than {width}"))?;
    // A shift by 128 bits is undefined, so the mask is all ones.
    let mask = 1_u128.checked_shl(host).map_or(u128::MAX, |bit| bit - 1);
    Ok(Range {
        is_v6,
        first: number & !mask,
        last: number | mask,
    })
}

fn number(address: IpAddr) -> (bool, u128) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (false, u128::from(Ipv4Addr::to_bits(v4))),
        IpAddr::V6(v6) => (true, Ipv6Addr::to_bits(v6)),
    }
}

/// Returns true for an address that ends in .0 or .255. Some old devices drop packets to such addresses.
const fn is_buggy(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => matches!(v4.octets()[3], 0 | 255),
        IpAddr::V6(_) => false,
    }
}

/// Sorts the ranges and merges overlapping and adjacent ranges.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.is_v6 == range.is_v6 && range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

fn overlaps_of(object: &DynamicObject) -> bool {
    let all = object.data.pointer("/spec/addresses").and_then(Value::as_array);
    let texts = all.into_iter().flatten().filter_map(Value::as_str);
    let mut ranges: Vec<Range> = texts.filter_map(|text| range(text).ok()).collect();
    ranges.sort_unstable();
    let pairs = ranges.windows(2);
    let mut meets = pairs.filter_map(|pair| match pair {
        [a, b] => Some(a.is_v6 == b.is_v6 && b.first <= a.last),
        _ => None,
    });
    meets.any(|meets| meets)
}

#[cfg(test)]
mod tests;
