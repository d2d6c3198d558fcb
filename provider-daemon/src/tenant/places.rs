//! Where an SDL speaks of what a provider refuses: the line of the service or the group that its words name.
//!
//! Lines are found where an SDL is written as most are, a name on a line of its own. One in braces has no line here,
//! and a refusal stands without one: a wrong line is worse than none.

use akash_provider_core::manifest::Manifest;

/// Where services stand in an SDL, key below key.
const SERVICES: &[&str] = &["services"];
/// Where groups stand in an SDL, key below key.
const GROUPS: &[&str] = &["profiles", "placement"];

/// What a refusal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Line of the SDL, counted from 1.
    pub(super) line: usize,
    /// For people, such as ``service `web` ``.
    pub(super) what: String,
}

/// The place that a provider's words name first: a service before its group.
pub(super) fn of_refusal(words: &str, sdl: &str, manifest: &Manifest) -> Option<Place> {
    let services = manifest.groups.iter().flat_map(|group| {
        let of_group = group.services.iter();
        of_group.map(|service| (group.name.as_str(), service.name.as_str()))
    });
    let is_named = |(group, service): &(&str, &str)| {
        has(words, &format!("{group}.{service}")) || is_called(words, "service", service)
    };
    let place = |kind: &str, name: &str, below: &[&str]| {
        Some(Place {
            line: line_of(sdl, below, name)?,
            what: format!("{kind} `{name}`"),
        })
    };
    if let Some((_, service)) = services.into_iter().find(is_named) {
        return place("service", service, SERVICES);
    }
    let mut groups = manifest.groups.iter().map(|group| group.name.as_str());
    let group =
        groups.find(|name| words.contains(&format!(": {name}:")) || is_called(words, "group", name))?;
    place("group", group, GROUPS)
}

/// ``service "web"``, `service web`: a name alone may be any word.
fn is_called(words: &str, kind: &str, name: &str) -> bool {
    let quoted = ['"', '`', '\''].map(|quote| format!("{kind} {quote}{name}{quote}"));
    quoted.iter().any(|text| words.contains(text)) || has(words, &format!("{kind} {name}"))
}

/// True where a text stands for itself, and is no part of a longer name.
fn has(words: &str, text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    words.match_indices(text).any(|(at, _)| {
        let before = words.get(..at).and_then(|part| part.chars().next_back());
        let after = words.get(at + text.len()..).and_then(|part| part.chars().next());
        // Behind a dot it is the end of a longer path, and so another thing.
        !before.is_some_and(|c| is_of_name(c) || c == '.') && !after.is_some_and(is_of_name)
    })
}

/// The line of a key below others, in the first document; from 1.
fn line_of(sdl: &str, below: &[&str], name: &str) -> Option<usize> {
    let wanted: Vec<&str> = below.iter().copied().chain([name]).collect();
    // Indents of the keys that led here, and how deep the next one stands.
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
        // The parent's block is over. A key of this name further down is another one.
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

    fn place(words: &str, sdl: &str) -> Option<(usize, String)> {
        let manifest = akash_provider_core::sdl::parse(sdl).unwrap().manifest;
        of_refusal(words, sdl, &manifest).map(|place| (place.line, place.what))
    }

    #[test]
    fn what_a_refusal_names_has_its_line() {
        let web = || Some((14, "service `web`".to_owned()));
        for words in [
            "manifest cross-validation error: east.web: its CPU differs from resource unit 1",
            "invalid manifest: east.web.expose[0]: the port is 0",
            "service \"web\" exposed on 80:TCP must have a hostname",
            "group \"east\": service `web` is odd",
            "service web: no",
        ] {
            assert_eq!(place(words, SDL), web(), "{words}");
        }
        let east = || Some((21, "group `east`".to_owned()));
        for words in [
            "manifest cross-validation error: east: 1 replicas of resource unit 1 are unused",
            "group \"east\" is underutilized",
        ] {
            assert_eq!(place(words, SDL), east(), "{words}");
        }
        assert_eq!(place("service db", SDL), Some((5, "service `db`".to_owned())));
    }

    #[test]
    fn nothing_is_pointed_at_without_a_name_and_a_line() {
        for words in [
            "manifest version validation failed",
            "the web is large",
            "service \"webs\" is odd",
            "service web-2: no",
            "northeast.web: no",
            "north.east.web: no",
            "",
        ] {
            assert_eq!(place(words, SDL), None, "{words}");
        }
        let in_braces = SDL.replace(
            "  \"web\" : # in front\n    image: nginx\n    expose: [{port: 80, to: [{global: true}]}]\n",
            "  ? web\n  : {image: nginx, expose: [{port: 80, to: [{global: true}]}]}\n",
        );
        assert_ne!(in_braces, SDL);
        assert_eq!(place("service web", &in_braces), None);
        // Another document further down is not read.
        let second = format!("{in_braces}---\nservices:\n  web: {{}}\n");
        assert_eq!(place("service web", &second), None);
    }
}
