//! Watch of the IngressClass or the Gateway of the routes. Routes are also created while this object is missing. Such
//! routes serve no traffic, so the absence is logged.

use super::proxy_address::ProxyAddress;
use super::route::Mode;
use super::shared::HostnameOperatorState;
use akash_provider_kube_kernel::watch::{
    Bookkeeping, Follower, ListerWatcher, Sink, WatchConfig, WatchObserver,
};
use k8s_openapi::api::networking::v1::IngressClass;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use std::sync::Arc;
use tokio::time::Instant;

/// Watches the object forever.
pub(super) async fn watch(
    client: Client,
    mode: Mode,
    mut config: WatchConfig,
    shared: Arc<HostnameOperatorState>,
) {
    let (name, api, object): (String, Api<DynamicObject>, &str) = match &mode {
        Mode::Ingress { class, .. } => {
            let resource = ApiResource::erase::<IngressClass>(&());
            let api = Api::all_with(client, &resource);
            (format!("IngressClass {class}"), api, class)
        }
        Mode::GatewayApi { name, namespace, .. } => {
            let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
            let resource = ApiResource::from_gvk(&kind);
            let api = Api::namespaced_with(client, namespace, &resource);
            (format!("Gateway {name} in namespace {namespace}"), api, name)
        }
    };
    // Only the status uses this watch, and an account may lack the permission permanently.
    config.wait_max = config.wait_absent_max;
    let object = object.to_owned();
    shared.change_route_parent(|front| front.name = name);
    let follower = Follower {
        api,
        labels: "",
        fields: format!("metadata.name={object}").into(),
        is_metadata: false,
        reading: ListerWatcher::new::<Bookkeeping>(),
        definitions: shared.state.definitions.clone(),
        sink: RouteParentSink {
            object,
            shared: Arc::clone(&shared),
            listed: None,
        },
        report: RouteParentReport(shared),
        watch_config: config,
    };
    follower.run().await;
}

struct RouteParentSink {
    /// Name of the watched object. Other objects are skipped, because a server may ignore field selectors.
    object: String,
    shared: Arc<HostnameOperatorState>,
    /// Object in the current list.
    listed: Option<Found>,
}

type Found = Option<ProxyAddress>;

impl RouteParentSink {
    fn found(&self, object: &DynamicObject) -> Option<Found> {
        let is_it = object.metadata.name.as_ref() == Some(&self.object);
        is_it.then(|| ProxyAddress::from_gateway(&object.data))
    }

    fn update(&self, found: Option<Found>) {
        update(&self.shared, found, None);
    }
}

fn update(shared: &HostnameOperatorState, found: Option<Found>, error: Option<String>) {
    let is_there = found.is_some();
    let (before, name) = shared.change_route_parent(|front| {
        let before = front.is_there.replace(is_there);
        front.entrance = found.flatten();
        front.error = error;
        (before, front.name.clone())
    });
    // Logged when the object disappears, not on every list without it.
    if !is_there && before != Some(false) {
        tracing::warn!(
            missing = name,
            "routes of hostnames serve no traffic: create the missing Gateway or IngressClass"
        );
    }
}

impl Sink<DynamicObject> for RouteParentSink {
    fn begin(&mut self) {
        self.listed = None;
    }

    fn page(&mut self, objects: Vec<DynamicObject>) {
        let found = objects.iter().find_map(|object| self.found(object));
        self.listed = self.listed.or(found);
    }

    fn complete(&mut self, _: Instant) {
        self.update(self.listed);
    }

    fn applied(&mut self, object: DynamicObject) {
        if let Some(found) = self.found(&object) {
            self.update(Some(found));
        }
    }

    fn deleted(&mut self, object: DynamicObject) {
        if self.found(&object).is_some() {
            self.update(None);
        }
    }
}

/// Writes the state of the watch to the status page.
struct RouteParentReport(Arc<HostnameOperatorState>);

impl WatchObserver for RouteParentReport {
    fn name(&self) -> &'static str {
        "IngressClass or Gateway"
    }

    fn listed(&self) {
        self.works();
    }

    fn works(&self) {
        self.0.change_route_parent(|front| front.error = None);
    }

    fn may_be_absent(&self) -> bool {
        true
    }

    fn absent(&self, error: String) -> bool {
        let is_new = self.0.route_parent().error.is_none();
        // Without the kind the object cannot exist.
        update(&self.0, None, Some(error));
        is_new
    }

    fn failed(&self, error: String, _: Instant) -> bool {
        self.0
            .change_route_parent(|front| front.error.replace(error).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostname::index::RoutePlan;
    use crate::queue::RetryPolicy;
    use akash_provider_kube_kernel::watch::Definitions;
    use serde_json::json;
    use std::time::Duration;

    fn gateway(name: &str, ip: &str) -> DynamicObject {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"listeners": [{"protocol": "HTTP", "port": 80}]},
            "status": {"addresses": [{"value": ip}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn gateway_is_watched_by_name_and_an_outage_retains_its_last_state() {
        let shared = HostnameOperatorState::new(
            RoutePlan::default(),
            RetryPolicy::default(),
            Duration::ZERO,
            Definitions::default(),
        );
        let shared = Arc::new(shared);
        let fares = RouteParentReport(Arc::clone(&shared));
        let mut intake = RouteParentSink {
            object: "gate".to_owned(),
            shared: Arc::clone(&shared),
            listed: None,
        };
        let seen = || {
            let front = shared.route_parent();
            let ip = front.entrance.map(|entrance| entrance.ip.to_string());
            (front.is_there, ip, front.error.is_some())
        };
        let at = |ip: &str| Some(ip.to_owned());
        assert!(
            fares.failed("away".to_owned(), Instant::now()),
            "the first error is new"
        );
        assert!(!fares.failed("away".to_owned(), Instant::now()));
        assert_eq!(
            seen(),
            (None, None, true),
            "presence is unknown before the first list"
        );
        intake.page(vec![gateway("other", "10.0.0.1"), gateway("gate", "10.0.0.2")]);
        intake.page(vec![gateway("third", "10.0.0.3")]);
        intake.complete(Instant::now());
        assert_eq!(seen(), (Some(true), at("10.0.0.2"), false));
        intake.applied(gateway("gate", "10.0.0.4"));
        intake.applied(gateway("other", "10.0.0.5"));
        intake.deleted(gateway("other", "10.0.0.5"));
        assert_eq!(seen(), (Some(true), at("10.0.0.4"), false));
        fares.failed("away".to_owned(), Instant::now());
        assert_eq!(
            seen(),
            (Some(true), at("10.0.0.4"), true),
            "the last state is retained"
        );
        fares.works();
        intake.deleted(gateway("gate", "10.0.0.4"));
        assert_eq!(seen(), (Some(false), None, false));
        intake.begin();
        intake.complete(Instant::now());
        assert_eq!(seen(), (Some(false), None, false));
        assert!(fares.absent("404".to_owned()), "the kind is removed");
        assert_eq!(seen(), (Some(false), None, true));
    }
}
