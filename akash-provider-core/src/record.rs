//! What a flight recorder takes down of an engine, and what it must not: the secrets of manifests.
//!
//! The engine is pure, so whoever has its state and every input since then can make the same decisions again. A
//! [`Recorder`] is given both. Writing them somewhere is its own affair; it does so beside the provider, which does not
//! wait for it.
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

/// Takes down what an engine is given and what comes of it.
///
/// Both methods are called within the step, so they must not wait: whatever takes time is for another thread.
pub trait Recorder: fmt::Debug + Send {
    /// The engine, as it is, is about to take this; `None` where only its deadlines pass.
    fn takes(&mut self, engine: &Engine, now: Now, input: Option<&Input>);

    /// What came of it, before any of it is carried out.
    fn made(&mut self, effects: &[Effect]);
}

/// Puts another text in the place of a secret: the same for the same, and another for every other. The engine compares
/// secrets and does nothing else with them, so it decides the same.
pub type Cover<'a> = dyn Fn(&str) -> String + 'a;

/// Covers what manifests in an input keep secret: values of the environment, commands and their arguments, and logins at
/// registries but for the host.
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

/// The same in all that an engine remembers. It decides as one that was given covered inputs from its start.
pub fn hide_in_engine(engine: &mut Engine, cover: &Cover<'_>) {
    engine.hide(cover);
}

/// A number for the effects of a step, the same for the same effects in builds of one version. With a `cover` it is that
/// of the effects an engine has that knows no secrets.
#[must_use]
pub fn digest(effects: &[Effect], cover: Option<&Cover<'_>>) -> u64 {
    // Always with the same keys: a digest is compared with one of another process.
    let mut hasher = DefaultHasher::new();
    for effect in effects {
        match cover.and_then(|cover| covered(effect, cover)) {
            Some(effect) => effect.hash(&mut hasher),
            None => effect.hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// An effect without its secrets; `None` where it has none.
fn covered(effect: &Effect, cover: &Cover<'_>) -> Option<Effect> {
    match effect {
        // The two that have a manifest: all others are not copied.
        Effect::Call(id, call @ (Call::Record(_) | Call::Deploy { .. })) => {
            let mut call = call.clone();
            hide_in_call(&mut call, cover).then_some(Effect::Call(*id, call))
        }
        Effect::Call(..) | Effect::Publish(_) | Effect::Reply(..) => None,
    }
}

/// True where there was a manifest in it.
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

/// Where nothing is, nothing is to be hidden, and an empty text stays what it was.
fn hide(text: &mut String, cover: &Cover<'_>) {
    if !text.is_empty() {
        *text = cover(text);
    }
}

#[cfg(test)]
mod tests;
