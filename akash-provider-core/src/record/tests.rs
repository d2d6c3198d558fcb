use super::*;
use crate::engine::RequestId;
use crate::manifest::{Hashes, ServiceParams};
use crate::sdl;
use crate::types::DeploymentId;

const SECRETS: [&str; 9] = [
    "hunter2",
    "s3cret-arg",
    "s3cret-cmd",
    "me@secret.example",
    "secret-user",
    "pa55word",
    "beside@secret.example",
    "beside-user",
    "beside-pa55word",
];

fn login(parts: [&str; 3]) -> Credentials {
    Credentials {
        host: "registry.example".to_owned(),
        email: parts[0].to_owned(),
        username: parts[1].to_owned(),
        password: parts[2].to_owned(),
    }
}

fn manifest() -> Manifest {
    let text = include_str!("../../tests/data/sdl/ports-and-proxy.yaml");
    let mut manifest = sdl::parse_all(text).unwrap().manifest;
    let service = &mut manifest.groups[0].services[0];
    service.env = Some(vec![
        "NAME=hunter2".to_owned(),
        "EMPTY=".to_owned(),
        "hunter2".to_owned(),
    ]);
    service.args = Some(vec!["s3cret-arg".to_owned(), String::new()]);
    service.command = Some(vec!["s3cret-cmd".to_owned()]);
    service.credentials = Some(login(["me@secret.example", "secret-user", "pa55word"]));
    service.params = Some(ServiceParams {
        credentials: Some(login(["beside@secret.example", "beside-user", "beside-pa55word"])),
        ..ServiceParams::default()
    });
    manifest
}

fn submitted(manifest: Manifest) -> Input {
    let owner = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
    let request = Request::SubmitManifest {
        deployment: DeploymentId::new(owner, 1),
        hashes: Hashes::from([0; 32]),
        manifest: Arc::new(manifest),
    };
    Input::Request(RequestId(1), request)
}

fn words(input: &Input) -> String {
    serde_json::to_string(input).unwrap()
}

#[test]
fn a_covered_manifest_contains_no_secret_and_all_other_values() {
    let mut input = submitted(manifest());
    let before = words(&input);
    for secret in SECRETS {
        assert!(before.contains(secret), "the input does not contain {secret}");
    }
    hide_in_input(&mut input, &|secret| format!("<{}>", secret.len()));
    let after = words(&input);
    for secret in SECRETS {
        assert!(
            !after.contains(secret),
            "the covered input contains {secret}: {after}"
        );
    }
    for part in ["NAME=<7>", "EMPTY=", "registry.example", "[\"<10>\",\"\"]"] {
        assert!(after.contains(part), "the covered input lacks {part}: {after}");
    }
}

#[test]
fn digests_differ_by_effect_and_equal_those_of_covered_effects() {
    let lease =
        "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
    let spec = |group: Group| {
        let spec = WorkloadSpec {
            epoch: 1,
            ..WorkloadSpec::new(lease.parse().unwrap(), Arc::new(group))
        };
        [Effect::Call(
            crate::engine::EffectId(1),
            Call::Record(Arc::new(spec)),
        )]
    };
    let plain = manifest();
    let mut hidden = Arc::new(plain.clone());
    let cover = |secret: &str| format!("<{secret}>");
    hide_in_manifest(&mut hidden, &cover);
    let plain = spec(plain.groups[0].clone());
    let hidden = spec(hidden.groups[0].clone());
    assert_ne!(digest(&plain, None), digest(&hidden, None));
    assert_eq!(digest(&plain, Some(&cover)), digest(&hidden, None));
    assert_ne!(digest(&plain, Some(&cover)), digest(&[], None));
}
