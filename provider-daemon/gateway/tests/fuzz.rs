//! Random mutation of untrusted input: a panic is a failure, and its input is saved. The mutations are not
//! guided by coverage, so the corpus must contain an example of each kind of input.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `FUZZ_SECONDS` | duration of each target, in seconds | 8 |
//! | `FUZZ_SEED` | seed of the mutations | 1 |

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing test panics")]

use akash_provider_gateway::fuzzing::TARGETS;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

const CORPORA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus");
/// Maximum length of an input, in bytes.
const BYTES_MAX: usize = 64 * 1024;
const INPUTS_MAX: usize = 64;
/// Maximum number of random changes to one input.
const CHANGES_MAX: u64 = 6;
/// Byte sequences with a special meaning in one of the parsed formats.
const TELLING: [&[u8]; 24] = [
    b"",
    b"\0",
    b"\xff",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b".",
    b"&",
    b"=",
    b"%",
    b"+",
    b"-1",
    b"0x",
    b"null",
    b"18446744073709551616",
    b"1e309",
    b"\\u0000",
    b"\xed\xa0\x80",
    b"\x80\x80\x80\x80",
    b"\x7f\xff\xff\xff",
    b"cmd0=",
];

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| {
        text.parse::<u64>()
            .unwrap_or_else(|e| panic!("{name}={text}: {e}"))
    })
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(Path::new(CORPORA).join(name)).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    let inputs: Vec<Vec<u8>> = paths.iter().map(|p| std::fs::read(p).unwrap()).collect();
    assert!(
        !inputs.is_empty() && inputs.len() <= INPUTS_MAX,
        "{name}: {} inputs",
        inputs.len()
    );
    inputs
}

/// Random changes, reproducible by seed.
struct Changes(ChaCha8Rng);

impl Changes {
    fn below(&mut self, limit: usize) -> usize {
        // Slightly uneven, which does not matter here.
        usize::try_from(self.0.next_u64() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    /// Selects a random part of an input that has `length` bytes. Returns the start and end of the part.
    fn piece(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        (from, from + self.below(length - from + 1))
    }

    fn change(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let (from, to) = self.piece(input.len());
        match self.below(8) {
            0 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] ^= 1 << self.below(8);
            }
            1 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = u8::try_from(self.below(256)).unwrap();
            }
            2 => drop(input.drain(from..to)),
            3 => {
                let piece = input[from..to].to_vec();
                let at = self.below(input.len() + 1);
                input.splice(at..at, piece);
            }
            4 => {
                let (begin, end) = self.piece(other.len());
                input.splice(from..to, other[begin..end].iter().copied());
            }
            5 => {
                let telling = TELLING[self.below(TELLING.len())];
                input.splice(from..from, telling.iter().copied());
            }
            6 => {
                let telling = TELLING[self.below(TELLING.len())];
                input.splice(from..to, telling.iter().copied());
            }
            _ => {
                let piece = input[from..to].to_vec();
                // Depth and length: nesting and lists.
                let times = 1 + self.below(200);
                let room = BYTES_MAX.saturating_sub(input.len()) / piece.len().max(1);
                let many = piece.repeat(times.min(room));
                input.splice(from..from, many);
            }
        }
        input.truncate(BYTES_MAX);
    }
}

fn tried(name: &str) {
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    let (_, read) = found.unwrap_or_else(|| panic!("no target {name}"));
    let corpus = corpus(name);
    let limit = Duration::from_secs(number("FUZZ_SECONDS", 8));
    let mut changes = Changes(ChaCha8Rng::seed_from_u64(number("FUZZ_SEED", 1)));
    let (began, mut count, mut slowest) = (Instant::now(), 0_u64, Duration::ZERO);
    // First unchanged, then mutated.
    let mut next = corpus.iter().cloned();
    while count < u64::try_from(corpus.len()).unwrap() || began.elapsed() < limit {
        let input = next.next().unwrap_or_else(|| {
            let mut input = corpus[changes.below(corpus.len())].clone();
            for _ in 0..=changes.0.next_u64() % CHANGES_MAX {
                let other = &corpus[changes.below(corpus.len())];
                changes.change(&mut input, other);
            }
            input
        });
        let at = Instant::now();
        if catch_unwind(|| read(&input)).is_err() {
            let file = std::env::temp_dir().join(format!("fuzz-{name}-{count}"));
            std::fs::write(&file, &input).unwrap();
            panic!(
                "{name}: input {count} breaks an invariant; saved as {}",
                file.display()
            );
        }
        slowest = slowest.max(at.elapsed());
        count += 1;
    }
    println!(
        "{name}: {count} inputs in {:?}, the slowest {slowest:?}",
        began.elapsed()
    );
}

/// This test does not compile the fuzz programs.
#[test]
fn every_target_has_a_program_and_a_corpus() {
    println!("skipped: compiling gateway/fuzz takes minutes: run `cargo xtask campaign fuzz`");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let read = std::fs::read_to_string;
    let functions = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fuzzing.rs")).unwrap();
    let mut names = Vec::new();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"\n")));
        let program = read(folder.join(format!("targets/{name}.rs"))).unwrap();
        let (_, function) = program
            .split_once("fuzz_target!(|input: &[u8]| fuzzing::")
            .unwrap();
        let (function, _) = function.split_once("(input));").unwrap();
        assert!(
            functions.contains(&format!("(\"{name}\", {function})")),
            "{name}: {function}"
        );
        names.push(name.to_owned());
    }
    let corpora = std::fs::read_dir(CORPORA).unwrap();
    let mut corpora: Vec<_> = corpora
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    corpora.sort();
    assert_eq!(corpora, names);
    assert_eq!(manifest.matches("[[bin]]").count(), names.len());
}

#[test]
fn certificates() {
    tried("certificate");
}

#[test]
fn shell_frames() {
    tried("frames");
}

#[test]
fn tokens() {
    tried("jwt");
}

#[test]
fn manifests() {
    tried("manifest");
}

#[test]
fn queries() {
    tried("query");
}
