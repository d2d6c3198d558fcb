use super::*;
use serde_json::json;

const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const US: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn with(leases: Value) -> Option<Access> {
    let claims = json!({
        "iss": TENANT, "iat": 100, "nbf": "100", "exp": 200, "version": "v1", "leases": leases, "more": 1,
    });
    let read = Claims::read(&claims, &US.parse().unwrap());
    assert!(read.is_ok() || read == Err(ClaimFault::Invalid));
    read.ok().map(|c| c.access)
}

fn without(key: &str) -> Result<Claims, ClaimFault> {
    let mut claims = json!({
        "iss": TENANT, "iat": 100, "nbf": 100, "exp": 200, "version": "v1", "leases": {"access": "full"},
    });
    claims.as_object_mut().unwrap().remove(key);
    Claims::read(&claims, &US.parse().unwrap())
}

fn granular(deployment: Value) -> Option<Access> {
    with(json!({"access": "granular", "permissions": [
        {"provider": US, "access": "granular", "deployments": [deployment]}
    ]}))
}

#[test]
fn every_claim_except_the_id_is_required() {
    assert!(without("").is_ok());
    for key in ["iss", "iat", "nbf", "exp", "version", "leases"] {
        assert_eq!(without(key), Err(ClaimFault::Invalid), "{key}");
    }
}

#[test]
fn access_is_full_scoped_or_granular() {
    assert_eq!(with(json!({"access": "full"})), Some(Access::Full));
    let scoped = with(json!({"access": "scoped", "scope": ["logs", "shell"]}));
    assert_eq!(scoped, Some(Access::Scoped([Scope::Logs, Scope::Shell].into())));
    for wrong in [
        json!({}),
        json!({"access": "none"}),
        json!({"access": "full", "scope": ["logs"]}),
        json!({"access": "full", "permissions": [{}]}),
        json!({"access": "scoped"}),
        json!({"access": "scoped", "scope": []}),
        json!({"access": "scoped", "scope": ["logs", "logs"]}),
        json!({"access": "scoped", "scope": ["everything"]}),
        json!({"access": "scoped", "scope": ["logs"], "permissions": [{}]}),
        json!({"access": "granular"}),
        json!({"access": "granular", "permissions": []}),
        json!({"access": "granular", "scope": ["logs"], "permissions": [{"provider": US, "access": "full"}]}),
    ] {
        assert_eq!(with(wrong.clone()), None, "{wrong}");
    }
}

#[test]
fn each_permission_names_a_different_provider() {
    let other = json!({"provider": TENANT, "access": "full"});
    let ours = json!({"provider": US, "access": "scoped", "scope": ["status"]});
    let of = |list: Vec<&Value>| with(json!({"access": "granular", "permissions": list}));
    assert_eq!(of(vec![&other]), Some(Access::OtherProviders));
    assert_eq!(
        of(vec![&other, &ours]),
        Some(Access::Scoped([Scope::Status].into()))
    );
    assert_eq!(of(vec![&ours, &ours]), None);
    // A permission for another provider must keep the rules too.
    assert_eq!(
        of(vec![&ours, &json!({"provider": TENANT, "access": "some"})]),
        None
    );
    assert_eq!(of(vec![&json!({"provider": "akash1x", "access": "full"})]), None);
}

#[test]
fn grant_needs_scopes_and_services() {
    let right = json!({"dseq": 7, "gseq": 1, "oseq": 2, "scope": ["logs"], "services": ["web"]});
    let Some(Access::Granular(grants)) = granular(right.clone()) else {
        panic!()
    };
    assert_eq!((grants[0].dseq, grants[0].gseq, grants[0].oseq), (7, 1, 2));
    for (key, value) in [
        ("dseq", json!(0)),
        ("dseq", json!("7")),
        ("gseq", json!(null)),
        ("gseq", json!(4_294_967_296_u64)),
        ("oseq", json!(-1)),
        ("scope", json!([])),
        ("services", json!([])),
        ("services", json!([""])),
        ("services", json!(["web", "web"])),
        ("services", json!("web")),
    ] {
        let mut wrong = right.clone();
        wrong[key] = value;
        assert_eq!(granular(wrong.clone()), None, "{wrong}");
    }
}

#[test]
fn validity_period_has_no_leeway_and_expiry_has_its_own_error() {
    let claims = without("").unwrap();
    let at = |ms| claims.check_time(Duration::from_millis(ms));
    assert_eq!(at(99_999), Err(ClaimFault::Invalid));
    assert_eq!(at(100_000), Ok(()));
    assert_eq!(at(199_999), Ok(()));
    assert_eq!(at(200_000), Err(ClaimFault::Expired));
    assert_eq!(claims.lifetime(), Duration::from_secs(100));
    for date in [json!(-1), json!(1e300), json!("x"), json!(true)] {
        assert_eq!(super::date(&date), None, "{date}");
    }
}

#[test]
fn token_issued_in_the_future_is_refused_beyond_clock_skew() {
    let mut read = without("").unwrap();
    read.issued_at = Duration::from_secs(160);
    assert_eq!(read.check_time(Duration::from_secs(100)), Ok(()));
    read.issued_at += Duration::from_millis(1);
    assert_eq!(
        read.check_time(Duration::from_secs(100)),
        Err(ClaimFault::Invalid)
    );
    assert_eq!(read.check_time(Duration::from_secs(101)), Ok(()));
}
