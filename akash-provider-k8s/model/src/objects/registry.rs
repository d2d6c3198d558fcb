//! Secrets with registry logins.

use super::RenderError;
use super::context::RenderContext;
use akash_provider_core::manifest::{Credentials, Service};
use data_encoding::BASE64;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{LocalObjectReference, Secret};
use serde::Serialize;
use std::collections::BTreeMap;

const TYPE: &str = "kubernetes.io/dockerconfigjson";
const KEY: &str = ".dockerconfigjson";

/// Maximum length of a field of a login, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// Returns the name of the Secret with the registry login of a service.
#[must_use]
pub fn registry_secret_name(service: &str) -> String {
    format!("docker-creds-{service}")
}

/// Returns the registry login of a service, from the service or from its params.
#[must_use]
pub fn credentials(service: &Service) -> Option<&Credentials> {
    let in_params = || service.params.as_ref()?.credentials.as_ref();
    service.credentials.as_ref().or_else(in_params)
}

pub(super) fn render(cx: &RenderContext<'_>, service: &Service) -> Result<Option<Secret>, RenderError> {
    let Some(login) = credentials(service) else {
        return Ok(None);
    };
    let name = service.name.as_str();
    let (host, user, password) = (login.host.trim(), login.username.trim(), login.password.trim());
    if host.is_empty() {
        return Err(RenderError::new(
            name,
            "credentials.host",
            "missing; name the registry, for example `ghcr.io`",
        ));
    }
    let longest = [host, user, password, login.email.trim()]
        .map(str::len)
        .into_iter()
        .max();
    if longest > Some(MAX_TEXT) {
        let problem = format!("a field has more than {MAX_TEXT} bytes, more than any registry accepts");
        return Err(RenderError::new(name, "credentials", problem));
    }
    let entry = RegistryLogin {
        username: user,
        password,
        email: login.email.trim(),
        auth: BASE64.encode(format!("{user}:{password}").as_bytes()),
    };
    let config = config(host, &entry);
    Ok(Some(Secret {
        metadata: cx.meta(registry_secret_name(name), cx.service_labels(name)),
        type_: Some(TYPE.to_owned()),
        data: Some([(KEY.to_owned(), ByteString(config.into_bytes()))].into()),
        ..Secret::default()
    }))
}

/// Registry login. The JSON fields are the same as in the Go provider, so that the two providers do not
/// rewrite each other's Secrets.
#[derive(Serialize)]
struct RegistryLogin<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    email: &'a str,
    auth: String,
}

/// Encodes the Docker configuration as JSON, with the same escapes as Go.
fn config(host: &str, entry: &RegistryLogin<'_>) -> String {
    let auths = BTreeMap::from([("auths", BTreeMap::from([(host, entry)]))]);
    let json = serde_json::to_string(&auths).unwrap_or_default();
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

pub(super) fn pull_secrets(cx: &RenderContext<'_>, service: &Service) -> Option<Vec<LocalObjectReference>> {
    let own = credentials(service).map(|_| registry_secret_name(&service.name));
    let general = Some(cx.settings.pull_secret.trim().to_owned());
    // The API server rejects duplicate names.
    let general = general.filter(|name| !name.is_empty() && own.as_ref() != Some(name));
    let names = own.into_iter().chain(general);
    let references: Vec<_> = names.map(|name| LocalObjectReference { name }).collect();
    (!references.is_empty()).then_some(references)
}
