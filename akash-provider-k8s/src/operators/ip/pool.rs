//! MetalLB's pools of addresses, and how many of them are in use. Whatever is written there, counting never fails and
//! never takes long: ranges are counted by their ends.

use crate::operators::said::cut;
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// More problems of one pool are not kept.
const PROBLEMS_MAX: usize = 8;

/// Addresses of one version, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Range {
    is_v6: bool,
    first: u128,
    last: u128,
}

/// A pool as it is declared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pool {
    /// In order, and none touches another.
    ranges: Vec<Range>,
    /// Addresses that end in .0 and .255 are left out.
    avoids_buggy: bool,
    /// MetalLB gives its addresses to who names no pool.
    pub assigns: bool,
    /// It is for some namespaces or Services alone.
    pub is_reserved: bool,
    /// What of it makes no sense, and counts for nothing.
    pub problems: Vec<String>,
}

/// What a pool is read from.
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
        None => pool.problems.push("it has no list of addresses".to_owned()),
        Some(all) => {
            for text in all {
                match text
                    .as_str()
                    .ok_or_else(|| "it is no text".to_owned())
                    .and_then(range)
                {
                    Ok(range) => ranges.push(range),
                    Err(why) if pool.problems.len() < PROBLEMS_MAX => {
                        pool.problems
                            .push(cut(format!("{text} counts for nothing: {why}")));
                    }
                    Err(_) => {}
                }
            }
        }
    }
    let total = ranges.len();
    pool.ranges = merged(ranges);
    if pool.ranges.len() < total && overlaps_of(object) {
        pool.problems
            .push("ranges of it overlap, and count once".to_owned());
    }
    pool
}

impl Pool {
    /// Addresses that it has, at most `u32::MAX`: nobody leases more.
    #[must_use]
    pub fn total(&self) -> u32 {
        let sum = self.ranges.iter().fold(0_u128, |sum, range| {
            sum.saturating_add(range.usable(self.avoids_buggy))
        });
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// True for an address that it may give out.
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

    /// How many of these it gave out.
    #[must_use]
    pub fn in_use(&self, addresses: &BTreeSet<IpAddr>) -> u32 {
        let used = addresses.iter().filter(|address| self.has(**address)).count();
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// True when an address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            if a.is_v6 == b.is_v6 && a.first <= b.last && b.first <= a.last {
                return true;
            }
            // The one that ends first meets nobody any more.
            if (a.is_v6, a.last) < (b.is_v6, b.last) {
                ours.next();
            } else {
                theirs.next();
            }
        }
        false
    }

    /// All addresses of these pools, each once.
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
        // Addresses that only careful pools have are counted as those do.
        let usable = sum(&all, true).saturating_add(sum(&plain, false).saturating_sub(sum(&plain, true)));
        u32::try_from(usable).unwrap_or(u32::MAX)
    }
}

impl Range {
    /// Addresses, without those that end in .0 and .255 where those are avoided.
    fn usable(&self, avoids_buggy: bool) -> u128 {
        // Of all there are of version 6 one is lost, which nobody misses.
        let all = (self.last - self.first).saturating_add(1);
        if !avoids_buggy || self.is_v6 {
            return all;
        }
        let ending = |end: u128| {
            // How many up to here end so.
            let up_to = |last: u128| (last + 256 - end) / 256;
            up_to(self.last) - self.first.checked_sub(1).map_or(0, up_to)
        };
        all - ending(0) - ending(255)
    }
}

/// It names namespaces or Services that it is for.
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

/// A range is written as `A-B` or as `A/PREFIX`.
fn range(text: &str) -> Result<Range, String> {
    let address = |text: &str| {
        let text = text.trim();
        text.parse::<IpAddr>()
            .map_err(|_| format!("`{text}` is no address"))
    };
    if let Some((first, last)) = text.split_once('-') {
        let (from, to) = (number(address(first)?), number(address(last)?));
        return match (from, to) {
            ((v6, first), (same, last)) if v6 == same && first <= last => Ok(Range {
                is_v6: v6,
                first,
                last,
            }),
            _ => Err("it ends before it begins".to_owned()),
        };
    }
    let (at, prefix) = text.split_once('/').ok_or("it is neither `A-B` nor `A/PREFIX`")?;
    let (is_v6, number) = number(address(at)?);
    let width: u32 = if is_v6 { 128 } else { 32 };
    let prefix: u32 = prefix.trim().parse().map_err(|_| "its prefix is no number")?;
    let host = width
        .checked_sub(prefix)
        .ok_or_else(|| format!("its prefix is longer than {width}"))?;
    // All bits of the host; of 128 there is no such shift.
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

/// Devices of long ago drop what goes to it.
const fn is_buggy(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => matches!(v4.octets()[3], 0 | 255),
        IpAddr::V6(_) => false,
    }
}

/// In order, with those that touch as one.
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

/// Two ranges of a pool have an address in common.
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
