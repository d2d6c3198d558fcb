//! Stream of the cluster's events about a lease. Each event is one websocket frame.

use super::logs::{ending, frame};
use super::socket::StreamSocket;
use crate::App;
use akash_provider_core::cluster::{EventOptions, LeaseEvent};
use akash_provider_core::types::LeaseId;
use futures::StreamExt;
use serde::Serialize;
use std::future::ready;

#[derive(Serialize)]
struct EventBody<'a> {
    #[serde(rename = "type")]
    severity: &'a str,
    #[serde(rename = "reportingController", skip_serializing_if = "str::is_empty")]
    controller: &'a str,
    #[serde(rename = "reportingInstance", skip_serializing_if = "str::is_empty")]
    instance: &'a str,
    reason: &'a str,
    note: &'a str,
    object: Object<'a>,
}

#[derive(Serialize)]
struct Object<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> From<&'a LeaseEvent> for EventBody<'a> {
    fn from(event: &'a LeaseEvent) -> Self {
        Self {
            severity: event.severity.as_str(),
            controller: &event.reporting_controller,
            instance: &event.reporting_instance,
            reason: &event.reason,
            note: &event.message,
            object: Object {
                kind: &event.object.kind,
                namespace: &event.object.namespace,
                name: &event.object.name,
            },
        }
    }
}

pub(super) async fn run(app: &App, socket: Box<StreamSocket>, lease: &LeaseId, options: EventOptions) {
    let opening = app.bounded("events", app.cluster.lease_events(lease, options));
    match Box::pin(opening).await {
        Ok(events) => {
            let frames = events.map(|event| match event {
                Ok(event) => Ok(frame(&EventBody::from(&event))),
                Err(error) => Err(ending(&error)),
            });
            socket.send_all(frames, |_| ready(())).await;
        }
        Err(error) => socket.end(ending(&error)).await,
    }
}
