//! CustomResourceDefinitions: served in the version of the provider, and with all fields.

use super::check::{Check, listed, within};
use super::cluster_read::get;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP, definitions};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, Resource};
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

const SUBJECT: &str = "custom resource definitions";
const CREATE: &str = "run `kubectl apply --filename deploy/crds`";
/// Maximum size of the schemas of one API group. The schemas of the provider have 100 KiB.
const SCHEMA_BYTES: usize = 4 << 20;
/// Maximum number of fields in a message.
const SHOWN: usize = 5;

pub(super) async fn check(client: &Client, limit: Duration) -> Check {
    let (served, schemas) = tokio::join!(served(client, limit), schemas(client, limit));
    judge(&served, &schemas)
}

/// Returns the OpenAPI document of the API group. Every authenticated account may read the document, while the
/// definitions need a right.
async fn schemas(client: &Client, limit: Duration) -> Result<Value, String> {
    let path = format!("/openapi/v3/apis/{}", Manifest::api_version(&()));
    let reading = async {
        let response = get(client, &path, SCHEMA_BYTES).await?;
        anyhow::ensure!(response.status().is_success(), "{}", response.status());
        anyhow::Ok(serde_json::from_slice(response.body())?)
    };
    within(limit, reading).await
}

/// Returns the paths of the fields that the provider writes and that the API server drops, such as
/// `Manifest.spec.lease_id.bseq`.
fn dropped_fields(openapi: &Value) -> Vec<String> {
    let served = openapi["components"]["schemas"].as_object();
    let schema = |kind: &str| {
        let mut schemas = served.into_iter().flat_map(serde_json::Map::values);
        schemas.find(|schema| schema["x-kubernetes-group-version-kind"][0]["kind"] == kind)
    };
    let mut dropped = Vec::new();
    for definition in definitions() {
        let (kind, ours) = own_schema(definition);
        if let Some(theirs) = schema(&kind) {
            compare(
                &format!("{kind}.spec"),
                &ours["properties"]["spec"],
                &theirs["properties"]["spec"],
                &mut dropped,
            );
        }
    }
    dropped
}

/// Returns the kind of a definition, and the schema of its served version.
fn own_schema(definition: CustomResourceDefinition) -> (String, Value) {
    let mut versions = definition.spec.versions.into_iter();
    let served = versions.find(|version| version.served);
    let schema = served.and_then(|version| version.schema?.open_api_v3_schema);
    let schema = serde_json::to_value(schema).unwrap_or_default();
    (definition.spec.names.kind, schema)
}

/// Adds the fields of `ours` that an API server with the schema `theirs` drops.
fn compare(path: &str, ours: &Value, theirs: &Value, dropped: &mut Vec<String>) {
    let keeps_unknown = theirs["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match theirs["properties"].get(name) {
            Some(their_field) => compare(&path, field, their_field, dropped),
            None if keeps_unknown => {}
            None => dropped.push(path),
        }
    }
    for (suffix, key) in [("[]", "items"), (".*", "additionalProperties")] {
        if let (Some(ours), Some(theirs)) = (ours.get(key), theirs.get(key)) {
            compare(&format!("{path}{suffix}"), ours, theirs, dropped);
        }
    }
}

/// Resource names in the API version of `Manifest`; `None` if the API server does not serve this version.
type Served = Result<Option<Vec<String>>, String>;

async fn served(client: &Client, limit: Duration) -> Served {
    let version = Manifest::api_version(&());
    match timeout(limit, client.list_api_group_resources(&version)).await {
        Ok(Ok(list)) => Ok(Some(list.resources.into_iter().map(|kind| kind.name).collect())),
        Ok(Err(error)) if akash_provider_k8s::error::is_absent(&error) => Ok(None),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no response within {limit:.1?}")),
    }
}

fn judge(served: &Served, schemas: &Result<Value, String>) -> Check {
    let version = Manifest::api_version(&());
    let wanted = [
        Manifest::plural(&()),
        ProviderHost::plural(&()),
        ProviderLeasedIP::plural(&()),
    ];
    let served = match served {
        Err(why) => return Check::failure(SUBJECT, format!("cannot query {version}: {why}"), CREATE),
        Ok(served) => served.as_deref().unwrap_or_default(),
    };
    let missing: Vec<&str> = wanted
        .iter()
        .map(AsRef::as_ref)
        .filter(|name| !served.iter().any(|kind| kind == name))
        .collect();
    if !missing.is_empty() {
        let detail = format!("{version} is not served for {}", missing.join(", "));
        return Check::failure(SUBJECT, detail, CREATE);
    }
    match schemas {
        Err(why) => Check::warning(
            SUBJECT,
            format!("{version} is served, but its fields are unknown: {why}"),
            "check that the account may read /openapi/v3",
        ),
        Ok(schemas) => judge_fields(&version, dropped_fields(schemas)),
    }
}

fn judge_fields(version: &str, dropped: Vec<String>) -> Check {
    if dropped.is_empty() {
        return Check::ok(SUBJECT, format!("{version} is served with all fields"));
    }
    let detail = format!(
        "the definitions are older than this provider: the API server drops {}",
        listed(dropped, SHOWN)
    );
    Check::warning(SUBJECT, detail, CREATE)
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use serde_json::json;

    /// Returns the OpenAPI document of an API server with the definitions of this provider.
    fn openapi() -> Value {
        let schemas = definitions().into_iter().map(|definition| {
            let (kind, mut schema) = own_schema(definition);
            schema["x-kubernetes-group-version-kind"] = json!([{"kind": kind}]);
            (format!("network.akash.v2beta2.{kind}"), schema)
        });
        json!({"components": {"schemas": schemas.collect::<serde_json::Map<_, _>>()}})
    }

    #[test]
    fn definitions_must_be_served_in_the_version_of_the_provider() {
        let names = |names: &[&str]| Ok(Some(names.iter().map(|&name| name.to_owned()).collect()));
        let all = names(&["manifests", "providerhosts", "providerleasedips"]);
        assert_eq!(judge(&all, &Ok(openapi())).severity(), Severity::Ok);
        for served in [names(&["manifests"]), Ok(None), Err("down".to_owned())] {
            let check = judge(&served, &Ok(openapi()));
            assert_eq!(check.severity(), Severity::Failure, "{served:?}");
            assert!(check.help().is_some_and(|help| help.contains("deploy/crds")));
        }
    }

    #[test]
    fn fields_that_older_definitions_drop_are_named() {
        let mut older = openapi();
        assert!(dropped_fields(&older).is_empty());
        let schema = &mut older["components"]["schemas"]["network.akash.v2beta2.ProviderHost"];
        let spec = &mut schema["properties"]["spec"];
        spec["properties"]
            .as_object_mut()
            .unwrap()
            .remove("hostname")
            .unwrap();
        // An API server that keeps unknown fields drops none.
        assert!(dropped_fields(&older).is_empty());
        let schema = &mut older["components"]["schemas"]["network.akash.v2beta2.ProviderHost"];
        schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = json!(false);
        let dropped = dropped_fields(&older);
        assert_eq!(dropped, ["ProviderHost.spec.hostname"]);
        let check = judge_fields("v", dropped);
        assert_eq!(check.severity(), Severity::Warning);
        assert!(check.help().is_some_and(|help| help.contains("deploy/crds")));
    }

    #[test]
    fn unreadable_schemas_are_a_warning() {
        let all = ["manifests", "providerhosts", "providerleasedips"].map(str::to_owned);
        let check = judge(&Ok(Some(all.to_vec())), &Err("403 Forbidden".to_owned()));
        assert_eq!(check.severity(), Severity::Warning);
    }
}
