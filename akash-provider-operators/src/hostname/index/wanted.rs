//! Desired objects of a hostname, and their differences from the existing objects.

use super::tables::ObjectTable;
use super::{HostnameIndex, HostnameWork, HostnameWrite, RoutePlan};
use crate::hostname::facts::Host;
use crate::hostname::live::Acceptance;
use crate::hostname::object_kind::ObjectKind;
use crate::hostname::route::{Mode, References};
use crate::hostname::{certificate, filter, proof};
use akash_provider_kube_model::crd::notes::ProofState;
use serde_json::Value;

impl RoutePlan {
    /// Returns true if the plan creates an object of this kind for every hostname.
    #[must_use]
    pub fn wants(&self, sort: ObjectKind) -> bool {
        match sort {
            ObjectKind::Ingress | ObjectKind::HttpRoute => sort == self.mode.sort(),
            ObjectKind::Filter => self.mode.has_filters(),
            ObjectKind::Certificate => self.issuer.is_some() && self.mode.sort() == ObjectKind::Ingress,
        }
    }

    /// Returns true for a hostname that requires a proof of ownership.
    #[must_use]
    pub fn needs_proof(&self, name: &str) -> bool {
        let Some(rule) = &self.proof else {
            return false;
        };
        let own = rule.own_domain.trim_matches('.').to_ascii_lowercase();
        let inside = name.strip_suffix(&own).is_some_and(|rest| rest.ends_with('.'));
        own.is_empty() || !inside
    }
}

impl HostnameIndex {
    /// Returns the objects to write, or the reason why no objects can be written.
    pub(super) fn wanted(&self, name: &str, host: &Host) -> Result<HostnameWork, String> {
        if self.plan.blocked.is_blocked(name) {
            return Err(
                "the hostname is blocked (--deployment-blocked-hostnames, or the domain of the provider or of the cluster)"
                    .to_owned(),
            );
        }
        if self.plan.needs_proof(name) && Self::proof(host) != Some(ProofState::Proven) {
            return Err(proof::wanting(name, host.lease.owner()));
        }
        let options = self.options(host)?;
        let filter = match &self.plan.mode {
            Mode::GatewayApi { buffer_size, .. } if self.can_write(ObjectKind::Filter) => {
                let body = filter::render(name, host, options, buffer_size);
                // A filter that cannot be written does not prevent the route.
                self.differing(ObjectKind::Filter, name, host, body)
                    .unwrap_or(None)
            }
            _ => None,
        };
        let certificate = match &self.plan.issuer {
            Some(issuer) if self.can_write(ObjectKind::Certificate) => {
                let body = certificate::render(name, host, issuer);
                self.differing(ObjectKind::Certificate, name, host, body)
                    .unwrap_or(None)
            }
            _ => None,
        };
        let refers = References {
            filter: self.refers(ObjectKind::Filter, name, host),
            certificate: self.refers(ObjectKind::Certificate, name, host),
        };
        let body = self.plan.mode.render_with(name, host, options, refers);
        Ok(HostnameWork {
            write: self.differing(self.plan.mode.sort(), name, host, body)?,
            filter,
            certificate,
            ..HostnameWork::default()
        })
    }

    /// Returns true if the required TXT record of the hostname was removed from DNS.
    pub(super) fn is_withdrawn(&self, name: &str, host: &Host) -> bool {
        self.plan.needs_proof(name) && Self::proof(host) == Some(ProofState::Withdrawn)
    }

    fn proof(host: &Host) -> Option<ProofState> {
        host.notes.proof_of(host.lease.owner())
    }

    fn can_write(&self, sort: ObjectKind) -> bool {
        self.plan.wants(sort) && self.table(sort).is_known()
    }

    /// Returns true if the route must reference the object. A route gets new references to accepted objects
    /// only, because a reference to any other object can break the route.
    fn refers(&self, sort: ObjectKind, name: &str, host: &Host) -> bool {
        if !self.plan.wants(sort) || *self.table(sort) == ObjectTable::Absent {
            return false;
        }
        let as_it_is = || {
            let route = self.route(name, &host.namespace);
            route.is_some_and(|route| route.refers_to(sort, name))
        };
        match self.live(sort, name, &host.namespace).map(|live| &live.accepted) {
            Some(Acceptance::Yes) => true,
            // An expired certificate is better than no certificate.
            Some(Acceptance::No(_)) if sort == ObjectKind::Filter => false,
            _ => as_it_is(),
        }
    }

    /// Returns the write that restores an object, or `None` if the object is in the desired state.
    fn differing(
        &self,
        sort: ObjectKind,
        name: &str,
        host: &Host,
        body: Value,
    ) -> Result<Option<HostnameWrite>, String> {
        let namespace = host.namespace.clone();
        let Some(live) = self.live(sort, name, &namespace) else {
            let write = HostnameWrite {
                sort,
                namespace,
                body,
                uid: None,
                take_over: false,
                patch: None,
                at: String::new(),
            };
            return Ok(Some(write));
        };
        if live.lease.as_ref() != Some(&host.lease) {
            return Err(format!(
                "the route in namespace {namespace} has the labels of another lease and is not changed; delete it"
            ));
        }
        if live.is_going {
            return Err("the route is being deleted; it is created again after the deletion".to_owned());
        }
        Ok(live.differs(&body).map(|difference| HostnameWrite {
            sort,
            namespace,
            body,
            uid: Some(live.uid.clone()),
            take_over: difference.is_surplus,
            patch: difference.patch,
            at: difference.at,
        }))
    }
}
