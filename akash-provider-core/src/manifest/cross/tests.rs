use super::*;
use crate::engine::input::RefusalKind;
use crate::types::Attribute;

const SDL: &str = r#"
version: "2.1"
endpoints: {front: {kind: ip}}
services:
  a: {image: a, expose: [{port: 80, to: [{global: true, ip: front}]}, {port: 90, to: [{global: true}]}]}
  b: {image: b, expose: [{port: 7000}]}
profiles:
  compute:
    small:
      resources: {cpu: {units: 1}, memory: {size: 1Gi}, storage: [{size: 1Gi}, {name: d, size: 2Gi}]}
  placement: {west: {pricing: {small: {denom: uakt, amount: 1}}}}
deployment:
  a: {west: {profile: small, count: 2}}
  b: {west: {profile: small, count: 1}}
"#;

fn made() -> (Manifest, GroupSpec) {
    let sdl = crate::sdl::parse(SDL).unwrap();
    (sdl.manifest, sdl.groups.into_iter().next().unwrap())
}

fn fault(change: impl FnOnce(&mut Manifest, &mut GroupSpec)) -> CrossFault {
    let (mut manifest, mut spec) = made();
    change(&mut manifest, &mut spec);
    let error = cross_validate(&manifest, &[&spec]).unwrap_err();
    assert_eq!(error.kind(), RefusalKind::CrossValidation);
    assert!(
        error.to_string().starts_with("manifest cross-validation error: "),
        "{error}"
    );
    match error {
        ManifestError::Cross { fault, .. } => fault,
        other => panic!("{other}"),
    }
}

#[test]
fn a_manifest_fits_its_own_groups() {
    let (manifest, spec) = made();
    assert_eq!(cross_validate(&manifest, &[&spec]), Ok(()));
}

#[test]
fn w43_a_different_number_of_groups_or_an_unknown_group_is_a_cross_validation_error() {
    let (manifest, mut spec) = made();
    let error = cross_validate(&manifest, &[&spec, &spec]).unwrap_err();
    assert_eq!(error.kind(), RefusalKind::CrossValidation);
    spec.name = "east".to_owned();
    let error = cross_validate(&manifest, &[&spec]).unwrap_err();
    assert!(
        matches!(
            error,
            ManifestError::Cross {
                fault: CrossFault::UnknownGroup,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn resources_are_equal_in_units_and_attributes() {
    let mismatch = |what| CrossFault::Mismatch { id: 1, what };
    let unit = |spec: &mut GroupSpec| spec.resources[0].resources.clone();
    assert_eq!(
        fault(|_, s| s.resources[0].resources.cpu.units += 1),
        mismatch(ResourceKind::Cpu)
    );
    let attribute = || vec![Attribute::new("arch", "amd64")];
    assert_eq!(
        fault(|_, s| s.resources[0].resources.cpu.attributes = attribute()),
        mismatch(ResourceKind::Cpu)
    );
    assert_eq!(
        fault(|_, s| s.resources[0].resources.gpu.units += 1),
        mismatch(ResourceKind::Gpu)
    );
    assert_eq!(
        fault(|_, s| s.resources[0].resources.memory.bytes -= 1),
        mismatch(ResourceKind::Memory)
    );
    // A shorter list on either side is different.
    let fewer = fault(|_, s| s.resources[0].resources.storage.truncate(1));
    assert_eq!(fewer, mismatch(ResourceKind::Storage));
    let more = fault(|m, s| m.groups[0].services[0].resources.storage = unit(s).storage[..1].to_vec());
    assert_eq!(more, mismatch(ResourceKind::Storage));
    assert_eq!(
        fault(|_, s| s.resources[0].resources.id = 7),
        CrossFault::UnknownResource { id: 1 }
    );
}

#[test]
fn all_replicas_must_be_used_and_not_exceeded() {
    let wanted = CrossFault::TooManyReplicas {
        id: 1,
        wanted: 1,
        left: 0,
    };
    assert_eq!(fault(|_, s| s.resources[0].count = 2), wanted);
    let unused = CrossFault::UnusedReplicas { id: 1, left: 4 };
    assert_eq!(fault(|_, s| s.resources[0].count = 7), unused);
}

#[test]
fn all_endpoints_must_be_used_and_not_exceeded() {
    let none = |endpoint| CrossFault::TooManyEndpoints { id: 1, endpoint };
    let unused = |endpoint, left| CrossFault::UnusedEndpoints {
        id: 1,
        endpoint,
        left,
    };
    let expose = |m: &Manifest| m.groups[0].services[0].expose[0].clone();
    let second_ip = fault(|m, _| {
        let mut e = expose(m);
        e.external_port = 81;
        m.groups[0].services[0].expose[1] = e;
    });
    assert_eq!(second_ip, none(EndpointNeed::Ip));
    let drop = |kind| {
        move |_: &mut Manifest, s: &mut GroupSpec| {
            s.resources[0].resources.endpoints.retain(|e| e.kind != kind);
        }
    };
    assert_eq!(fault(drop(EndpointKind::SharedHttp)), none(EndpointNeed::Http));
    assert_eq!(fault(drop(EndpointKind::RandomPort)), none(EndpointNeed::Port));
    assert_eq!(
        fault(|m, _| m.groups[0].services[0].expose[0].ip.clear()),
        unused(EndpointNeed::Ip, 1)
    );
    let hidden = fault(|m, _| m.groups[0].services[0].expose[1].global = false);
    assert_eq!(hidden, unused(EndpointNeed::Port, 1));
    let hidden = fault(|m, _| m.groups[0].services[0].expose[0].global = false);
    assert_eq!(hidden, unused(EndpointNeed::Http, 1));
}
