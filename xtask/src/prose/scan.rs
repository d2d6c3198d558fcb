//! Finds the prose of a file and the listed words in it.

use anyhow::{Result, bail};
use std::path::Path;

/// Prose of one line, without code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProseLine {
    pub(super) number: usize,
    pub(super) prose: String,
}

/// Prose of a file: Markdown without code, or Rust comments and string literals.
#[derive(Debug)]
pub(super) struct ProseLines(std::vec::IntoIter<ProseLine>);

impl ProseLines {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        let lines = if path.extension().is_some_and(|end| end == "md") {
            markdown(text)
        } else {
            rust(text)
        };
        Self(lines.into_iter())
    }
}

impl Iterator for ProseLines {
    type Item = ProseLine;

    fn next(&mut self) -> Option<ProseLine> {
        self.0.next()
    }
}

/// Terms to avoid, with their replacements.
#[derive(Debug)]
pub(super) struct List(Vec<(Vec<String>, String)>);

impl List {
    /// Reads the tables `| avoid | write |` of the guide, with words in backticks in the first column.
    ///
    /// # Errors
    ///
    /// Fails if the guide has no table with this header.
    pub(super) fn from_guide(guide: &str) -> Result<Self> {
        let mut list = Vec::new();
        let mut is_listed = false;
        for line in guide.lines() {
            let Some(row) = line.strip_prefix('|') else {
                is_listed = false;
                continue;
            };
            let mut columns = row.split('|').map(str::trim);
            let (avoid, better) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
            if (avoid, better) == ("avoid", "write") {
                is_listed = true;
            } else if is_listed {
                let words = avoid.split('`').skip(1).step_by(2);
                list.extend(words.map(|word| (split(word), better.to_owned())));
            }
        }
        if list.is_empty() {
            bail!("the writing guide has no table with the header `| avoid | write |`");
        }
        Ok(Self(list))
    }

    /// Returns every listed term in `prose`, with its replacement.
    pub(super) fn find<'a>(&'a self, prose: &str) -> impl Iterator<Item = (String, &'a str)> + use<'a> {
        let words = split(prose);
        let at = move |place: usize| {
            let here = &words[place..];
            self.0
                .iter()
                .find(|(listed, _)| here.starts_with(listed))
                .map(|(listed, better)| (listed.join(" "), better.as_str()))
        };
        let count = split(prose).len();
        (0..count).filter_map(at)
    }
}

/// Returns the number of words with at least two letters.
pub(super) fn count_words(prose: &str) -> usize {
    split(prose).iter().filter(|word| word.len() > 1).count()
}

fn split(prose: &str) -> Vec<String> {
    prose
        .split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

fn markdown(text: &str) -> Vec<ProseLine> {
    let mut lines = Vec::new();
    for (index, line) in unfenced(text) {
        push(&mut lines, index + 1, line);
    }
    lines
}

/// Returns the lines outside of code blocks, with their index.
pub(crate) fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    })
}

/// Returns the comments of Rust source, and the string literals that contain a space.
fn rust(text: &str) -> Vec<ProseLine> {
    let mut lines = Vec::new();
    let mut rest = text;
    let mut number = 1;
    while let Some(place) = rest.find(['"', '/', '\'']) {
        number += count_lines(&rest[..place]);
        let from = &rest[place..];
        let token = if from.starts_with("//") {
            from.find('\n').unwrap_or(from.len())
        } else if from.starts_with('"') {
            string_length(&rest[..place], from)
        } else if from.starts_with('\'') {
            char_length(from)
        } else {
            1
        };
        let (taken, after) = from.split_at(token);
        if taken.starts_with("//") || (taken.starts_with('"') && taken.contains(' ')) {
            for (index, line) in taken.lines().enumerate() {
                push(&mut lines, number + index, line);
            }
        }
        number += count_lines(taken);
        rest = after;
    }
    lines
}

fn push(lines: &mut Vec<ProseLine>, number: usize, text: &str) {
    let prose = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    if prose.contains(|c: char| c.is_ascii_alphabetic()) {
        lines.push(ProseLine { number, prose });
    }
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the length of the string literal at the start of `from`, in bytes. `before` is the text before the
/// literal, including the `r#` of a raw string.
fn string_length(before: &str, from: &str) -> usize {
    let hashes = before.len() - before.trim_end_matches('#').len();
    if before.trim_end_matches('#').ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return from[1..]
            .find(&end)
            .map_or(from.len(), |place| 1 + place + end.len());
    }
    let mut is_escaped = false;
    for (place, byte) in from.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return place + 1,
            _ => {}
        }
    }
    from.len()
}

/// Returns the length in bytes of the character literal at the start of `from`; 1 for a lifetime.
fn char_length(from: &str) -> usize {
    let mut chars = from.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => from[2..]
            .find('\'')
            .map_or(1, |place| if place == 0 { 4.min(from.len()) } else { place + 3 }),
        Some(_) => match chars.next() {
            Some((place, '\'')) => place + 1,
            _ => 1,
        },
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose_of(path: &str, text: &str) -> Vec<(usize, String)> {
        let line = |line: ProseLine| (line.number, line.prose.trim().to_owned());
        ProseLines::new(Path::new(path), text).map(line).collect()
    }

    fn list() -> List {
        List::from_guide("| avoid | write |\n|---|---|\n| `told`, `so long` | reported |\n\n| `code` | x |\n")
            .unwrap()
    }

    #[test]
    fn markdown_counts_outside_of_code() {
        let text = "Now `told` here\n```sh\ntold\n```\nafter\n";
        assert_eq!(
            prose_of("a.md", text),
            [(1, "Now   here".into()), (5, "after".into())]
        );
    }

    #[test]
    fn rust_counts_comments_and_strings_with_spaces() {
        let text = "/// One.\nfn f<'a>() { let c = '\"'; g(\"two words\", \"one\"); }\nlet r = r#\"raw \" text\nhere\"#; // Last.\n\
                    let u = \"http://a b\"; let q = '\\''; let n = '\\n';\n// End.";
        let found = prose_of("a.rs", text);
        let expected = [
            (1, "/// One."),
            (2, "\"two words\""),
            (3, "\"raw \" text"),
            (4, "here\"#"),
            (4, "// Last."),
            (5, "\"http://a b\""),
            (6, "// End."),
        ];
        assert_eq!(found, expected.map(|(number, text)| (number, text.to_owned())));
    }

    #[test]
    fn listed_words_are_found_with_their_replacement() {
        let list = list();
        let found: Vec<_> = list.find("It was Told so long ago, untold code").collect();
        assert_eq!(
            found,
            [
                ("told".to_owned(), "reported"),
                ("so long".to_owned(), "reported")
            ]
        );
    }

    #[test]
    fn guide_without_a_table_is_an_error() {
        assert!(List::from_guide("| write | not |\n|---|---|\n| a | `b` |\n").is_err());
    }
}
