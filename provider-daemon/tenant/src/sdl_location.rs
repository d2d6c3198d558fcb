//! Location in an SDL that a provider's rejection refers to: the line of a service or a group.
//!
//! A line is found only if the key is on a line of its own. Other notations have no location, because a wrong line is
//! worse than no line.

use akash_provider_core::manifest::Manifest;

/// YAML keys above the services of an SDL.
const SERVICES: &[&str] = &["services"];
/// YAML keys above the groups of an SDL.
const GROUPS: &[&str] = &["profiles", "placement"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SdlLocation {
    /// Line number, from 1.
    pub(super) line: usize,
    /// Description of the service or group, such as ``service `web` ``.
    pub(super) description: String,
}

/// Returns the SDL location of the first service with its name in the rejection `reason`. Without such a
/// service, returns the location of the first group with its name in `reason`.
pub(super) fn find(reason: &str, sdl: &str, manifest: &Manifest) -> Option<SdlLocation> {
    let services = manifest.groups.iter().flat_map(|group| {
        let of_group = group.services.iter();
        of_group.map(|service| (group.name.as_str(), service.name.as_str()))
    });
    let is_named = |(group, service): &(&str, &str)| {
        contains_name(reason, &format!("{group}.{service}")) || names(reason, "service", service)
    };
    let location = |kind: &str, name: &str, below: &[&str]| {
        Some(SdlLocation {
            line: line_of(sdl, below, name)?,
            description: format!("{kind} `{name}`"),
        })
    };
    if let Some((_, service)) = services.into_iter().find(is_named) {
        return location("service", service, SERVICES);
    }
    let mut groups = manifest.groups.iter().map(|group| group.name.as_str());
    let group = groups.find(|name| reason.contains(&format!(": {name}:")) || names(reason, "group", name))?;
    location("group", group, GROUPS)
}

/// Returns true if `reason` contains the kind before the name, such as `service "web"`. The name alone could
/// mean another object.
fn names(reason: &str, kind: &str, name: &str) -> bool {
    let quoted = ['"', '`', '\''].map(|quote| format!("{kind} {quote}{name}{quote}"));
    quoted.iter().any(|text| reason.contains(text)) || contains_name(reason, &format!("{kind} {name}"))
}

/// Returns whether `reason` contains `text` as a whole name.
fn contains_name(reason: &str, text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    reason.match_indices(text).any(|(at, _)| {
        let before = reason.get(..at).and_then(|part| part.chars().next_back());
        let after = reason.get(at + text.len()..).and_then(|part| part.chars().next());
        // A name after a dot is part of a longer path.
        !before.is_some_and(|c| is_of_name(c) || c == '.') && !after.is_some_and(is_of_name)
    })
}

/// Returns the line number, from 1, of the key `name` under the keys `below` in the first YAML document.
fn line_of(sdl: &str, below: &[&str], name: &str) -> Option<usize> {
    let wanted: Vec<&str> = below.iter().copied().chain([name]).collect();
    // Indentation of the parent keys found until now.
    let mut found: Vec<usize> = Vec::new();
    let mut level: Option<usize> = Some(0);
    for (number, line) in (1..).zip(sdl.lines()) {
        let text = line.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let indent = line.len() - text.len();
        if indent == 0 && (text.starts_with("---") || text.starts_with("...")) {
            match found.is_empty() && text.starts_with("---") {
                true => continue,
                false => return None,
            }
        }
        // The block of the parent key has ended. Further keys with this name belong to other blocks.
        if found.last().is_some_and(|parent| indent <= *parent) {
            return None;
        }
        let expected = *level.get_or_insert(indent);
        if indent != expected || !is_key(text, wanted.get(found.len())?) {
            continue;
        }
        if found.len() + 1 == wanted.len() {
            return Some(number);
        }
        found.push(indent);
        level = None;
    }
    None
}

fn is_key(text: &str, name: &str) -> bool {
    let rest = text.strip_prefix(name).or_else(|| {
        let mut quotes = ['"', '\''].into_iter();
        quotes.find_map(|quote| text.strip_prefix(&format!("{quote}{name}{quote}")))
    });
    let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(':'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDL: &str = r#"---
# services:
version: "2.0"
services: &all
  db:
    image: nginx
    env:
      - |
        A=1
        web: 1
    expose:
      - port: 80
        to: [{global: true}]
  "web" : # in front
    image: nginx
    expose: [{port: 80, to: [{global: true}]}]
profiles:
  compute:
    small: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 512Mi}}}
  placement:
    east:
      pricing: {small: {denom: uact, amount: 50}}
deployment:
  db: {east: {profile: small, count: 1}}
  web: {east: {profile: small, count: 1}}
"#;

    fn place(reason: &str, sdl: &str) -> Option<(usize, String)> {
        let manifest = akash_provider_core::sdl::parse(sdl).unwrap().manifest;
        find(reason, sdl, &manifest).map(|place| (place.line, place.description))
    }

    #[test]
    fn finds_the_line_of_a_named_service_or_group() {
        let web = || Some((14, "service `web`".to_owned()));
        for reason in [
            "manifest cross-validation error: east.web: the CPU of the service differs from resource unit 1",
            "invalid manifest: east.web.expose[0]: the port is 0",
            "service \"web\" exposed on 80:TCP must have a hostname",
            "group \"east\": service `web` is odd",
            "service web: no",
        ] {
            assert_eq!(place(reason, SDL), web(), "{reason}");
        }
        let east = || Some((21, "group `east`".to_owned()));
        for reason in [
            "manifest cross-validation error: east: 1 replicas of resource unit 1 are unused",
            "group \"east\" is underutilized",
        ] {
            assert_eq!(place(reason, SDL), east(), "{reason}");
        }
        assert_eq!(place("service db", SDL), Some((5, "service `db`".to_owned())));
    }

    #[test]
    fn finds_nothing_without_a_name_or_a_line() {
        for reason in [
            "manifest version validation failed",
            "the web is large",
            "service \"webs\" is odd",
            "service web-2: no",
            "northeast.web: no",
            "north.east.web: no",
            "",
        ] {
            assert_eq!(place(reason, SDL), None, "{reason}");
        }
        let in_braces = SDL.replace(
            "  \"web\" : # in front\n    image: nginx\n    expose: [{port: 80, to: [{global: true}]}]\n",
            "  ? web\n  : {image: nginx, expose: [{port: 80, to: [{global: true}]}]}\n",
        );
        assert_ne!(in_braces, SDL);
        assert_eq!(place("service web", &in_braces), None);
        // A second document is ignored.
        let second = format!("{in_braces}---\nservices:\n  web: {{}}\n");
        assert_eq!(place("service web", &second), None);
    }
}
