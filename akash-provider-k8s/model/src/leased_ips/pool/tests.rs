use super::*;
use serde_json::json;
use std::time::Instant;

fn read(spec: Value) -> Pool {
    let object = json!({"metadata": {"name": "p"}, "spec": spec});
    pool(&serde_json::from_value(object).unwrap())
}

fn of(addresses: &[&str]) -> Pool {
    read(json!({ "addresses": addresses }))
}

#[test]
fn ranges_and_prefixes_of_both_ip_versions_are_counted() {
    for (addresses, total) in [
        (&["10.0.0.1-10.0.0.10"][..], 10),
        (&["10.0.0.1 - 10.0.0.1"], 1),
        (&["10.0.0.0/24"], 256),
        // As in MetalLB, host bits are ignored.
        (&["10.0.0.77/24"], 256),
        (&["10.0.0.1/32", "10.0.0.2/32"], 2),
        (&["2001:db8::/120", "10.0.0.0/30"], 260),
        (&["2001:db8::1-2001:db8::ff"], 255),
        (&["10.0.0.0/24", "10.0.0.128/25", "10.0.0.250-10.0.1.4"], 261),
        (&[], 0),
    ] {
        let pool = of(addresses);
        assert_eq!(pool.total(), total, "{addresses:?}");
    }
    assert_eq!(of(&["10.0.0.0/24", "10.0.0.128/25"]).problems.len(), 1);
    assert_eq!(
        of(&["10.0.0.0/25", "10.0.0.128/25"]).problems.len(),
        0,
        "ranges that touch do not overlap"
    );
}

#[test]
fn huge_pools_are_counted_up_to_a_limit_in_constant_time() {
    let begun = Instant::now();
    for addresses in [
        &["0.0.0.0/0"][..],
        &["::/0"],
        &["::/0", "0.0.0.0/0", "2001:db8::/32"],
        &["0.0.0.0-255.255.255.255"],
        &["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
    ] {
        assert_eq!(of(addresses).total(), u32::MAX, "{addresses:?}");
        let careful = read(json!({"addresses": addresses, "avoidBuggyIPs": true}));
        assert!(careful.total() > 4_000_000_000, "{addresses:?}");
    }
    let many: Vec<String> = (0..50_000_u32)
        .map(|n| format!("{}/32", Ipv4Addr::from_bits(n * 2)))
        .collect();
    assert_eq!(read(json!({ "addresses": many })).total(), 50_000);
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn invalid_ranges_are_reported_and_not_counted() {
    for text in [
        json!(""),
        json!("10.0.0.1"),
        json!("10.0.0.9-10.0.0.1"),
        json!("10.0.0.1-2001:db8::1"),
        json!("10.0.0.1-"),
        json!("10.0.0.0/33"),
        json!("10.0.0.0/-1"),
        json!("10.0.0.0/999999999999"),
        json!("300.0.0.0/8"),
        json!("; rm -rf /"),
        json!("é".repeat(10_000)),
        json!(7),
        json!(null),
        json!({}),
    ] {
        let pool = read(json!({"addresses": [text, "10.0.0.1/32"]}));
        assert_eq!((pool.total(), pool.problems.len()), (1, 1), "{text:.60}");
        assert!(pool.problems[0].chars().count() <= 301);
    }
    for spec in [
        json!(null),
        json!({}),
        json!({"addresses": "10.0.0.0/24"}),
        json!([]),
        json!("x"),
    ] {
        let pool = read(spec);
        assert_eq!((pool.total(), pool.problems.len()), (0, 1));
    }
    let many = vec!["garbage"; 10_000];
    assert_eq!(read(json!({ "addresses": many })).problems.len(), PROBLEMS_MAX);
}

#[test]
fn avoided_addresses_are_not_counted() {
    for (addresses, total) in [
        ("10.0.0.0/24", 254),
        ("10.0.0.0/22", 1016),
        ("10.0.0.1-10.0.0.254", 254),
        ("10.0.0.250-10.0.1.5", 10),
        ("10.0.0.255/32", 0),
        ("0.0.0.0/32", 0),
        ("2001:db8::/120", 256),
    ] {
        let pool = read(json!({"addresses": [addresses], "avoidBuggyIPs": true}));
        assert_eq!(pool.total(), total, "{addresses}");
    }
    let pool = read(json!({"addresses": ["10.0.0.0/24"], "avoidBuggyIPs": true}));
    let has = |text: &str| pool.has(text.parse().unwrap());
    assert!(
        has("10.0.0.1")
            && !has("10.0.0.0")
            && !has("10.0.0.255")
            && !has("10.0.1.1")
            && !has("9.255.255.255")
    );
    assert!(!has("2001:db8::1") && has("::ffff:10.0.0.7"));
}

#[test]
fn shared_addresses_of_pools_count_once() {
    let (one, two) = (of(&["10.0.0.0/24"]), of(&["10.0.0.128-10.0.1.127"]));
    assert_eq!(Pool::union([&one, &two]), 384);
    assert!(one.overlaps(&two) && two.overlaps(&one));
    let remote = of(&["10.9.0.0/24", "2001:db8::/64"]);
    assert!(!one.overlaps(&remote) && !remote.overlaps(&two));
    let careful = read(json!({"addresses": ["10.0.0.0/24"], "avoidBuggyIPs": true}));
    assert_eq!(
        Pool::union([&one, &careful]),
        256,
        "the other pool assigns all of them"
    );
    assert_eq!(Pool::union([&careful, &two]), 383);
    let used = ["10.0.0.1", "10.0.0.200", "10.0.2.1"].map(|text| text.parse().unwrap());
    assert_eq!(one.in_use(&used.into()), 2);
}

#[test]
fn restrictions_of_a_pool_are_decoded() {
    let open = read(json!({"addresses": []}));
    assert!(open.assigns && !open.is_reserved);
    assert!(!read(json!({"addresses": [], "autoAssign": false})).assigns);
    assert!(read(json!({"addresses": [], "autoAssign": "x"})).assigns);
    assert!(read(json!({"addresses": [], "serviceAllocation": {"namespaces": ["a"]}})).is_reserved);
    assert!(!read(json!({"addresses": [], "serviceAllocation": {"priority": 5}})).is_reserved);
}
