//! Examples of every command, in the sections of `examples.txt`. A test parses each example.

use std::str::Lines;

/// Returns the examples of a command. `path` excludes the name of the program.
pub(super) fn examples(path: &str) -> Option<Lines<'static>> {
    sections().find_map(|(name, lines)| (name == path).then_some(lines))
}

/// Returns the path and the examples of each command.
pub(super) fn sections() -> impl Iterator<Item = (&'static str, Lines<'static>)> {
    include_str!("examples.txt").split("\n\n").filter_map(|section| {
        let (path, lines) = section.strip_prefix('[')?.split_once("]\n")?;
        Some((path, lines.lines()))
    })
}
