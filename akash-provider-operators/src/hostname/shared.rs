//! State that the watches, the writer and the status share: the index with its time-dependent state, and the state of
//! the Gateway or the IngressClass.

use super::facts::Host;
use super::index::{
    Delete, HostnameEvent, HostnameIndex, HostnameWork, HostnameWrite, ObjectChange, RoutePlan,
};
use super::live::LiveObject;
use super::object_kind::ObjectKind;
use super::proxy_address::ProxyAddress;
use crate::operator_state::{self, OperatorState};
use crate::queue::RetryPolicy;
use akash_provider_core::cluster::Reachability;
use akash_provider_kube_kernel::audit::MissingRecord;
use akash_provider_kube_kernel::watch::Definitions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Names of the record watches in the status.
pub(super) const HOSTS: &str = "providerhosts";
pub(super) const MANIFESTS: &str = "manifests";

/// Index with its time-dependent state.
#[derive(Debug)]
pub(super) struct Hostnames {
    index: HostnameIndex,
    /// New Ingresses without a reported status, by hostname: UID, and time of the first observation.
    settling: BTreeMap<String, (String, Instant)>,
    /// Age at which a new Ingress counts as working, even if no controller reports a status.
    handover: Duration,
    /// Results of the last probes, by hostname.
    reached: BTreeMap<String, Reachability>,
}

impl Hostnames {
    /// Returns the last probe result of this process. Without such a result, returns the result in the
    /// record.
    pub(super) fn reachable(&self, name: &str) -> Option<&Reachability> {
        let noted = || self.index.host(name)?.as_ref().ok()?.notes.reachable.as_ref();
        self.reached.get(name).or_else(noted)
    }
}

impl Deref for Hostnames {
    type Target = HostnameIndex;

    fn deref(&self) -> &HostnameIndex {
        &self.index
    }
}

impl operator_state::OperatorIndex for Hostnames {
    type Event = HostnameEvent;
    type Work = HostnameWork;
    const PROBLEM: &'static str = "hostname has no valid route";

    fn apply(&mut self, event: HostnameEvent) -> BTreeSet<String> {
        self.index.apply(event)
    }

    fn is_known(&self) -> bool {
        self.index.is_known()
    }

    fn names(&self) -> BTreeSet<String> {
        self.index.names()
    }

    fn work(&self, name: &str) -> HostnameWork {
        self.index.work(name)
    }

    fn declared(&self) -> usize {
        self.index.declared()
    }

    /// Permits the deletion of HTTPRoutes when the new Ingress has existed for the time `handover`. After a
    /// restart of the operator, this time is counted from zero.
    fn apply_time_rules(&mut self, name: &str, work: &mut HostnameWork, now: Instant) -> Option<Instant> {
        if work.held.is_empty() {
            self.settling.remove(name);
            return None;
        }
        let host = self.index.host(name).and_then(|host| host.as_ref().ok());
        let route = host.and_then(|host| self.index.route(name, &host.namespace));
        let uid = route.map(|route| route.uid.clone()).unwrap_or_default();
        let seen = self.settling.get(name).filter(|(host_uid, _)| *host_uid == uid);
        let since = seen.map_or(now, |(_, since)| *since);
        self.settling.insert(name.to_owned(), (uid, since));
        let until = since + self.handover;
        if until > now {
            return Some(until);
        }
        work.deletes.append(&mut work.held);
        None
    }

    fn prune(&mut self) {
        let names = self.index.names();
        self.settling.retain(|name, _| names.contains(name));
        self.reached.retain(|name, _| names.contains(name));
        self.index.prune(&names);
    }

    fn needs(&self, watch: &str) -> bool {
        [HOSTS, MANIFESTS, self.index.mode().sort().plural()].contains(&watch)
    }

    fn absent(watch: &str) -> Option<HostnameEvent> {
        let sort = ObjectKind::ALL.into_iter().find(|sort| sort.plural() == watch);
        sort.map(HostnameEvent::Absent)
    }
}

impl operator_state::Work for HostnameWork {
    fn is_done(&self) -> bool {
        Self::is_done(self)
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn bodies(&self) -> Vec<&Value> {
        self.writes().map(|write| &write.body).collect()
    }

    fn missing(&self) -> Option<&MissingRecord> {
        self.missing.as_ref()
    }

    fn withhold(&mut self, why: String) {
        self.deletes.clear();
        self.problem = Some(why);
    }
}

/// State of the parent of all routes: the IngressClass in Ingress mode, the Gateway in Gateway API mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RouteParent {
    /// Kind and name, for display.
    pub name: String,
    /// Presence in the cluster; `None` before the first list.
    pub is_there: Option<bool>,
    /// Last error of the watch, cleared when the watch works again.
    pub error: Option<String>,
    /// Address of a Gateway, from its status.
    #[serde(skip)]
    pub entrance: Option<ProxyAddress>,
}

#[derive(Debug)]
pub(super) struct HostnameOperatorState {
    pub(super) state: Arc<OperatorState<Hostnames>>,
    front: Mutex<RouteParent>,
}

impl HostnameOperatorState {
    pub(super) fn new(
        plan: RoutePlan,
        patience: RetryPolicy,
        handover: Duration,
        definitions: Definitions,
    ) -> Self {
        let hostnames = Hostnames {
            index: HostnameIndex::new(plan),
            settling: BTreeMap::new(),
            handover,
            reached: BTreeMap::new(),
        };
        let kinds = ObjectKind::ALL.map(ObjectKind::plural);
        let watches = [HOSTS, MANIFESTS].into_iter().chain(kinds);
        Self {
            state: Arc::new(OperatorState::new(hostnames, patience, watches, definitions)),
            front: Mutex::new(RouteParent::default()),
        }
    }

    pub(super) fn route_parent(&self) -> RouteParent {
        self.front.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change_route_parent<R>(&self, change: impl FnOnce(&mut RouteParent) -> R) -> R {
        change(&mut self.front.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stores the result of a probe. Returns the ProviderHost record, and the last result that was written to
    /// the record.
    pub(super) fn reached(&self, name: &str, now: Reachability) -> Option<(Host, Option<Reachability>)> {
        let mut inner = self.state.inner();
        let host = inner.index.host(name)?.as_ref().ok()?.clone();
        inner.index.reached.insert(name.to_owned(), now);
        let noted = host.notes.reachable.clone();
        Some((host, noted))
    }

    /// Adds a completed write of this operator to the index. The watch reports the same write later.
    pub(super) fn written(&self, name: &str, write: &HostnameWrite, meta: &ObjectMeta) {
        self.state.inner().counts.written += 1;
        let place = (write.namespace.clone(), name.to_owned());
        let live = LiveObject::written(meta, &write.body);
        self.state
            .apply(HostnameEvent::Objects(write.sort, ObjectChange::Put(place, live)));
    }

    /// Updates the index after a deletion by this operator, before the watch reports the deletion.
    pub(super) fn deleted(&self, name: &str, deleted: &Delete) {
        self.state.inner().counts.deleted += 1;
        let place = (deleted.namespace.clone(), name.to_owned());
        self.state
            .apply(HostnameEvent::Deleted(deleted.sort, place, deleted.uid.clone()));
    }

    /// Retries the failed hostnames of a lease immediately, and returns their number.
    pub(super) fn forget(&self, lease: &str) -> usize {
        self.state.forget(|index, name| {
            let host = index.host(name).and_then(|host| host.as_ref().ok());
            host.is_some_and(|host| host.lease.to_string() == lease)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::AbsenceEvidence;
    use crate::hostname::samples;
    use crate::operator_state::WriterStep;
    use std::collections::BTreeSet;

    fn deletions(shared: &HostnameOperatorState, now: Instant) -> Vec<String> {
        let mut deleted = Vec::new();
        loop {
            match shared.state.next(now) {
                WriterStep::WorkItem(turn) => {
                    assert!(turn.work.write.is_none(), "nothing to write");
                    shared.state.finish(&turn, Ok(()), now);
                    deleted.push(turn.name);
                }
                WriterStep::More => {}
                WriterStep::Nothing(_) => return deleted,
            }
        }
    }

    #[test]
    fn routes_stay_while_the_kind_of_their_records_is_missing() {
        let names: Vec<String> = (0..8).map(|n| format!("n{n}.example.com")).collect();
        let owner = samples::host(1);
        let hosts: Vec<_> = names.iter().map(|name| (name.as_str(), owner.clone())).collect();
        let routes = names.iter().map(|name| samples::route(name, &owner, None, false));
        let shared = samples::shared(RoutePlan::default(), &hosts, routes.collect());
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(deletions(&shared, at(0)), [""; 0]);
        let gone = |name: &String| {
            shared.state.apply(HostnameEvent::Hosts(ObjectChange::Gone(
                name.clone(),
                Ok(owner.clone()),
            )))
        };
        names.iter().for_each(gone);
        let evidence = |asked| AbsenceEvidence {
            asked,
            definition: "uid".to_owned(),
            records: BTreeSet::new(),
        };
        assert_eq!(
            deletions(&shared, at(1)),
            [""; 0],
            "a DELETED event proves nothing"
        );
        assert_eq!(deletions(&shared, at(600)), [""; 0], "time proves nothing");
        shared.state.learn(evidence(at(600)));
        assert_eq!(deletions(&shared, at(605)), [""; 0], "eight of eight are held");
        let status = shared.status(None, 10);
        assert_eq!(status.hold.unwrap().names, 8);
        let problem = status.hostnames["n0.example.com"].problem.clone().unwrap();
        assert!(problem.contains("reconcile --confirm"), "{problem}");
        // All records but one are restored; the route of the last is deleted after the confirmation.
        for name in &names[1..] {
            let host = Ok(owner.clone());
            shared
                .state
                .apply(HostnameEvent::Hosts(ObjectChange::Put(name.clone(), host)));
        }
        assert_eq!(deletions(&shared, at(606)), [""; 0]);
        assert_eq!(shared.state.confirm(), 1);
        assert_eq!(deletions(&shared, at(607)), ["n0.example.com"]);
        assert!(shared.status(None, 10).hold.is_none());
    }

    #[test]
    fn status_pages_contain_each_hostname_once() {
        let shared = HostnameOperatorState::new(
            RoutePlan::default(),
            RetryPolicy::default(),
            Duration::ZERO,
            Definitions::default(),
        );
        let names: BTreeSet<String> = (0..25).map(|n| format!("n{n}.example.com")).collect();
        let garbage = names.iter().map(|name| (name.clone(), Err("garbage".to_owned())));
        shared
            .state
            .apply(HostnameEvent::Hosts(ObjectChange::Listed(garbage.collect())));
        let (mut seen, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = shared.status(after.as_deref(), 10);
            assert!(page.hostnames.len() <= 10);
            seen.extend(page.hostnames.into_keys());
            pages += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!((pages, seen), (3, names.into_iter().collect()));
        assert_eq!(shared.status(None, 25).next, None, "no page follows the last");
        assert!(shared.status_of("n7.example.com").is_some() && shared.status_of("other.org").is_none());
    }
}
