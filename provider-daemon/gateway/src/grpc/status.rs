//! `GetStatus` and `StreamStatus` methods.

use super::Streamed;
use crate::App;
use crate::inventory::{bytes, cluster, cores, pair};
use crate::statistics::StreamKind;
use akash_provider_chain::proto::akash::provider::v1 as wire;
use akash_provider_chain::proto::k8s::io::apimachinery::pkg::api::resource::Quantity;
use akash_provider_core::engine::Status;
use akash_provider_core::engine::status::ReservationStatus;
use akash_provider_core::inventory::Pair;
use futures::{StreamExt, stream};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval at which a stream checks whether the status changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn now(app: &App) -> wire::Status {
    let snapshot = app.status.get().await;
    let mut status = whole(&snapshot.status, app);
    let now = app.clock.now();
    status.timestamp = Some(prost_types::Timestamp {
        seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(now.subsec_nanos()).unwrap_or(0),
    });
    status
}

/// Returns a stream of the current status and of each later change. A new timestamp alone is not a change.
pub(super) fn changes(app: Arc<App>, peer: IpAddr) -> Result<Streamed, tonic::Status> {
    if app.draining.is_cancelled() {
        return Err(tonic::Status::unavailable("the provider is stopping; try again"));
    }
    let refused = |_| {
        app.counters.count_refused_stream(StreamKind::Status);
        tonic::Status::resource_exhausted("too many streams are open; try later")
    };
    // The share of the network first: a network without a free one must not take the last permit, not even for a
    // moment.
    let of_network = app.budgets.status_streams.take(peer).ok_or(()).map_err(refused)?;
    let permit = Arc::clone(&app.status_streams).try_acquire_owned();
    let permit = permit.map_err(|_| refused(()))?;
    let open = app.counters.open_stream(StreamKind::Status);
    let mut ticks = interval(LOOK_EVERY);
    // A slow client misses ticks. Without the delay, a burst of reads of the same status would follow.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = StatusStream {
        app,
        ticks,
        last_sent: None,
    };
    let statuses = stream::unfold(watch, |mut watch| async move {
        let status = watch.next().await?;
        Some((Ok(status), watch))
    });
    // The permits are released with the stream.
    Ok(statuses
        .inspect(move |_| {
            let _held = (&permit, &of_network, &open);
        })
        .boxed())
}

struct StatusStream {
    app: Arc<App>,
    ticks: Interval,
    last_sent: Option<wire::Status>,
}

impl StatusStream {
    async fn next(&mut self) -> Option<wire::Status> {
        loop {
            self.app.draining.run_until_cancelled(self.ticks.tick()).await?;
            let update = now(&self.app).await;
            // Compared without the timestamp, which always differs.
            let timeless = wire::Status {
                timestamp: None,
                ..update.clone()
            };
            if self.last_sent.as_ref() != Some(&timeless) {
                self.last_sent = Some(timeless);
                return Some(update);
            }
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn whole(status: &Status, app: &App) -> wire::Status {
    let about = app.status.info();
    let hostname = Some(about.public_hostname.clone()).filter(|h| !h.is_empty());
    let window = about.reclamation_window.map(|w| prost_types::Duration {
        seconds: i64::try_from(w.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(w.subsec_nanos()).unwrap_or(0),
    });
    let unknown = (!status.inventory_known).then(|| "capacity is not known yet".to_owned());
    wire::Status {
        errors: unknown.into_iter().collect(),
        cluster: Some(wire::ClusterStatus {
            leases: Some(wire::Leases {
                active: count(status.leases.len()),
            }),
            inventory: Some(capacity(status)),
        }),
        bid_engine: Some(wire::BidEngineStatus {
            orders: count(status.orders.len()),
        }),
        manifest: Some(wire::ManifestStatus {
            deployments: count(status.deployments.len()),
        }),
        public_hostnames: hostname.into_iter().collect(),
        timestamp: None,
        reclamation_window: window,
    }
}

fn capacity(status: &Status) -> wire::Inventory {
    let inventory = &status.inventory;
    let ips = inventory.leased_ips.unwrap_or_default();
    let ips = Pair {
        allocatable: u64::from(ips.total),
        available: u64::from(ips.available),
    };
    wire::Inventory {
        cluster: Some(cluster(&inventory.available)),
        reservations: Some(wire::Reservations {
            pending: Some(reserved(&inventory.pending)),
            active: Some(reserved(&inventory.active)),
        }),
        leased_ip: Some(pair(&ips, bytes)),
    }
}

fn reserved(all: &[ReservationStatus]) -> wire::ReservationsMetric {
    let sum = |of: fn(&ReservationStatus) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
    let mut storage: BTreeMap<&String, u64> = BTreeMap::new();
    for (class, size) in all.iter().flat_map(|r| &r.storage) {
        let of_class = storage.entry(class).or_default();
        *of_class = of_class.saturating_add(*size);
    }
    let quantity = |text| Quantity { string: Some(text) };
    let storage = storage.into_iter();
    wire::ReservationsMetric {
        count: count(all.len()),
        resources: Some(wire::ResourcesMetric {
            cpu: Some(quantity(cores(sum(|r| r.cpu)))),
            memory: Some(quantity(bytes(sum(|r| r.memory)))),
            gpu: Some(quantity(bytes(sum(|r| r.gpu)))),
            ephemeral_storage: Some(quantity(bytes(sum(|r| r.storage_ephemeral)))),
            storage: storage
                .map(|(class, size)| (class.clone(), quantity(bytes(size))))
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests;
