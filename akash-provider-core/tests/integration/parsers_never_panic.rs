//! The parsers of SDL and manifests return a value or an error for any input.

use akash_provider_core::{manifest, sdl};
use proptest::prelude::*;
use std::path::Path;

fn sdl_texts() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sdl");
    let mut texts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    texts.sort();
    texts
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// Asserts that an accepted SDL has a valid manifest. Serializing and parsing this manifest must return an
/// equal manifest.
fn assert_invariants(text: &str) {
    match sdl::parse(text) {
        Ok(sdl) => {
            let groups: Vec<_> = sdl.groups.iter().collect();
            manifest::validate(&sdl.manifest).unwrap();
            manifest::cross_validate(&sdl.manifest, &groups).unwrap();
            let sent = serde_json::to_vec(&sdl.manifest).unwrap();
            assert_eq!(
                manifest::parse(&sent).unwrap(),
                (sdl.manifest.clone(), sdl.hash.into())
            );
            assert_eq!(sdl::parse(text).unwrap(), sdl);
        }
        Err(error) => assert!(error.line >= 1 && !error.path.is_empty() && !error.help.is_empty()),
    }
}

/// Returns a fragment with a special meaning in YAML.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("&a ".to_owned()),
        Just("*a ".to_owned()),
        Just("<<: *a\n".to_owned()),
        Just("- ".to_owned()),
        Just("? ".to_owned()),
        Just(": ".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("|\n".to_owned()),
        Just(">-\n".to_owned()),
        Just("!!str ".to_owned()),
        Just("!t ".to_owned()),
        Just("%TAG ! a\n".to_owned()),
        Just("---\n".to_owned()),
        Just("...\n".to_owned()),
        Just("\t".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("-1".to_owned()),
        Just("null".to_owned()),
        "\\PC{0,4}",
        "[ -~\\n]{0,8}",
    ]
}

/// Returns a valid text in which some ranges are replaced.
fn mutated() -> impl Strategy<Value = String> {
    let texts = sdl_texts();
    let change = (any::<prop::sample::Index>(), 0_usize..12, piece());
    (0..texts.len(), prop::collection::vec(change, 1..5)).prop_map(move |(which, changes)| {
        let mut chars: Vec<char> = texts[which].chars().collect();
        for (at, length, piece) in changes {
            let at = at.index(chars.len() + 1).min(chars.len());
            let end = (at + length).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        chars.into_iter().collect()
    })
}

/// Returns the configuration: at least 512 cases per property, more with `PROPTEST_CASES`.
fn config() -> ProptestConfig {
    let preset = ProptestConfig::default();
    ProptestConfig {
        cases: preset.cases.max(512),
        failure_persistence: None,
        ..preset
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sdl_of_any_text(text in "\\PC{0,200}") {
        assert_invariants(&text);
    }

    #[test]
    fn sdl_of_yaml_pieces(pieces in prop::collection::vec(piece(), 0..40)) {
        assert_invariants(&pieces.concat());
    }

    #[test]
    fn sdl_of_a_mutated_text(text in mutated()) {
        assert_invariants(&text);
    }

    #[test]
    fn manifest_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = manifest::parse(&bytes);
    }

    #[test]
    fn manifest_of_a_mutated_one(
        which in 0_usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_usize..4), 1..4),
    ) {
        let texts = sdl_texts();
        let sdl = sdl::parse(&texts[which % texts.len()]).unwrap();
        let mut bytes = serde_json::to_vec(&sdl.manifest).unwrap();
        for (at, byte, length) in changes {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, [byte]);
        }
        if let Ok((manifest, _)) = manifest::parse(&bytes) {
            prop_assert_eq!(manifest::validate(&manifest), Ok(()));
        }
    }
}
