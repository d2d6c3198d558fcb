//! What stands before the routes: the class of Ingresses, or the Gateway. Without it routes are made all the same, and
//! lead nowhere; so it is looked at and told.

use super::entrance::Entrance;
use super::route::Mode;
use super::shared::Shared;
use crate::error::within;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(60);

/// What is known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Front {
    /// What it is, for people.
    pub name: String,
    /// Whether it is there; `None` where that is not known.
    pub is_there: Option<bool>,
    /// Why it is not known.
    pub error: Option<String>,
    /// Of a Gateway: where it is reached, as its controller says.
    #[serde(skip)]
    pub entrance: Option<Entrance>,
}

/// Looks at it for ever.
pub(super) async fn watch(client: Client, mode: Mode, limit: Duration, shared: Arc<Shared>) {
    loop {
        let front = look(&client, &mode, limit).await;
        let before = shared.set_front(front.clone());
        // Said when it goes away, and not each time that it is looked at.
        if front.is_there == Some(false) && before.is_there != Some(false) {
            tracing::warn!(missing = front.name, "no hostname leads anywhere without it");
        }
        sleep(EVERY).await;
    }
}

async fn look(client: &Client, mode: &Mode, limit: Duration) -> Front {
    let (name, api, object): (String, Api<DynamicObject>, &str) = match mode {
        Mode::Ingress { class, .. } => {
            let resource = ApiResource::erase::<IngressClass>(&());
            let api = Api::all_with(client.clone(), &resource);
            (format!("IngressClass {class}"), api, class)
        }
        Mode::GatewayApi { name, namespace, .. } => {
            let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
            let resource = ApiResource::from_gvk(&kind);
            let api = Api::namespaced_with(client.clone(), namespace, &resource);
            (format!("Gateway {name} in namespace {namespace}"), api, name)
        }
    };
    let found = within(limit, "look at what stands before routes", api.get_opt(object)).await;
    match found {
        Ok(found) => Front {
            name,
            is_there: Some(found.is_some()),
            error: None,
            entrance: found.and_then(|object| Entrance::of_gateway(&object.data)),
        },
        Err(error) => Front {
            name,
            is_there: None,
            error: Some(error.message().to_owned()),
            entrance: None,
        },
    }
}
