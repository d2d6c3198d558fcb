//! Tests on a running cluster of the API tier.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getsid};
use testbed::{Component, ComponentHealth, Testbed, Tier};

/// Maximum wait for a condition.
const WAIT_LIMIT: Duration = Duration::from_secs(90);

fn health(cluster: &Testbed, component: Component) -> ComponentHealth {
    let status = cluster.status();
    let found = status
        .components
        .into_iter()
        .find(|found| found.name == component.as_str());
    found.unwrap().health
}

#[test]
fn components_are_paused_and_resumed() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    cluster.pause(Component::ControllerManager).unwrap();
    assert_eq!(
        health(&cluster, Component::ControllerManager),
        ComponentHealth::Paused
    );
    assert!(!cluster.status().is_healthy());
    cluster.resume(Component::ControllerManager).unwrap();
    // The controllers may reconnect after the pause. `start` waits until they are healthy.
    cluster.start(Component::ControllerManager).unwrap();
    assert!(cluster.status().is_healthy());
}

/// In a shared session, the exit of the session leader would end a suspended component.
#[test]
fn each_component_leads_its_session() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _together = cluster.shared().unwrap();
    for component in cluster.status().components {
        let pid = component.pid.map(Pid::from_raw);
        assert_eq!(getsid(pid).ok(), pid, "{}", component.name);
    }
}

#[test]
fn killed_component_is_down_until_started() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    cluster.kill(Component::ControllerManager).unwrap();
    assert_eq!(
        health(&cluster, Component::ControllerManager),
        ComponentHealth::Gone
    );
    assert!(cluster.pause(Component::ControllerManager).is_err());
    cluster.start(Component::ControllerManager).unwrap();
    assert_eq!(
        health(&cluster, Component::ControllerManager),
        ComponentHealth::Healthy
    );
}

/// An API server without a store soon exits.
#[test]
fn component_that_ends_during_start_is_restarted() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    for component in [Component::ApiServer, Component::Etcd] {
        cluster.kill(component).unwrap();
    }
    thread::scope(|scope| {
        let starting = scope.spawn(|| cluster.start(Component::ApiServer));
        let log = cluster.log(Component::ApiServer);
        let ends = || std::fs::read_to_string(&log).unwrap().matches("\nF").count();
        let (began, before) = (Instant::now(), ends());
        while ends() == before && began.elapsed() < WAIT_LIMIT {
            thread::sleep(Duration::from_millis(100));
        }
        assert!(ends() > before, "the API server never ends");
        cluster.start(Component::Etcd).unwrap();
        starting.join().unwrap().unwrap();
    });
    cluster.restart_controllers().unwrap();
    assert!(cluster.status().is_healthy());
}

#[test]
fn missing_component_of_a_tier_is_refused_by_name() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let lacking = Component::ALL
        .into_iter()
        .find(|component| !cluster.tier().components().contains(component));
    let error = cluster.kill(lacking.unwrap()).unwrap_err().to_string();
    assert!(
        error.contains("has no") && error.contains("etcd, apiserver"),
        "{error}"
    );
}

#[test]
fn kubeconfig_connects_to_the_api_server() {
    let Some(cluster) = Testbed::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _together = cluster.shared().unwrap();
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    assert!(text.contains(&cluster.addresses().api_server), "{text}");
    assert!(
        cluster
            .kubectl(&["get", "namespace", "lease", "--output", "name"])
            .unwrap()
            .contains("lease")
    );
}
