//! Conversion of deployments to Kubernetes objects and records, and back: rules, network flows and refusals.

mod any;
mod evaluate;
mod flows;
mod record;
mod refusals;
mod rules;
mod sdl;
