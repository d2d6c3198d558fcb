//! Comparison of a text with a snapshot file in `tests/snapshots`.

use std::path::Path;

/// Compares `text` with a snapshot file. With `UPDATE_SNAPSHOTS=1`, writes the file first.
pub(super) fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs from the output; after a review, run the test with UPDATE_SNAPSHOTS=1\n{text}",
        path.display()
    );
}
