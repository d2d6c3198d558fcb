//! Tests of wildcards: examples, and random histories compared with a straightforward model.

use super::*;
use proptest::prelude::*;

fn ledger(reserved: &[(&str, u8)]) -> HostnameLedger {
    let mut ledger = HostnameLedger::default();
    for (n, (name, tenant)) in reserved.iter().enumerate() {
        ledger
            .reserve(&lease(*tenant, n as u64 + 1, 1), &names(&[name]))
            .unwrap();
    }
    ledger
}

#[test]
fn wildcard_and_covered_hostnames_belong_to_one_tenant() {
    for (reserved, requested) in [
        ("*.example.com", "a.example.com"),
        ("a.example.com", "*.example.com"),
        ("A.example.com", "*.EXAMPLE.com"),
    ] {
        let mut ledger = ledger(&[(reserved, 1)]);
        let before = ledger.clone();
        let refused = ledger
            .reserve(&lease(2, 9, 1), &names(&["free.org", requested]))
            .unwrap_err();
        let (reserved, requested) = (reserved.to_lowercase(), requested.to_lowercase());
        let message = format!("host {requested:?} in use: another tenant holds {reserved:?}");
        assert_eq!(refused.to_string(), message);
        assert_eq!(ledger, before);
        let requested = std::slice::from_ref(&requested);
        assert!(ledger.can_reserve(requested, &owner(2)).is_err());
        assert!(ledger.transfer(&lease(2, 9, 1), requested).is_err());
        assert!(!ledger.is_free(&requested[0], &owner(2)) && ledger.is_free(&requested[0], &owner(1)));
        // Another deployment of the same tenant may hold the more specific or the wider hostname.
        let second = ledger.reserve(&lease(1, 9, 1), requested);
        assert_eq!(second, Ok(HostnameChanges::default()));
        assert_eq!(ledger.holder(&reserved), Some(&lease(1, 1, 1)));
        assert!(ledger.reserve(&lease(1, 9, 1), requested).is_ok());
    }
}

#[test]
fn wildcard_covers_one_label_only() {
    let mut ledger = ledger(&[("*.example.com", 1)]);
    for free in [
        "example.com",
        "a.b.example.com",
        "*.b.example.com",
        "notexample.com",
        "*.com.example",
    ] {
        let taken = ledger.reserve(&lease(2, 9, 1), &names(&[free]));
        assert!(taken.is_ok(), "{free}");
    }
    ledger
        .reserve(&lease(2, 9, 1), &names(&["*.b.example.com"]))
        .unwrap();
    let covered = names(&["c.b.example.com"]);
    assert!(ledger.reserve(&lease(3, 1, 1), &covered).is_err());
    ledger.release(&lease(2, 9, 1));
    assert!(ledger.reserve(&lease(3, 1, 1), &covered).is_ok());
}

#[test]
fn wildcard_that_covers_blocked_hostname_is_blocked() {
    let blocked = names(&["bank.example.com", ".provider.net", "*.co.uk"]);
    let mut ledger = HostnameLedger::new(&blocked);
    ledger.set_own("Provider.eu.own.org");
    for refused in [
        "*.example.com",
        "*.provider.net",
        "*.a.provider.net",
        "*.eu.own.org",
        "*.own.org",
        "*.co.uk",
    ] {
        assert!(ledger.is_blocked(refused), "{refused}");
    }
    for allowed in [
        "*.bank.example.com",
        "*.shop.co.uk",
        "shop.co.uk",
        "a.own.org",
        "*.us.own.org",
        "*.myprovider.net",
    ] {
        assert!(!ledger.is_blocked(allowed), "{allowed}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(u8, u64, Vec<usize>),
    Transfer(u8, u64, Vec<usize>),
    Release(u8, u64),
}

const NAMES: [&str; 9] = [
    "*.b.com",
    "a.b.com",
    "x.b.com",
    "*.a.b.com",
    "c.a.b.com",
    "b.com",
    "*.c.com",
    "a.c.com",
    "c.com",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = (1u8..4, 1u64..3);
    let some = proptest::collection::vec(0..NAMES.len(), 0..4);
    let step = prop_oneof![
        4 => (who.clone(), some.clone()).prop_map(|((t, d), n)| Step::Reserve(t, d, n)),
        2 => (who.clone(), some).prop_map(|((t, d), n)| Step::Transfer(t, d, n)),
        1 => who.prop_map(|(t, d)| Step::Release(t, d)),
    ];
    proptest::collection::vec(step, 0..24)
}

/// Returns true if one label in place of the `*` yields `name`. This function shares no code with the ledger.
fn covers(wildcard: &str, name: &str) -> bool {
    let label = wildcard
        .strip_prefix('*')
        .and_then(|rest| name.strip_suffix(rest));
    label.is_some_and(|label| !label.is_empty() && !label.contains(['.', '*']))
}

/// Applies a step to a ledger. Returns the tenant, the requested hostnames and whether the step succeeded.
fn take(ledger: &mut HostnameLedger, step: &Step) -> (u8, Vec<String>, bool) {
    let pick = |which: &[usize]| which.iter().map(|n| NAMES[*n].to_owned()).collect::<Vec<_>>();
    match step {
        Step::Reserve(tenant, dseq, which) => {
            let requested = pick(which);
            let done = ledger.reserve(&lease(*tenant, *dseq, 1), &requested).is_ok();
            (*tenant, requested, done)
        }
        Step::Transfer(tenant, dseq, which) => {
            let requested = pick(which);
            let done = ledger.transfer(&lease(*tenant, *dseq, 1), &requested).is_ok();
            (*tenant, requested, done)
        }
        Step::Release(tenant, dseq) => {
            ledger.release(&lease(*tenant, *dseq, 1));
            (*tenant, Vec::new(), true)
        }
    }
}

proptest! {
    #[test]
    fn wildcard_and_covered_hostname_never_belong_to_two_tenants(steps in steps()) {
        let mut ledger = HostnameLedger::default();
        for step in steps {
            let before = ledger.all();
            let (tenant, requested, done) = take(&mut ledger, &step);
            // Refused only if another tenant holds an overlapping hostname.
            let clashes = requested.iter().any(|name| before.iter().any(|(reserved, holder)| {
                holder.owner() != &owner(tenant) && (reserved == name || covers(reserved, name) || covers(name, reserved))
            }));
            prop_assert_eq!(done, !clashes, "{:?}", step);
            let all = ledger.all();
            if !done {
                prop_assert_eq!(&before, &all);
            }
            for (wide, one) in &all {
                for (near, two) in &all {
                    prop_assert!(!covers(wide, near) || one.owner() == two.owner(), "{} {}", wide, near);
                }
            }
            let covered: BTreeSet<&str> = ledger.by_cover.values().flatten().map(|name| &**name).collect();
            let wanted = all.keys().map(String::as_str).filter(|name| !name.starts_with('*'));
            prop_assert_eq!(covered, wanted.collect::<BTreeSet<_>>());
        }
    }
}
