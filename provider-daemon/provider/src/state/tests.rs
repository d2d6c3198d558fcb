//! Tests of restarts, damage and concurrent processes.

use super::*;
use akash_provider_chain::Checkpoint;
use akash_provider_core::types::BlockTime;

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn open(home: &Path) -> State {
    let opened = State::open(home).unwrap();
    assert_eq!(opened.moved_aside, None);
    opened.state
}

fn block(height: u64) -> Checkpoint {
    let time = BlockTime(1_700_000_000_000 + i64::try_from(height).unwrap_or(0));
    Checkpoint { height, time }
}

#[test]
fn restores_the_last_height_of_each_chain() {
    let home = home();
    {
        let state = open(&home.path().join("deep/er"));
        let (main, test) = (
            state.heights("akashnet-2").unwrap(),
            state.heights("testnet").unwrap(),
        );
        assert_eq!(main.load().unwrap(), None);
        for height in 1..=1000 {
            main.store(block(height)).unwrap();
        }
        assert_eq!(
            main.load().unwrap(),
            Some(block(1000)),
            "before the value is on disk"
        );
        main.store(block(900)).unwrap();
        test.store(block(u64::MAX)).unwrap();
    }
    let state = open(&home.path().join("deep/er"));
    let stored = [("akashnet-2", block(900)), ("testnet", block(u64::MAX))];
    for (chain, block) in stored {
        let loaded = state.heights(chain).unwrap().load().unwrap();
        assert_eq!(loaded, Some(block), "{chain}");
    }
    let stored = stored.map(|(chain, block)| (chain.to_owned(), block));
    assert_eq!(state.stored_heights().unwrap(), stored);
    assert_eq!(state.reset_height(Some("other")).unwrap(), 0);
    assert_eq!(state.reset_height(Some("testnet")).unwrap(), 1);
    assert_eq!(state.stored_heights().unwrap(), stored[..1]);
    assert_eq!(state.reset_height(None).unwrap(), 1);
    assert_eq!(state.stored_heights().unwrap(), []);
}

#[test]
fn moves_a_damaged_file_aside_and_starts_an_empty_one() {
    let home = home();
    let path = home.path().join(FILE);
    for garbage in [&b"no database"[..], &[0xff; 100_000]] {
        fs::write(&path, garbage).unwrap();
        let opened = State::open(home.path()).unwrap();
        let aside = opened.moved_aside.unwrap();
        assert_eq!(fs::read(&aside).unwrap(), garbage);
        let heights = opened.state.heights("akashnet-2").unwrap();
        assert_eq!(heights.load().unwrap(), None);
        heights.store(block(3)).unwrap();
    }
    let state = open(home.path());
    assert_eq!(
        state.heights("akashnet-2").unwrap().load().unwrap(),
        Some(block(3))
    );
}

#[test]
fn detects_or_tolerates_any_changed_byte() {
    let home = home();
    let path = home.path().join(FILE);
    open(home.path())
        .heights("akashnet-2")
        .unwrap()
        .store(block(1234))
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let mut moved = 0;
    // All bytes of the header, and the rest with a prime step.
    for at in (0..320).chain((320..whole.len()).step_by(4099)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&path, &bytes).unwrap();
        match State::open(home.path()) {
            Ok(opened) => {
                let heights = opened.state.heights("akashnet-2").unwrap();
                let height = heights.load().unwrap();
                let wanted = if opened.moved_aside.is_some() {
                    None
                } else {
                    Some(block(1234))
                };
                assert_eq!(height, wanted, "byte {at}");
                moved += u32::from(opened.moved_aside.is_some());
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(moved > 0, "some changes must be damage");
    println!("{moved} files were moved aside");
}

#[test]
fn file_of_a_later_version_is_moved_aside_unchanged() {
    let home = home();
    drop(open(home.path()));
    let path = home.path().join(FILE);
    let database = Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    let later = LAYOUT_NOW + 1;
    write.open_table(ABOUT).unwrap().insert(LAYOUT, later).unwrap();
    write.commit().unwrap();
    drop(database);
    let opened = State::open(home.path()).unwrap();
    let aside = opened.moved_aside.unwrap();
    let moved = Database::open(&aside).unwrap();
    assert_eq!(layout(&moved).unwrap(), Some(later));
    drop(opened.state);
    assert_eq!(State::open(home.path()).unwrap().moved_aside, None, "only once");
}

#[test]
fn fails_without_moving_an_undamaged_file() {
    let home = home();
    let state = open(home.path());
    let error = State::open(home.path()).unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error}");
    drop(state);
    let folder = self::home();
    fs::create_dir(folder.path().join(FILE)).unwrap();
    let error = State::open(folder.path()).unwrap_err();
    assert!(matches!(error, StateError::Io { .. }), "{error}");
    let files: Vec<_> = fs::read_dir(home.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn restricts_the_home_directory_to_its_account() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let outer = home();
    let new = outer.path().join("deep/er");
    drop(open(&new));
    let made = [
        (&*new, 0o700),
        (&outer.path().join("deep"), 0o700),
        (&new.join(FILE), 0o600),
    ];
    for (path, wanted) in made {
        assert_eq!(mode(path), wanted, "{}", path.display());
    }
    let elsewhere = outer.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    set(&elsewhere, 0o644);
    let keyring = new.join("keyring-file");
    fs::create_dir(&keyring).unwrap();
    fs::write(keyring.join("a.info"), "").unwrap();
    fs::write(new.join("tool"), "").unwrap();
    symlink(&elsewhere, new.join("link")).unwrap();
    let wide = [
        (new.join(FILE), 0o644, 0o600),
        (keyring.join("a.info"), 0o666, 0o600),
        (new.join("tool"), 0o2775, 0o700),
        (keyring, 0o777, 0o700),
        (new.clone(), 0o755, 0o700),
    ];
    for (path, before, _) in &wide {
        set(path, *before);
    }
    drop(open(&new));
    for (path, _, after) in &wide {
        assert_eq!(mode(path), *after, "{}", path.display());
    }
    assert_eq!(mode(&elsewhere), 0o644, "the target of a link must not change");
}
