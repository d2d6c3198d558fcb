//! Content of a flight recording of an engine, without the secrets of manifests.
//!
//! The engine is pure, so its initial state and all later inputs reproduce every decision. A [`Recorder`]
//! receives the state and the inputs, and stores them. The provider does not wait for the recorder.
//!
//! ```
//! use akash_provider_core::engine::{Effect, Engine, Input, Leadership};
//! use akash_provider_core::{Config, record};
//! # use akash_provider_core::types::Now;
//! # let account = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
//! let mut engine = Engine::new(Config::new(account, "akashnet-2")).unwrap();
//! let mut again = engine.clone();
//! let input = Input::Leadership(Leadership::Standby);
//! let effects = engine.step(Now::default(), input.clone());
//! let same = again.step(Now::default(), input);
//! assert_eq!(record::digest(&effects, None), record::digest(&same, None));
//! ```

use crate::cluster::WorkloadSpec;
use crate::engine::{Call, Completion, Effect, Engine, Input, Request};
use crate::manifest::{Credentials, Group, Manifest, Service};
use crate::types::Now;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Records the inputs and effects of an engine.
///
/// Both methods are called within a step and must not block.
pub trait Recorder: fmt::Debug + Send {
    /// Called before the engine processes `input`. With `None`, the engine processes expired deadlines.
    fn record_input(&mut self, engine: &Engine, now: Now, input: Option<&Input>);

    /// Called with the effects of a step, before any of these effects is executed.
    fn record_effects(&mut self, effects: &[Effect]);
}

/// Function that replaces a secret with another text. Equal secrets must get the same text. Different secrets
/// must get different texts.
pub type Cover<'a> = dyn Fn(&str) -> String + 'a;

/// Replaces the secrets of manifests in an input: values of environment variables, commands and their
/// arguments, and registry logins. The hosts of registries are not replaced.
pub fn hide_in_input(input: &mut Input, cover: &Cover<'_>) {
    match input {
        Input::Request(_, Request::SubmitManifest { manifest, .. }) => hide_in_manifest(manifest, cover),
        Input::Completed(_, Completion::Workloads(Ok(workloads))) => {
            for deployment in &mut workloads.listing.deployments {
                hide_in_group(&mut deployment.group, cover);
            }
        }
        Input::Chain(_)
        | Input::Cluster(_)
        | Input::Inventory(_)
        | Input::Completed(..)
        | Input::Request(..)
        | Input::Leadership(_)
        | Input::HoldBids(_)
        | Input::Kept(_)
        | Input::PricesChanged
        | Input::Shutdown => {}
    }
}

/// Replaces all secrets in the state of an engine. Later decisions are the same as if the secrets in all
/// earlier inputs had been replaced.
pub fn hide_in_engine(engine: &mut Engine, cover: &Cover<'_>) {
    engine.hide(cover);
}

/// Returns a digest of the effects of a step. All builds of one version return the same digest for equal
/// effects. With `cover`, secrets are replaced before the digest is computed.
#[must_use]
pub fn digest(effects: &[Effect], cover: Option<&Cover<'_>>) -> u64 {
    // Always with the same keys, because digests of different processes are compared.
    let mut hasher = DefaultHasher::new();
    for effect in effects {
        match cover.and_then(|cover| covered(effect, cover)) {
            Some(effect) => effect.hash(&mut hasher),
            None => effect.hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// Returns a copy of an effect with replaced secrets. Returns `None` if the effect contains no secrets.
fn covered(effect: &Effect, cover: &Cover<'_>) -> Option<Effect> {
    match effect {
        // Only these two effects contain a manifest, so all others are not copied.
        Effect::Call(id, call @ (Call::Record(_) | Call::Deploy { .. })) => {
            let mut call = call.clone();
            hide_in_call(&mut call, cover).then_some(Effect::Call(*id, call))
        }
        Effect::Call(..) | Effect::Publish(_) | Effect::Reply(..) => None,
    }
}

/// Replaces the secrets of a call. Returns whether the call contains a manifest.
pub(crate) fn hide_in_call(call: &mut Call, cover: &Cover<'_>) -> bool {
    match call {
        Call::Record(spec) | Call::Deploy { deployment: spec, .. } => {
            hide_in_spec(spec, cover);
            true
        }
        Call::FetchOrder(_)
        | Call::CountBids(_)
        | Call::FetchProvider
        | Call::FetchBalances(_)
        | Call::FetchAudit(_)
        | Call::FetchBid(_)
        | Call::FetchLease(_)
        | Call::FetchDeployment(_)
        | Call::FetchSnapshot
        | Call::CalculatePrice(_)
        | Call::Broadcast(_)
        | Call::Teardown(_)
        | Call::ListWorkloads => false,
    }
}

pub(crate) fn hide_in_spec(spec: &mut Arc<WorkloadSpec>, cover: &Cover<'_>) {
    hide_in_group(&mut Arc::make_mut(spec).group, cover);
}

pub(crate) fn hide_in_group(group: &mut Arc<Group>, cover: &Cover<'_>) {
    for service in &mut Arc::make_mut(group).services {
        hide_in_service(service, cover);
    }
}

pub(crate) fn hide_in_manifest(manifest: &mut Arc<Manifest>, cover: &Cover<'_>) {
    let groups = &mut Arc::make_mut(manifest).groups;
    for service in groups.iter_mut().flat_map(|group| &mut group.services) {
        hide_in_service(service, cover);
    }
}

fn hide_in_service(service: &mut Service, cover: &Cover<'_>) {
    let words = [&mut service.command, &mut service.args];
    for word in words.into_iter().flatten().flatten() {
        hide(word, cover);
    }
    for line in service.env.iter_mut().flatten() {
        match line.split_once('=') {
            Some((name, value)) if !value.is_empty() => *line = format!("{name}={}", cover(value)),
            Some(_) => {}
            None => hide(line, cover),
        }
    }
    let beside = service
        .params
        .as_mut()
        .and_then(|params| params.credentials.as_mut());
    for login in service.credentials.iter_mut().chain(beside) {
        hide_in_login(login, cover);
    }
}

fn hide_in_login(login: &mut Credentials, cover: &Cover<'_>) {
    for text in [&mut login.email, &mut login.username, &mut login.password] {
        hide(text, cover);
    }
}

/// Replaces one secret. An empty text is not a secret and is not replaced.
fn hide(text: &mut String, cover: &Cover<'_>) {
    if !text.is_empty() {
        *text = cover(text);
    }
}

#[cfg(test)]
mod tests;
