//! What a test finds on a running cluster of the api tier.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Cluster, Component, Health, Tier};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(90);

fn health(cluster: &Cluster, component: Component) -> Health {
    let status = cluster.status();
    let found = status
        .components
        .into_iter()
        .find(|found| found.name == component.as_str());
    found.unwrap().health
}

#[test]
fn parts_are_paused_and_go_on() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    cluster.pause(Component::ControllerManager).unwrap();
    assert_eq!(health(&cluster, Component::ControllerManager), Health::Paused);
    assert!(!cluster.status().is_healthy());
    cluster.resume(Component::ControllerManager).unwrap();
    // What waited for it may have made it restart its connections; `start` waits until it says that it is well.
    cluster.start(Component::ControllerManager).unwrap();
    assert!(cluster.status().is_healthy());
}

#[test]
fn a_part_that_was_killed_is_gone_until_it_is_started() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let _alone = cluster.exclusive().unwrap();
    cluster.kill(Component::ControllerManager).unwrap();
    assert_eq!(health(&cluster, Component::ControllerManager), Health::Gone);
    assert!(cluster.pause(Component::ControllerManager).is_err());
    cluster.start(Component::ControllerManager).unwrap();
    assert_eq!(health(&cluster, Component::ControllerManager), Health::Healthy);
}

/// An API server gives up after some seconds without its store.
#[test]
fn a_part_that_ends_on_its_way_is_started_again() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
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
        while ends() == before && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(100));
        }
        assert!(ends() > before, "it never gives up");
        cluster.start(Component::Etcd).unwrap();
        starting.join().unwrap().unwrap();
    });
    cluster.restart_controllers().unwrap();
    assert!(cluster.status().is_healthy());
}

#[test]
fn a_part_that_the_tier_lacks_is_refused_by_name() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
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
fn many_share_it_and_one_that_breaks_it_waits_for_them() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
        return;
    };
    let one = cluster.shared().unwrap();
    let another = cluster.shared().unwrap();
    let (sender, receiver) = channel();
    let breaker = cluster.clone();
    let thread = std::thread::spawn(move || {
        let _alone = breaker.exclusive().unwrap();
        sender.send(()).unwrap();
    });
    drop(one);
    assert!(
        receiver.recv_timeout(Duration::from_millis(200)).is_err(),
        "it did not wait"
    );
    drop(another);
    receiver.recv_timeout(Duration::from_mins(2)).unwrap();
    thread.join().unwrap();
}

#[test]
fn its_kubeconfig_opens_its_api_server() {
    let Some(cluster) = Cluster::from_env(Tier::Api).unwrap() else {
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
