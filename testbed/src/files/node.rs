//! Configuration files of a node's programs.

use serde_json::{Value, json};

use super::{create_dir, plain};
use crate::component::Component;
use crate::error::{Error, Result};
use crate::layout::{Layout, NODE};

pub(super) fn write(layout: &Layout) -> Result<()> {
    create_dir(&layout.run_dir())?;
    create_dir(&layout.config("cni"))?;
    plain(&layout.config("containerd.toml"), &containerd(layout))?;
    // The kubelet copies the file to pods with `dnsPolicy: Default`. The node has no DNS server.
    plain(&layout.config("resolv.conf"), "search .\n")?;
    for (file, value) in [
        ("cni/10-bridge.conflist", bridge(layout)),
        // JSON is valid YAML.
        ("kubelet.yaml", kubelet(layout)),
        ("kube-proxy.yaml", kube_proxy(layout)),
    ] {
        let text = serde_json::to_string_pretty(&value).map_err(|error| Error::new(error.to_string()))?;
        plain(&layout.config(file), &text)?;
    }
    Ok(())
}

fn containerd(layout: &Layout) -> String {
    let data = layout.data(Component::Containerd);
    let cri = "plugins.\"io.containerd.grpc.v1.cri\"";
    let mut out = format!(
        "version = 2\nroot = {:?}\nstate = {:?}\n",
        data.join("root").display().to_string(),
        layout.run_dir().join("containerd").display().to_string(),
    );
    out += &format!(
        "[grpc]\naddress = {:?}\n",
        layout.containerd_socket().display().to_string()
    );
    out += &format!(
        "[plugins.\"io.containerd.internal.v1.opt\"]\npath = {:?}\n",
        data.join("opt").display().to_string()
    );
    // Without CAP_SYS_RESOURCE the OOM score cannot be lowered, and every sandbox would fail.
    out += &format!(
        "[{cri}]\nsandbox_image = \"localhost/pause:1\"\nrestrict_oom_score_adj = true\n\
         netns_mounts_under_state_dir = true\n"
    );
    out += &format!("[{cri}.containerd]\nsnapshotter = \"overlayfs\"\n");
    out += &format!("[{cri}.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n");
    out += &format!("[{cri}.containerd.runtimes.runc.options]\nSystemdCgroup = false\n");
    out += &format!(
        "[{cri}.cni]\nbin_dir = \"/usr/lib/cni\"\nconf_dir = {:?}\n",
        layout.config("cni").display().to_string()
    );
    out
}

/// Returns the configuration of the pod network. The pod network has the same name as the network namespace,
/// so that the teardown finds the cached CNI results.
fn bridge(layout: &Layout) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": layout.netns,
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": layout.addresses().pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": layout.data(Component::Kubelet).join("addresses"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(layout: &Layout) -> Value {
    let addresses = layout.addresses();
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.node,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": layout.secret("kubelet-client.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{}", layout.containerd_socket().display()),
        // Each cluster has its own cgroup subtree, because the kubelet kills unknown processes in its
        // subtree.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", layout.netns),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "clusterDNS": [addresses.dns],
        "clusterDomain": "cluster.local",
        "resolvConf": layout.config("resolv.conf"),
        "podLogsDir": layout.data(Component::Kubelet).join("pod-logs"),
        "volumePluginDir": layout.data(Component::Kubelet).join("volume-plugins"),
        // A build machine's disk may be almost full, and images cannot be pulled again. The values `0%` and
        // 100 disable eviction and image garbage collection.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageMaximumGCAge": "0s",
        "maxPods": 250,
        // A heartbeat every 2 s instead of 10 s, so that tests of a silent kubelet are short.
        "nodeLeaseDurationSeconds": 8,
        "registerNode": true,
    })
}

fn kube_proxy(layout: &Layout) -> Value {
    let addresses = layout.addresses();
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": addresses.node,
        "healthzBindAddress": format!("{}:10256", addresses.node),
        "metricsBindAddress": format!("{}:10249", addresses.node),
        "clientConnection": {"kubeconfig": layout.kubeconfig_of(Component::KubeProxy)},
        "clusterCIDR": addresses.pods,
        "hostnameOverride": NODE,
        "mode": "iptables",
        // These settings belong to the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::layout;
    use crate::tier::Tier;

    #[test]
    fn containerd_uses_only_folders_of_the_cluster() {
        let text = containerd(&layout(Tier::Node, 1));
        assert!(
            text.contains("root = \"/state/t/data/containerd/root\"\n"),
            "{text}"
        );
        assert!(text.contains("restrict_oom_score_adj = true\n"), "{text}");
        for path in text.split('"').filter(|part| part.starts_with('/')) {
            let ours = path.starts_with("/state/t/") || path.starts_with("/run/akash-t-");
            assert!(ours || path == "/usr/lib/cni", "{path}");
        }
    }

    #[test]
    fn images_are_not_removed_on_a_full_disk() {
        let kubelet = kubelet(&layout(Tier::Node, 0));
        for (signal, threshold) in kubelet["evictionHard"].as_object().unwrap() {
            assert!(
                signal == "memory.available" || threshold == "0%",
                "{signal} {threshold}"
            );
        }
        // Signals left out would have the kubelet's default thresholds.
        for signal in [
            "nodefs.available",
            "nodefs.inodesFree",
            "imagefs.available",
            "imagefs.inodesFree",
        ] {
            assert_eq!(kubelet["evictionHard"][signal], "0%");
        }
        assert_eq!(kubelet["imageGCHighThresholdPercent"], 100);
    }

    #[test]
    fn kubelets_have_separate_cgroups() {
        let root = |layout: &Layout| kubelet(layout)["cgroupRoot"].clone();
        let one = Layout::new(Tier::Node, "one", "/state/one".as_ref(), 0, "/p".as_ref());
        assert_ne!(root(&one), root(&layout(Tier::Node, 0)));
    }

    #[test]
    fn pod_range_equals_range_of_bridge() {
        let layout = layout(Tier::Node, 5);
        assert_eq!(
            bridge(&layout)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"],
            "10.205.0.0/17"
        );
        assert_eq!(kube_proxy(&layout)["clusterCIDR"], "10.205.0.0/17");
        assert_eq!(kubelet(&layout)["clusterDNS"][0], "10.205.128.10");
    }
}
