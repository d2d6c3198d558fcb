//! From deployments to Kubernetes objects and records: rules, flows, refusals, and what is read back.

mod any;
mod evaluate;
mod flows;
mod record;
mod refusals;
mod rules;
mod sdl;
