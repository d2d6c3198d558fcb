//! Output of `dev` and `run`: one line per event, as text or JSON.

mod event_text;
mod explanation;

use akash_provider_cli::flags::Output;
use akash_provider_cli::output::say;
use akash_provider_cli::output::say_styled;
use akash_provider_cli::plain;
use akash_provider_core::bus::{Bus, Delivery, EventStream, LocalBus};
use akash_provider_core::cluster::Health;
use akash_provider_core::types::{DeploymentId, Event, LeaseId, Topic};
use anstyle::Style;
pub use explanation::explanation_text;

use event_text::{EventLine, line, short, style};
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Maximum number of deployments with a stored start time.
const ORDERS_MAX: usize = 10_000;
/// Maximum number of leases in `settled`. If `settled` is full, all health changes are printed.
const SETTLED_MAX: usize = 20_000;
/// Age of a deployment after which its stored start time can be removed.
const ORDER_AGE_MAX: Duration = Duration::from_secs(600);

/// Returns the text of an event; `None` for events without text.
pub(crate) fn text_of(event: &Event) -> Option<String> {
    line(event).map(|line| format!("{}: {}", line.what, line.detail))
}

/// Printer of the provider's events and of the tenants' actions.
#[derive(Debug)]
pub struct Printer {
    output: Output,
    started: Instant,
    clock: Clock,
    names: Mutex<BTreeMap<DeploymentId, (String, Instant)>>,
    /// Open leases that are healthy with their latest manifest. An unhealthy state is printed only for these
    /// leases.
    settled: Mutex<BTreeSet<LeaseId>>,
}

/// Time at the start of each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// Seconds since the first order of the deployment. Before this order, seconds since the start of the
    /// process.
    Elapsed,
    /// Time of day in UTC, for logs. The lines contain full IDs.
    Wall,
}

impl Printer {
    /// Creates a printer that starts each line with the elapsed time in seconds.
    #[must_use]
    pub fn new(output: Output) -> Self {
        Self {
            output,
            started: Instant::now(),
            clock: Clock::Elapsed,
            names: Mutex::default(),
            settled: Mutex::default(),
        }
    }

    /// Creates a printer that starts each line with the time of day in UTC.
    #[must_use]
    pub fn with_wall_clock(output: Output) -> Self {
        Self {
            clock: Clock::Wall,
            ..Self::new(output)
        }
    }

    /// Sets the name of a deployment. The elapsed time of the deployment starts now.
    pub fn name(&self, id: &DeploymentId, name: &str) {
        if let Ok(mut names) = self.names.lock() {
            names.insert(id.clone(), (name.to_owned(), Instant::now()));
        }
    }

    /// Prints an event of the provider.
    pub fn event(&self, event: &Event) {
        let Some(line) = line(event) else { return };
        if let Event::OrderSeen { order } = event {
            self.ordered(order.deployment());
        }
        let is_printed = self.is_printed(event);
        if is_printed || !self.is_text() {
            let body = serde_json::to_value(event).unwrap_or(Value::Null);
            self.print(&line, style(event), body);
        }
        if let Event::LeaseClosed { lease, .. } = event {
            self.remove(lease.deployment());
            if let Ok(mut settled) = self.settled.lock() {
                settled.remove(lease);
            }
        }
    }

    fn ordered(&self, id: &DeploymentId) {
        if let Ok(mut names) = self.names.lock()
            && self.make_space(&mut names)
        {
            let name = || (self.unnamed(id), Instant::now());
            names.entry(id.clone()).or_insert_with(name);
        }
    }

    /// Removes old entries from a full map. Returns true if the map has space for a new entry.
    fn make_space(&self, names: &mut BTreeMap<DeploymentId, (String, Instant)>) -> bool {
        if self.clock == Clock::Wall && names.len() >= ORDERS_MAX {
            names.retain(|_, (_, since)| since.elapsed() < ORDER_AGE_MAX);
        }
        names.len() < ORDERS_MAX
    }

    fn remove(&self, id: &DeploymentId) {
        if self.clock == Clock::Wall
            && let Ok(mut names) = self.names.lock()
        {
            names.remove(id);
        }
    }

    fn unnamed(&self, id: &DeploymentId) -> String {
        match self.clock {
            Clock::Elapsed => short(id),
            Clock::Wall => id.to_string(),
        }
    }

    /// Returns true if an event is printed. The unhealthy state of a starting or closing workload is not
    /// printed.
    fn is_printed(&self, event: &Event) -> bool {
        match event {
            Event::ManifestReceived { deployment, .. } => self.unsettle(deployment),
            Event::HealthChanged {
                lease,
                health: Health::Good,
            } => {
                if let Ok(mut settled) = self.settled.lock()
                    && settled.len() < SETTLED_MAX
                {
                    settled.insert(lease.clone());
                }
            }
            Event::HealthChanged { lease, .. } => {
                let Ok(mut settled) = self.settled.lock() else {
                    return false;
                };
                return settled.remove(lease) || settled.len() >= SETTLED_MAX;
            }
            // The tenants of `dev` print their rejections themselves.
            Event::ManifestRefused { .. } => return self.clock == Clock::Wall,
            // All other events are printed.
            _ => {}
        }
        true
    }

    fn unsettle(&self, id: &DeploymentId) {
        if let Ok(mut settled) = self.settled.lock() {
            settled.retain(|lease| lease.deployment() != id);
        }
    }

    /// Prints that a tenant closes its deployment.
    pub fn closing(&self, id: &DeploymentId) {
        self.unsettle(id);
        self.tenant(id, "closed", "by the tenant");
    }

    /// Prints an action of a tenant.
    pub fn tenant(&self, id: &DeploymentId, what: &'static str, detail: &str) {
        let line = EventLine {
            deployment: id.clone(),
            what,
            detail: detail.to_owned(),
        };
        let body = json!({ "event": what.replace(' ', "_"), "detail": detail });
        self.print(&line, Style::new(), body);
    }

    /// Prints a line that belongs to no deployment.
    pub fn note(&self, text: &str) {
        match self.output {
            Output::Text if self.clock == Clock::Wall => say(&format!("{}  {text}\n", now())),
            Output::Text => say(&format!("{text}\n")),
            Output::Json => self.object(json!({ "event": "note", "text": text })),
        }
    }

    /// Prints a JSON object; nothing in text mode.
    pub fn object(&self, mut value: Value) {
        if self.output == Output::Json {
            self.stamp(&mut value);
            say(&format!("{value}\n"));
        }
    }

    fn stamp(&self, value: &mut Value) {
        let Some(object) = value.as_object_mut() else {
            return;
        };
        object.insert("at_ms".to_owned(), json!(self.at_ms()));
        if self.clock == Clock::Wall {
            object.insert("at".to_owned(), json!(now()));
        }
    }

    /// Returns whether the output is text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.output == Output::Text
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn print(&self, line: &EventLine, style: Style, mut body: Value) {
        let id = &line.deployment;
        let named = self.names.lock().ok().and_then(|names| names.get(id).cloned());
        let (name, since) = match named {
            Some((name, since)) => (name, Some(since.elapsed())),
            None => (self.unnamed(id), None),
        };
        match self.output {
            Output::Text => {
                let when = self.when(since);
                let (name, detail) = (plain::line(&name), plain::line(&line.detail));
                let rest = format!("{:<17} {detail}", line.what);
                say_styled(&format!("{when}  {name:<22} "), style, rest.trim_end());
            }
            Output::Json => {
                self.stamp(&mut body);
                if let Some(object) = body.as_object_mut() {
                    // The order time of an earlier deployment is unknown.
                    let since = since.map(|since| since.as_millis() as u64);
                    object.insert("since_order_ms".to_owned(), json!(since));
                    object.insert("name".to_owned(), json!(name));
                    object.insert("deployment".to_owned(), json!(id.to_string()));
                }
                say(&format!("{body}\n"));
            }
        }
    }

    fn when(&self, since_order: Option<Duration>) -> String {
        match self.clock {
            Clock::Elapsed => {
                let since = since_order.unwrap_or_else(|| self.started.elapsed());
                format!("{:>8.2}s", since.as_secs_f64())
            }
            Clock::Wall => now(),
        }
    }
}

/// Returns the time of day in UTC.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Prints the events of the provider as they arrive.
///
/// # Errors
/// Returns an error if the bus has too many subscribers.
pub async fn print_facts(
    bus: &LocalBus,
    printer: &Arc<Printer>,
    background: &CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let facts = bus.subscribe(&[Topic::Facts]).await?;
    Ok(tokio::spawn(follow_facts(
        facts,
        Arc::clone(printer),
        background.clone(),
    )))
}

/// Prints the events of an existing subscription.
pub(crate) async fn follow_facts(
    mut facts: EventStream,
    printer: Arc<Printer>,
    background: CancellationToken,
) {
    loop {
        let delivery = tokio::select! {
            biased;
            // Events have priority over the end, so that the last lines are printed.
            delivery = facts.next() => delivery,
            () = background.cancelled() => None,
        };
        match delivery {
            Some(Delivery::Event { event, .. }) => printer.event(&event),
            Some(Delivery::Lagged(lost)) => {
                let lost = lost.map_or_else(|| "some".to_owned(), |lost| lost.to_string());
                printer.note(&format!("{lost} events skipped: too many at once"));
            }
            None => return,
        }
    }
}

#[cfg(test)]
mod tests;
