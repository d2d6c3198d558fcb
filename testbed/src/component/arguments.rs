//! Command line arguments of each component, derived from the layout only.

use std::path::Path;

use crate::component::Component;
use crate::layout::{Layout, NODE};
use crate::tier::Tier;

impl Component {
    pub(crate) fn arguments(self, layout: &Layout) -> Vec<String> {
        match self {
            Self::Etcd => etcd(layout),
            Self::ApiServer => api_server(layout),
            Self::ControllerManager => controller_manager(layout),
            Self::Scheduler => scheduler(layout),
            Self::Containerd => vec!["--config".to_owned(), text_of(&layout.config("containerd.toml"))],
            Self::Kubelet => kubelet(layout),
            Self::KubeProxy => vec![flag("config", &text_of(&layout.config("kube-proxy.yaml")))],
            Self::Kwok => kwok(layout),
        }
    }
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

fn flag(name: &str, value: &str) -> String {
    format!("--{name}={value}")
}

/// Returns the arguments of etcd. Writes are not flushed, because the data is temporary.
fn etcd(layout: &Layout) -> Vec<String> {
    vec![
        flag("data-dir", &text_of(&layout.data(Component::Etcd))),
        "--unsafe-no-fsync".to_owned(),
        flag("listen-client-urls", "http://127.0.0.1:2379"),
        flag("advertise-client-urls", "http://127.0.0.1:2379"),
        flag("listen-peer-urls", "http://127.0.0.1:2380"),
        // Large enough for the objects of the scale tier.
        flag("quota-backend-bytes", "4294967296"),
        flag("log-level", "warn"),
    ]
}

/// Returns the arguments of the API server, which creates its own certificate and authority.
fn api_server(layout: &Layout) -> Vec<String> {
    let addresses = layout.addresses();
    let node = addresses.node.to_string();
    let account_key = text_of(&layout.secret("service-account.key"));
    vec![
        flag("etcd-servers", "http://127.0.0.1:2379"),
        flag("bind-address", &node),
        flag("advertise-address", &node),
        flag("secure-port", "6443"),
        flag("cert-dir", &text_of(&layout.dir.join("pki"))),
        flag("service-cluster-ip-range", &addresses.services),
        flag("kubelet-preferred-address-types", "InternalIP"),
        flag(
            "kubelet-client-certificate",
            &text_of(&layout.secret("kubelet-client.crt")),
        ),
        flag(
            "kubelet-client-key",
            &text_of(&layout.secret("kubelet-client.key")),
        ),
        flag("authorization-mode", "Node,RBAC"),
        flag("token-auth-file", &text_of(&layout.dir.join("tokens.csv"))),
        flag(
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local",
        ),
        flag("service-account-key-file", &account_key),
        flag("service-account-signing-key-file", &account_key),
        flag("allow-privileged", "true"),
        flag("audit-policy-file", &text_of(&layout.config("audit.yaml"))),
        flag("audit-log-path", &text_of(&layout.audit_log())),
    ]
}

fn controller_manager(layout: &Layout) -> Vec<String> {
    let mut args = client(layout, Component::ControllerManager);
    if layout.tier == Tier::Node {
        args.push(flag("enable-hostpath-provisioner", "true"));
        // Half of the default, so that tests that pause the kubelet wait less.
        args.push(flag("node-monitor-grace-period", "20s"));
    }
    args.extend([
        flag("use-service-account-credentials", "true"),
        flag(
            "service-account-private-key-file",
            &text_of(&layout.secret("service-account.key")),
        ),
        flag("root-ca-file", &text_of(&layout.secret("apiserver.crt"))),
        flag("service-cluster-ip-range", &layout.addresses().services),
        flag("cluster-cidr", &layout.addresses().pods),
        flag(
            "flex-volume-plugin-dir",
            &text_of(&layout.data(Component::ControllerManager)),
        ),
    ]);
    args
}

fn scheduler(layout: &Layout) -> Vec<String> {
    client(layout, Component::Scheduler)
}

/// Returns the common arguments of scheduler and controller manager. Leader election is disabled, so that
/// both work immediately after a restart.
fn client(layout: &Layout, component: Component) -> Vec<String> {
    let kubeconfig = text_of(&layout.kubeconfig_of(component));
    vec![
        flag("kubeconfig", &kubeconfig),
        flag("authentication-kubeconfig", &kubeconfig),
        flag("authorization-kubeconfig", &kubeconfig),
        flag("bind-address", &layout.addresses().node.to_string()),
        flag("leader-elect", "false"),
        flag("kube-api-qps", "200"),
        flag("kube-api-burst", "400"),
    ]
}

fn kubelet(layout: &Layout) -> Vec<String> {
    vec![
        flag("config", &text_of(&layout.config("kubelet.yaml"))),
        flag("kubeconfig", &text_of(&layout.kubeconfig_of(Component::Kubelet))),
        flag("root-dir", &text_of(&layout.data(Component::Kubelet))),
        flag("cert-dir", &text_of(&layout.secret("kubelet"))),
        flag("hostname-override", NODE),
        flag("node-ip", &layout.addresses().node.to_string()),
        flag("node-labels", "akash.network=true"),
    ]
}

/// Returns the arguments of kwok, which simulates only nodes with the annotation `kwok.x-k8s.io/node=fake`.
fn kwok(layout: &Layout) -> Vec<String> {
    vec![
        flag("kubeconfig", &text_of(&layout.kubeconfig_of(Component::Kwok))),
        flag("config", &text_of(&layout.config("kwok.yaml"))),
        flag("manage-all-nodes", "false"),
        flag("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"),
        flag("server-address", &format!("{}:10247", layout.addresses().node)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::layout;

    #[test]
    fn components_listen_only_inside_the_network_namespace() {
        for component in Component::ALL {
            for arg in component.arguments(&layout(Tier::Node, 7)) {
                assert!(!arg.contains("0.0.0.0"), "{component}: {arg}");
            }
        }
        let args = Component::ApiServer.arguments(&layout(Tier::Node, 7));
        assert!(args.contains(&"--bind-address=10.99.7.2".to_owned()), "{args:?}");
    }

    #[test]
    fn every_path_is_inside_the_state_folder() {
        for component in Component::ALL {
            for arg in component.arguments(&layout(Tier::Node, 0)) {
                let value = arg.split_once('=').map_or(arg.as_str(), |(_, value)| value);
                assert!(
                    !value.starts_with('/') || value.starts_with("/state/t/"),
                    "{component}: {arg}"
                );
            }
        }
    }
}
