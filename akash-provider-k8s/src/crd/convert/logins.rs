//! Registry passwords of a group, apart from everything else.

use akash_provider_core::manifest::{Credentials, Group, Service};
use std::collections::BTreeMap;

/// Key of a login that stands among a service's params.
fn params_key(service: &str) -> String {
    // A service has no dot in its name, so this is the key of no other service.
    format!("{service}.params")
}

/// Every registry password of a group that is not empty, by a key that is a key of a Secret too.
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

/// Sets the registry passwords whose keys are given; the others stay as they are.
pub fn restore_passwords(group: &mut Group, passwords: &BTreeMap<String, String>) {
    for service in &mut group.services {
        for (key, login) in logins(service) {
            if let Some(password) = passwords.get(&key) {
                login.password.clone_from(password);
            }
        }
    }
}

/// Takes every registry password out of a group.
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
