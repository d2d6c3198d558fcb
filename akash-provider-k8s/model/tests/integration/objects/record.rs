//! A deployment that is read from its Manifest record equals the deployment that was written, also after
//! other clients have read and changed the record.

use crate::objects::any::deployments;
use crate::objects::sdl;
use akash_provider_core::cluster::{HostnameDeclaration, WorkloadSpec};
use akash_provider_core::manifest::{Credentials, ServiceParams};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::crd::convert::{self, MAX_EXTRA_BYTES};
use akash_provider_kube_model::crd::{Manifest, ProviderHost};
use akash_provider_kube_model::settings::KubeSettings;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn settings(plain: bool) -> KubeSettings {
    let mut settings = sdl::settings();
    settings.plain_registry_passwords = plain;
    settings
}

/// Serializes the manifest as an API server stores it.
fn stored(manifest: &Manifest) -> Manifest {
    let text = serde_json::to_string(manifest).unwrap();
    convert::decode("Manifest", &serde_json::from_str(&text).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_deployment_survives_write_and_read(deployment in deployments(), plain in any::<bool>()) {
        let settings = settings(plain);
        let manifest = stored(&convert::to_manifest(&deployment, &settings).unwrap());
        let mut read = convert::from_manifest(&manifest).unwrap();
        prop_assert_eq!(&read.remarks, &Vec::<String>::new());
        prop_assert_eq!(read.chain_id.as_deref(), Some("chain-1"));
        prop_assert_eq!(convert::epoch(&manifest), deployment.epoch);
        prop_assert!(convert::same_spec(&read.deployment, &deployment));
        let passwords = convert::passwords(&deployment.group);
        convert::restore_passwords(Arc::make_mut(&mut read.deployment.group), &passwords);
        if deployment.group.services.iter().map(|s| &s.name).collect::<BTreeSet<_>>().len()
            == deployment.group.services.len()
        {
            prop_assert_eq!(read.deployment, deployment);
        }
    }

    #[test]
    fn reading_a_record_never_panics(text in "[ -~]{0,40}", number in any::<i64>(), at in 0..6_usize) {
        let mut value = serde_json::to_value(convert::to_manifest(&sdl::web(|_| {}), &settings(false)).unwrap()).unwrap();
        let fields = [
            "/spec/lease_id/owner",
            "/spec/lease_id/dseq",
            "/spec/group/services/0/resources/memory/size",
            "/spec/group/services/0/count",
            "/spec/group/services/0/expose/0/port",
            "/metadata/annotations/provider.akash.network~1deployment",
        ];
        for garbage in [Value::from(text.as_str()), Value::from(number), Value::Null, json!({ "a": [text] })] {
            *value.pointer_mut(fields[at]).unwrap() = garbage;
            if let Ok(manifest) = convert::decode::<Manifest>("Manifest", &value) {
                let _ = convert::from_manifest(&manifest);
            }
        }
    }
}

fn with_login() -> WorkloadSpec {
    sdl::web(|service| {
        let login = |password: &str| Credentials {
            host: "ghcr.io".to_owned(),
            password: password.to_owned(),
            ..Credentials::default()
        };
        service.credentials = Some(login("s3cret-1"));
        service.params = Some(ServiceParams {
            credentials: Some(login("s3cret-2")),
            ..ServiceParams::default()
        });
    })
}

#[test]
fn records_contain_passwords_only_if_enabled() {
    let text = |plain| {
        serde_json::to_string(&convert::to_manifest(&with_login(), &settings(plain)).unwrap()).unwrap()
    };
    assert!(!text(false).contains("s3cret"));
    let plain = text(true);
    assert_eq!(
        plain.matches("s3cret").count(),
        1,
        "the field that the Go provider uses: {plain}"
    );
    let passwords = convert::passwords(&with_login().group);
    let passwords: Vec<_> = passwords.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(passwords, [("web", "s3cret-1"), ("web.params", "s3cret-2")]);
}

#[test]
fn plain_password_in_record_is_read() {
    let mut manifest = convert::to_manifest(&with_login(), &settings(true)).unwrap();
    let of = |manifest: &Manifest| {
        convert::from_manifest(manifest)
            .unwrap()
            .deployment
            .group
            .services[0]
            .credentials
            .clone()
    };
    assert_eq!(of(&manifest).unwrap().password, "s3cret-1");
    manifest.metadata.annotations = None;
    assert_eq!(
        of(&manifest).unwrap().password,
        "s3cret-1",
        "as written by the Go provider"
    );
}

#[test]
fn changed_spec_takes_precedence_over_annotation() {
    let deployment = sdl::web(|service| service.args = Some(Vec::new()));
    let mut manifest = convert::to_manifest(&deployment, &settings(false)).unwrap();
    manifest.spec.group.services[0].image = "nginx:2".to_owned();
    let read = convert::from_manifest(&manifest).unwrap();
    assert_eq!(read.deployment.group.services[0].image, "nginx:2");
    assert_eq!(
        read.deployment.group.services[0].args, None,
        "the annotation is ignored"
    );
    assert_eq!((read.deployment.epoch, read.deployment.hostnames.len()), (7, 1));
    assert_eq!(read.remarks.len(), 1, "{:?}", read.remarks);
    manifest.spec.group.services[0].name = "shop".to_owned();
    let read = convert::from_manifest(&manifest).unwrap();
    assert_eq!(
        read.deployment.hostnames,
        [],
        "the hostname would have no service"
    );
}

#[test]
fn invalid_annotation_is_ignored_and_reported() {
    let whole = convert::to_manifest(&sdl::web(|_| {}), &settings(false)).unwrap();
    let patched = |text: &str| {
        let mut extra: Value =
            serde_json::from_str(&whole.metadata.annotations.as_ref().unwrap()[labels::EXTRA]).unwrap();
        extra["patch"] = serde_json::from_str(text).unwrap();
        extra.to_string()
    };
    for bad in [
        "garbage".to_owned(),
        "{}".to_owned(),
        patched(r#"[{"op":"remove","path":"/nothing"}]"#),
        patched(r#"[{"op":"replace","path":"/group/services/0/count","value":"many"}]"#),
    ] {
        let mut manifest = whole.clone();
        manifest
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert(labels::EXTRA.to_owned(), bad.clone());
        let read = convert::from_manifest(&manifest).unwrap();
        assert_eq!(read.remarks.len(), 1, "{bad}");
        assert_eq!(*read.deployment.group, *sdl::web(|_| {}).group, "{bad}");
    }
}

#[test]
fn invalid_values_are_reported_with_object_and_field() {
    let whole = convert::to_manifest(&sdl::web(|_| {}), &settings(false)).unwrap();
    let name = whole.metadata.name.clone().unwrap();
    let whole = serde_json::to_value(whole).unwrap();
    let cases = [
        ("/spec/lease_id/owner", json!("nobody"), "spec.lease_id.owner"),
        ("/spec/lease_id/dseq", json!("-1"), "spec.lease_id.dseq"),
        ("/spec/lease_id/gseq", json!(2), "metadata.name"),
        (
            "/spec/group/services/0/count",
            json!(4_294_967_296_u64),
            "spec.group.services[0].count",
        ),
        (
            "/spec/group/services/0/count",
            json!(-1),
            "spec.group.services[0].count",
        ),
        (
            "/spec/group/services/0/name",
            json!(null),
            "spec.group.services[0].name",
        ),
        (
            "/spec/group/services/0/resources/memory/size",
            json!("1Gi"),
            "spec.group.services[0].resources.memory.size",
        ),
        (
            "/spec/group/services/0/resources/storage/0/size",
            json!(""),
            "spec.group.services[0].resources.storage[0].size",
        ),
        (
            "/spec/group/services/0/expose/0/port",
            json!(65_536),
            "spec.group.services[0].expose[0].port",
        ),
        (
            "/spec/group/services/0/expose/0/proto",
            json!("SCTP"),
            "spec.group.services[0].expose[0].proto",
        ),
    ];
    for (pointer, garbage, field) in cases {
        let mut value = whole.clone();
        *value.pointer_mut(pointer).unwrap() = garbage;
        let error = match convert::decode::<Manifest>("Manifest", &value) {
            Ok(manifest) => convert::from_manifest(&manifest).unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(
            (error.object.as_str(), error.field.as_str()),
            (format!("Manifest {name}").as_str(), field),
            "{error}"
        );
    }
    let error = convert::decode::<ProviderHost>("ProviderHost", &json!({ "spec": 1 })).unwrap_err();
    assert_eq!(error.object, "ProviderHost without a name");
}

#[test]
fn unknown_fields_are_ignored() {
    let manifest = convert::to_manifest(&sdl::web(|_| {}), &settings(false)).unwrap();
    let mut value = serde_json::to_value(manifest).unwrap();
    value["spec"]["newer"] = json!({ "a": 1 });
    value["spec"]["group"]["services"][0]["newer"] = json!(true);
    value["status"] = json!({ "phase": "fine" });
    let read: Manifest = convert::decode("Manifest", &value).unwrap();
    assert_eq!(
        convert::from_manifest(&read).unwrap().deployment,
        sdl::web(|_| {})
    );
}

#[test]
fn values_beyond_the_record_schema_are_limited() {
    let hosts = |count: usize| {
        let mut deployment = sdl::web(|_| {});
        let host = |n| HostnameDeclaration::new(format!("{n:0>200}.example.com"), "web", 80);
        deployment.hostnames = (0..count).map(host).collect();
        convert::to_manifest(&deployment, &settings(false))
    };
    let written = hosts(700).unwrap();
    assert!(written.metadata.annotations.unwrap()[labels::EXTRA].len() <= MAX_EXTRA_BYTES);
    let refusal = hosts(900).unwrap_err();
    assert_eq!(refusal.field, "manifest");
    assert!(refusal.problem.contains("204800"), "{refusal}");
}
