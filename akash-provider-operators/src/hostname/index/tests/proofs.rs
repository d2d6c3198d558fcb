//! Tests of hostnames that require a proof.

use super::*;
use akash_provider_kube_model::crd::notes::{Proof, ProofState};

/// Returns a record with a stored proof. The proof belongs to this tenant and has this state.
fn noted(lease: &LeaseId, tenant: u8, state: ProofState) -> Host {
    let mut host = host(lease);
    host.notes.proof = Some(Proof {
        state,
        owner: Address::from_bytes(&[tenant; 20]).unwrap().to_string(),
        why: String::new(),
        at: String::new(),
    });
    host
}

/// Returns an index with one hostname that requires a proof. If `routed` is set, the hostname has a route to
/// this lease.
fn proving(name: &str, host: &Host, routed: Option<&LeaseId>) -> HostnameIndex {
    let mut proving = index(
        &[(name, Ok(host.clone()))],
        &[exposes(&lease(1, 1), 60_000), exposes(&lease(2, 2), 60_000)],
    );
    proving.plan.proof = Some(ProofRule {
        own_domain: "ingress.example.net".to_owned(),
    });
    if let Some(routed) = routed {
        let of = super::host(routed);
        let body = proving.mode().render(name, &of, &HttpOptions::default());
        let place = (routed.namespace(), name.to_owned());
        proving.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Put(place, written(&body, 5)),
        ));
    }
    proving
}

#[test]
fn hostname_without_a_proof_waits_and_its_existing_route_stays() {
    let a = lease(1, 1);
    for unproven in [
        host(&a),
        noted(&a, 1, ProofState::Waiting),
        noted(&a, 2, ProofState::Proven),
    ] {
        let work = proving(NAME, &unproven, None).work(NAME);
        assert!(work.is_done(), "{work:?}");
        let problem = work.problem.unwrap();
        assert!(
            problem.contains("_akash-challenge.shop.example.com") && problem.contains("akash-owner=akash1"),
            "{problem}"
        );
        let work = proving(NAME, &unproven, Some(&a)).work(NAME);
        assert!(
            work.is_done() && work.problem.is_some(),
            "an existing route stays: {work:?}"
        );
    }
    let proven = noted(&a, 1, ProofState::Proven);
    let work = proving(NAME, &proven, None).work(NAME);
    assert!(work.write.is_some() && work.problem.is_none(), "{work:?}");
}

#[test]
fn withdrawn_proof_or_new_tenant_deletes_the_route() {
    let (a, b) = (lease(1, 1), lease(2, 2));
    let work = proving(NAME, &noted(&a, 1, ProofState::Withdrawn), Some(&a)).work(NAME);
    assert_eq!(
        (work.deletes.len(), work.is_withdrawn, work.write),
        (1, true, None)
    );
    // The proof of the previous tenant does not count for the new tenant.
    let work = proving(NAME, &noted(&b, 1, ProofState::Proven), Some(&a)).work(NAME);
    assert_eq!(
        (work.deletes.len(), work.is_withdrawn, work.write),
        (1, false, None),
        "the record belongs to another tenant"
    );
}

#[test]
fn hostnames_in_the_domain_of_the_provider_need_no_proof() {
    let a = lease(1, 1);
    for own in ["x.ingress.example.net", "x.y.ingress.example.net"] {
        assert!(proving(own, &host(&a), None).work(own).write.is_some(), "{own}");
    }
    for other in [
        "ingress.example.net",
        "evilingress.example.net",
        "ingress.example.net.evil.com",
        "*.example.net",
    ] {
        assert!(
            proving(other, &host(&a), None).work(other).problem.is_some(),
            "{other}"
        );
    }
}
