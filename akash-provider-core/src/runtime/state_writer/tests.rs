use super::*;
use crate::engine::{Call, EffectId};
use crate::error::ErrorKind;
use crate::types::{Address, Event};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// Store in which each write waits until the test permits the write. Writes can fail.
#[derive(Debug)]
struct Disk {
    states: Mutex<Vec<RestartState>>,
    lets: Semaphore,
    fails: AtomicBool,
}

#[async_trait]
impl StateStore for Disk {
    async fn save(&self, state: &RestartState) -> Result<(), Error> {
        self.lets.acquire().await.unwrap().forget();
        if self.fails.swap(false, Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "keep", "full"));
        }
        self.states.lock().unwrap().push(state.clone());
        Ok(())
    }
}

fn disk(lets: usize) -> (Arc<Disk>, StateWriter) {
    let disk = Arc::new(Disk {
        states: Mutex::default(),
        lets: Semaphore::new(lets),
        fails: AtomicBool::new(false),
    });
    let config = Config::new(Address::from_bytes(&[1; 20]).unwrap(), "test");
    (Arc::clone(&disk), StateWriter::new(Some(disk), &config))
}

fn call(number: u64) -> Effect {
    Effect::Call(EffectId(number), Call::FetchProvider)
}

fn trip() -> Effect {
    Effect::Publish(Arc::new(Event::BreakerTripped { wanted: 4 }))
}

fn release() -> Effect {
    Effect::Publish(Arc::new(Event::BreakerReleased))
}

fn tripped(disk: &Disk) -> Vec<bool> {
    let states = disk.states.lock().unwrap();
    states.iter().map(|state| state.breaker_tripped).collect()
}

#[tokio::test(start_paused = true)]
async fn effects_are_held_until_the_breaker_state_is_stored() {
    let (disk, mut keeping) = disk(0);
    assert_eq!(keeping.pass(vec![call(1)]), [call(1)]);
    assert_eq!(keeping.pass(vec![call(2), trip(), call(3)]), []);
    assert_eq!(keeping.pass(vec![call(4)]), []);
    let soon = Duration::from_secs(5);
    assert!(
        timeout(soon, keeping.turn()).await.is_err(),
        "the state is not written yet"
    );
    assert!(!keeping.is_idle() && tripped(&disk).is_empty());
    disk.lets.add_permits(1);
    assert_eq!(keeping.turn().await, [call(2), trip(), call(3), call(4)]);
    assert_eq!(tripped(&disk), [true]);
    assert!(keeping.is_idle());
    assert_eq!(keeping.pass(vec![call(5)]), [call(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_write_is_stored_before_its_effects() {
    let (disk, mut keeping) = disk(0);
    assert_eq!(keeping.pass(vec![trip()]), []);
    assert_eq!(keeping.pass(vec![release(), call(1)]), []);
    disk.lets.add_permits(1);
    assert!(timeout(Duration::from_secs(5), keeping.turn()).await.is_err());
    disk.lets.add_permits(1);
    assert_eq!(keeping.turn().await, [trip(), release(), call(1)]);
    assert_eq!(tripped(&disk), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_or_hanging_disk_stops_no_effects_and_is_retried() {
    let (disk, mut keeping) = disk(1);
    disk.fails.store(true, Ordering::SeqCst);
    assert_eq!(keeping.pass(vec![trip()]), []);
    assert_eq!(
        keeping.turn().await,
        [trip()],
        "a failed write releases the effects"
    );
    let begun = Instant::now();
    // Effects after a failed write are not held.
    assert_eq!(keeping.pass(vec![call(1)]), [call(1)]);
    assert_eq!(keeping.turn().await, [], "the write hangs");
    assert_eq!(begun.elapsed(), AGAIN_AFTER + KEEP_LIMIT);
    disk.lets.add_permits(1);
    assert_eq!(keeping.turn().await, []);
    assert_eq!(tripped(&disk), [true]);
    assert!(
        timeout(Duration::from_secs(60), keeping.turn()).await.is_err(),
        "once"
    );
}

#[tokio::test]
async fn without_a_state_store_no_effects_are_held() {
    let config = Config::new(Address::from_bytes(&[1; 20]).unwrap(), "test");
    let mut keeping = StateWriter::new(None, &config);
    assert_eq!(keeping.pass(vec![trip(), call(1)]), [trip(), call(1)]);
    assert!(keeping.is_idle());
}
