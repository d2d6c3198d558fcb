use super::*;

mod wildcards;

fn owner(byte: u8) -> Address {
    Address::from_bytes(&[byte; 20]).unwrap()
}

fn lease(tenant: u8, dseq: u64, oseq: u32) -> LeaseId {
    format!("{}/{dseq}/1/{oseq}/{}", owner(tenant), owner(99))
        .parse()
        .unwrap()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn w40_blocked_hostnames_and_domains_are_refused_in_any_case() {
    let ledger = HostnameLedger::new(&names(&["FooBar.com", ".BobsDefi.com", " ", "."]));
    let refused = |name: &str| ledger.can_reserve(&names(&[name]), &owner(1));
    for blocked in [
        "foobar.com",
        "FOOBAR.com",
        "accounts.bobsdefi.com",
        "a.b.bobsdefi.com",
        "bobsdefi.com",
    ] {
        assert!(
            matches!(refused(blocked), Err(HostnameError::Blocked { .. })),
            "{blocked}"
        );
    }
    for allowed in ["www.foobar.com", "notbobsdefi.com", "com", "kittens.org"] {
        assert_eq!(refused(allowed), Ok(()), "{allowed}");
    }
    assert_eq!(
        refused("Foobar.com").unwrap_err().to_string(),
        "hostname not allowed: \"foobar.com\" is blocked by this provider"
    );
}

#[test]
fn provider_hostname_its_subdomains_and_lookalikes_are_blocked() {
    let blocked = names(&["bank.example", ".closed.example", ".host.akash.example"]);
    let mut ledger = HostnameLedger::new(&blocked).with_automatic(Some("apps.akash.example"));
    ledger.set_own("akash.example");
    for refused in [
        "akash.example",
        "mtls.akash.example",
        // аkаsh, bаnk and clоsed with Cyrillic letters.
        "xn--ksh-5cdb.example",
        "login.xn--ksh-5cdb.example",
        "apps.xn--ksh-5cdb.example",
        "xn--bnk-6cd.example",
        "a.xn--clsed-kye.example",
        "*.xn--ksh-5cdb.example",
        "host.akash.example",
        "a.b.c.host.akash.example",
        "login.host.xn--ksh-5cdb.example",
        "*.host.akash.example",
    ] {
        assert!(ledger.is_blocked(refused), "{refused}");
    }
    for allowed in [
        "abc.apps.akash.example",
        "notakash.example",
        "xn--bcher-kva.example",
        "xn--ksh-5cdb.other",
        "xn--bcher-kva.bank.example",
    ] {
        assert!(!ledger.is_blocked(allowed), "{allowed}");
    }
}

#[test]
fn automatic_hostnames_below_blocked_domain_are_allowed() {
    let ledger = HostnameLedger::new(&names(&[".akash.example"])).with_automatic(Some("apps.akash.example"));
    for (name, blocked) in [
        ("abc.apps.akash.example", false),
        ("notapps.akash.example", true),
        ("apps.akash.example.other", false),
        ("abc.xn--pps-5cd.akash.example", true),
    ] {
        assert_eq!(ledger.is_blocked(name), blocked, "{name}");
    }
}

#[test]
fn same_lease_may_reserve_more_hostnames() {
    let mut ledger = HostnameLedger::default();
    let mine = lease(1, 5, 1);
    ledger
        .reserve(&mine, &names(&["meow.com", "kittens.com"]))
        .unwrap();
    let more = ledger.reserve(&mine, &names(&["meow.com", "kittens.com", "cats.com"]));
    assert_eq!(more, Ok(HostnameChanges::default()));
    assert_eq!(
        ledger.held_by(&mine),
        names(&["cats.com", "kittens.com", "meow.com"])
    );
}

#[test]
fn shared_hostname_is_withheld_from_second_lease_of_tenant() {
    let mut ledger = HostnameLedger::default();
    ledger
        .reserve(&lease(1, 5, 1), &names(&["meow.com", "kittens.com"]))
        .unwrap();
    let second = ledger
        .reserve(&lease(1, 6, 1), &names(&["Meow.com", "dogs.com"]))
        .unwrap();
    assert_eq!(second.withheld, names(&["meow.com"]));
    assert_eq!(ledger.holder("meow.com"), Some(&lease(1, 5, 1)));
    assert_eq!(ledger.holder("DOGS.com"), Some(&lease(1, 6, 1)));
}

#[test]
fn refused_reservation_changes_nothing() {
    let mut ledger = HostnameLedger::default();
    ledger.reserve(&lease(1, 5, 1), &names(&["kittens.com"])).unwrap();
    ledger.reserve(&lease(2, 5, 1), &names(&["old.com"])).unwrap();
    let before = ledger.clone();
    let refused = ledger.reserve(&lease(2, 5, 1), &names(&["aaa.com", "KITTENS.com"]));
    assert_eq!(refused.unwrap_err().to_string(), "host \"kittens.com\" in use");
    assert_eq!(ledger, before);
    assert!(ledger.can_reserve(&names(&["KITTENS.com"]), &owner(2)).is_err());
}

#[test]
fn hostname_is_free_after_release_or_update_without_it() {
    let mut ledger = HostnameLedger::default();
    let wanted = names(&["kittens.com"]);
    ledger.reserve(&lease(1, 5, 1), &wanted).unwrap();
    let update = ledger.reserve(&lease(1, 5, 1), &names(&["other.com"])).unwrap();
    assert_eq!(update.released, wanted);
    ledger.reserve(&lease(2, 1, 1), &wanted).unwrap();
    assert_eq!(ledger.release(&lease(2, 1, 1)), wanted);
    assert_eq!(
        ledger.reserve(&lease(3, 1, 1), &wanted),
        Ok(HostnameChanges::default())
    );
    ledger.release(&lease(3, 1, 1));
    ledger.release(&lease(1, 5, 1));
    assert_eq!(ledger, HostnameLedger::default());
}

#[test]
fn transfer_is_limited_to_one_tenant() {
    let mut ledger = HostnameLedger::new(&names(&["bad.org"]));
    ledger.reserve(&lease(1, 5, 1), &names(&["kittens.org"])).unwrap();
    ledger.reserve(&lease(2, 5, 1), &names(&["dogs.org"])).unwrap();
    let moved = ledger.transfer(&lease(1, 6, 1), &names(&["Kittens.org", "new.org"]));
    let expected = vec![
        ("kittens.org".to_owned(), Some(lease(1, 5, 1))),
        ("new.org".to_owned(), None),
    ];
    assert_eq!(moved, Ok(expected));
    let same = ledger
        .transfer(&lease(1, 6, 1), &names(&["kittens.org"]))
        .unwrap();
    assert_eq!(same, [("kittens.org".to_owned(), Some(lease(1, 6, 1)))]);
    let before = ledger.clone();
    let refused = ledger.transfer(&lease(2, 5, 1), &names(&["dogs.org", "kittens.org"]));
    assert_eq!(refused.unwrap_err().to_string(), "host \"kittens.org\" in use");
    assert!(ledger.transfer(&lease(2, 5, 1), &names(&["bad.org"])).is_err());
    assert_eq!(ledger, before);
}

#[test]
fn resumed_group_retains_its_hostnames() {
    let mut ledger = HostnameLedger::default();
    let wanted = names(&["kittens.com"]);
    ledger.reserve(&lease(1, 5, 1), &wanted).unwrap();
    let resumed = ledger.reserve(&lease(1, 5, 2), &wanted).unwrap();
    assert_eq!(resumed, HostnameChanges::default());
    assert_eq!(ledger.release(&lease(1, 5, 1)), names(&[]));
    assert_eq!(ledger.holder("kittens.com"), Some(&lease(1, 5, 2)));
}

#[test]
fn w40_withheld_hostname_can_be_claimed_after_release() {
    let mut ledger = HostnameLedger::default();
    let wanted = names(&["kittens.com"]);
    ledger.reserve(&lease(1, 5, 1), &wanted).unwrap();
    assert_eq!(ledger.reserve(&lease(1, 6, 1), &wanted).unwrap().withheld, wanted);
    assert_eq!(ledger.release(&lease(1, 5, 1)), wanted);
    assert_eq!(
        ledger.reserve(&lease(1, 6, 1), &wanted),
        Ok(HostnameChanges::default())
    );
    assert_eq!(ledger.holder("kittens.com"), Some(&lease(1, 6, 1)));
}

#[test]
fn adopts_hostnames_declared_in_cluster() {
    let mut ledger = HostnameLedger::new(&names(&["kittens.com"]));
    assert_eq!(ledger.adopt("Kittens.com", &lease(1, 5, 1)), None);
    assert_eq!(ledger.adopt("kittens.com", &lease(1, 5, 1)), None);
    assert_eq!(ledger.adopt("kittens.com", &lease(2, 5, 1)), Some(lease(1, 5, 1)));
    assert_eq!(
        ledger.all(),
        BTreeMap::from([("kittens.com".to_owned(), lease(2, 5, 1))])
    );
    let again = ledger.reserve(&lease(2, 5, 1), &names(&["kittens.com"]));
    assert_eq!(
        again,
        Ok(HostnameChanges::default()),
        "blocked later, but already held"
    );
}
