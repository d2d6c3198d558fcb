//! Registry passwords of a group, which are stored apart from the Manifest object.

use akash_provider_core::manifest::{Credentials, Group, Service};
use std::collections::BTreeMap;

/// Returns the key of the Secret entry with the password in `params.credentials` of a service.
fn params_key(service: &str) -> String {
    // The names of services have no dot, so the key is unique.
    format!("{service}.params")
}

/// Returns the non-empty registry passwords of a group. The keys are valid keys of a Secret.
#[must_use]
pub fn passwords(group: &Group) -> BTreeMap<String, String> {
    let logins = group.services.iter().flat_map(|service| {
        let own = service.credentials.as_ref();
        let in_params = service
            .params
            .as_ref()
            .and_then(|params| params.credentials.as_ref());
        [
            own.map(|login| (service.name.clone(), login.password.clone())),
            in_params.map(|login| (params_key(&service.name), login.password.clone())),
        ]
    });
    logins
        .flatten()
        .filter(|(_, password)| !password.is_empty())
        .collect()
}

/// Copies the registry passwords from `passwords` into a group.
pub fn restore_passwords(group: &mut Group, passwords: &BTreeMap<String, String>) {
    for service in &mut group.services {
        for (key, login) in logins(service) {
            if let Some(password) = passwords.get(&key) {
                login.password.clone_from(password);
            }
        }
    }
}

pub(super) fn clear_passwords(group: &mut Group) {
    for service in &mut group.services {
        for (_, login) in logins(service) {
            login.password.clear();
        }
    }
}

fn logins(service: &mut Service) -> impl Iterator<Item = (String, &mut Credentials)> {
    let keys = (service.name.clone(), params_key(&service.name));
    let in_params = service
        .params
        .as_mut()
        .and_then(|params| params.credentials.as_mut());
    let own = service.credentials.as_mut().map(|login| (keys.0, login));
    own.into_iter().chain(in_params.map(|login| (keys.1, login)))
}
