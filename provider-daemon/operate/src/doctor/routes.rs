//! HTTP routes of leases: the `IngressClass` or the Gateway to which the routes refer, and its controller.

use super::DoctorContext;
use super::check::Check;
use super::cluster_read::{LIMIT, Needed, Unread, judge_existence, read};
use akash_provider_service::args::kubernetes::IngressArg;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;
use std::time::Duration;

const CLASS: &str = "ingress class";
const CONTROLLER: &str = "ingress controller";
const GATEWAY: &str = "gateway";
/// Pod label that contains the name of the application.
const APP: &str = "app.kubernetes.io/name";
/// Prefix of the controller name in an `IngressClass`, and the label [`APP`] that the chart of this
/// controller sets.
const APPS: [(&str, &str); 5] = [
    ("k8s.io/ingress-nginx", "ingress-nginx"),
    ("nginx.org/ingress-controller", "nginx-ingress"),
    ("traefik.io/ingress-controller", "traefik"),
    ("haproxy.org/ingress-controller", "kubernetes-ingress"),
    ("haproxy-ingress.github.io/controller", "haproxy-ingress"),
];
/// Conditions that the controller of a Gateway sets when the Gateway works.
const CONDITIONS: [&str; 2] = ["Accepted", "Programmed"];

/// Checks that the parent of the routes exists and that its controller runs.
pub(super) async fn checks(context: &DoctorContext<'_>, client: &Client) -> Vec<Check> {
    let routes = &context.args.kubernetes.routes;
    let limit = context.remaining(LIMIT);
    match routes.ingress_mode {
        IngressArg::Ingress => {
            let classes: Api<IngressClass> = Api::all(client.clone());
            let class = read(limit, classes.get_opt(&routes.ingress_class)).await;
            let controller = class.as_ref().ok().cloned().flatten();
            let controller = controller.and_then(|class| class.spec?.controller);
            let mut checks = vec![judge_existence(&parent(CLASS), &routes.ingress_class, &class)];
            if let Some(controller) = controller {
                checks.push(check_controller(client, &controller, context.remaining(LIMIT)).await);
            }
            checks
        }
        IngressArg::GatewayApi => {
            let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
            let kind = ApiResource::from_gvk(&kind);
            let (namespace, name) = (&routes.gateway_namespace, &routes.gateway_name);
            let gateways: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
            let gateway = read(limit, gateways.get_opt(name)).await;
            vec![match &gateway {
                Ok(Some(gateway)) => judge_gateway(namespace, name, &gateway.data),
                _ => judge_existence(&parent(GATEWAY), &format!("{namespace}/{name}"), &gateway),
            }]
        }
    }
}

/// Returns the requirement of an object to which HTTP routes refer.
const fn parent(subject: &'static str) -> Needed {
    Needed {
        subject,
        without: "HTTP services are not reachable",
        help: "install the ingress controller or gateway, or set --ingress-mode, --ingress-class, --gateway-name \
               and --gateway-namespace",
    }
}

async fn check_controller(client: &Client, controller: &str, limit: Duration) -> Check {
    let Some((_, app)) = APPS.iter().find(|(name, _)| controller.starts_with(name)) else {
        return Check::skipped(
            CONTROLLER,
            format!("the labels of the pods of {controller} are unknown"),
        );
    };
    let pods: Api<Pod> = Api::all(client.clone());
    let params = ListParams::default().labels(&format!("{APP}={app}"));
    let pods = read(limit, pods.list(&params)).await;
    judge_controller(controller, app, &pods.map(|pods| readiness(&pods.items)))
}

/// Returns whether each pod is ready. Omits the completed pods of jobs.
fn readiness(pods: &[Pod]) -> Vec<bool> {
    let status = |pod: &Pod| pod.status.clone().unwrap_or_default();
    let is_completed = |phase: &str| matches!(phase, "Succeeded" | "Failed");
    let statuses = pods.iter().map(status);
    let running = statuses.filter(|status| !status.phase.as_deref().is_some_and(is_completed));
    let ready = running.map(|status| {
        let mut conditions = status.conditions.into_iter().flatten();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    ready.collect()
}

fn judge_controller(controller: &str, app: &str, pods: &Result<Vec<bool>, Unread>) -> Check {
    let list = format!("run `kubectl get pods --all-namespaces --selector {APP}={app}`");
    let pods = match pods {
        Ok(pods) => pods,
        Err(Unread::Forbidden) => {
            return Check::skipped(CONTROLLER, "this Kubernetes user has no right to list pods");
        }
        Err(Unread::Failed(why)) => {
            return Check::warning(CONTROLLER, format!("cannot list the pods: {why}"), list);
        }
    };
    let ready = pods.iter().filter(|is_ready| **is_ready).count();
    match (ready, pods.len()) {
        (_, 0) => Check::warning(
            CONTROLLER,
            format!("no pod of {controller} has the label {APP}={app}"),
            "install the ingress controller; ignore this warning if its pods have other labels",
        ),
        (0, all) => Check::failure(
            CONTROLLER,
            format!("none of {all} pods of {controller} is ready, so HTTP services are not reachable"),
            format!("{list}, and correct the cause"),
        ),
        (ready, all) => Check::ok(
            CONTROLLER,
            format!("{ready} of {all} pods of {controller} are ready"),
        ),
    }
}

/// Judges the conditions of a Gateway. `object` contains the field `status`.
fn judge_gateway(namespace: &str, name: &str, object: &Value) -> Check {
    let conditions = object["status"]["conditions"].as_array();
    let condition = |kind: &str| conditions?.iter().find(|condition| condition["type"] == kind);
    for kind in CONDITIONS {
        let found = condition(kind);
        if found.is_some_and(|found| found["status"] == "True") {
            continue;
        }
        let why = found.and_then(|found| found["message"].as_str());
        return Check::failure(
            GATEWAY,
            format!(
                "{namespace}/{name} does not have the condition {kind}, so HTTP services are not reachable: {}",
                why.unwrap_or("no controller has processed the Gateway")
            ),
            format!(
                "run `kubectl describe gateway {name} --namespace {namespace}`, and install or correct the controller of its \
                 class"
            ),
        );
    }
    Check::ok(GATEWAY, format!("{namespace}/{name} is accepted and programmed"))
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use serde_json::json;

    #[test]
    fn one_pod_of_the_controller_must_be_ready() {
        for (pods, wanted) in [
            (Ok(vec![false, true]), Severity::Ok),
            (Ok(vec![false]), Severity::Failure),
            (Ok(Vec::new()), Severity::Warning),
            (Err(Unread::Forbidden), Severity::Skipped),
            (Err(Unread::Failed("x".to_owned())), Severity::Warning),
        ] {
            let check = judge_controller("k8s.io/ingress-nginx", "ingress-nginx", &pods);
            assert_eq!(check.severity(), wanted, "{pods:?}");
        }
        let pod = |phase: &str, ready: &str| -> Pod {
            let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
            serde_json::from_value(json!({ "status": status })).unwrap()
        };
        let pods = [
            pod("Succeeded", "False"),
            pod("Running", "True"),
            pod("Pending", "False"),
        ];
        assert_eq!(readiness(&pods), [true, false]);
    }

    #[test]
    fn gateway_must_be_accepted_and_programmed() {
        let severity = |accepted: &str, programmed: &str| {
            let conditions = json!([{"type": "Accepted", "status": accepted, "message": "m"},
                {"type": "Programmed", "status": programmed}]);
            judge_gateway("n", "g", &json!({"status": {"conditions": conditions}})).severity()
        };
        assert_eq!(severity("True", "True"), Severity::Ok);
        assert_eq!(severity("True", "False"), Severity::Failure);
        assert_eq!(severity("Unknown", "True"), Severity::Failure);
        assert_eq!(judge_gateway("n", "g", &json!({})).severity(), Severity::Failure);
    }
}
