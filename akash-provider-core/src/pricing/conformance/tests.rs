use super::*;
use crate::pricing::{RandomRange, Scale, ScaleConfig};
use std::collections::BTreeMap;

fn scale() -> Scale {
    let price = |text: &str| text.parse().unwrap();
    let storage = BTreeMap::from([("ephemeral".to_owned(), price("0.00016"))]);
    Scale::new(ScaleConfig {
        cpu: price("0.004"),
        memory: price("0.0016"),
        storage,
        ..ScaleConfig::default()
    })
    .unwrap()
}

#[tokio::test]
async fn scale_conforms() {
    suite_deterministic(Arc::new(scale())).await;
}

#[tokio::test]
async fn random_range_conforms() {
    suite(Arc::new(RandomRange::new(1))).await;
}

#[cfg(feature = "shell-script")]
#[tokio::test]
async fn shell_script_conforms() {
    use crate::pricing::{ShellScript, ShellScriptConfig};
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/price.sh");
    let config = ShellScriptConfig {
        process_limit: 4,
        ..ShellScriptConfig::new(script)
    };
    suite_deterministic(Arc::new(ShellScript::new(config).unwrap())).await;
}

#[tokio::test]
async fn shared_and_boxed_strategies_conform() {
    let shared: Arc<dyn PricingStrategy> = Arc::new(scale());
    suite_deterministic(Arc::new(shared)).await;
    let boxed: Box<dyn PricingStrategy> = Box::new(scale());
    suite_deterministic(Arc::new(boxed)).await;
}

/// A mistake of a pricing strategy. Each mistake violates one rule of the suite.
#[derive(Debug, Clone, Copy)]
enum Violation {
    Denom,
    Zero,
    EmptyGroup,
    OddError,
    Waits,
    MixesUp,
    ForgetsPermits,
    OneDenom,
    Wraps,
}

#[derive(Debug)]
struct Strategy {
    broken: Violation,
    /// Price of the newest request. `Violation::MixesUp` returns this price for every concurrent request.
    last: std::sync::Mutex<Option<DecCoin>>,
    permits: std::sync::atomic::AtomicI32,
}

#[async_trait::async_trait]
impl PricingStrategy for Strategy {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        let maximum = request.maximum().map_err(|e| e.into_error("test"));
        match self.broken {
            Violation::Denom => maximum.map(|_| DecCoin::new(&"uakt".into(), Dec::from_int(1))),
            Violation::Zero => maximum.map(|m| DecCoin::new(&m.denom, Dec::ZERO)),
            Violation::EmptyGroup => {
                Ok(maximum.unwrap_or_else(|_| DecCoin::new(&"uact".into(), Dec::from_int(1))))
            }
            Violation::OddError if request.units().iter().any(|u| u.resources.gpu.units > 0) => {
                Err(Error::new(ErrorKind::Internal, "test", "broken"))
            }
            Violation::Waits => std::future::pending().await,
            Violation::MixesUp => {
                let maximum = maximum?;
                *crate::feed::lock(&self.last) = Some(maximum.clone());
                tokio::task::yield_now().await;
                Ok(crate::feed::lock(&self.last).clone().unwrap_or(maximum))
            }
            Violation::ForgetsPermits => {
                use std::sync::atomic::Ordering::Relaxed;
                if self.permits.fetch_sub(1, Relaxed) <= 0 {
                    std::future::pending::<()>().await;
                }
                tokio::task::yield_now().await;
                self.permits.fetch_add(1, Relaxed);
                maximum
            }
            Violation::OddError => maximum,
            // Correct only for orders in this denomination.
            Violation::OneDenom => maximum.map(|m| DecCoin::new(&"uact".into(), m.amount)),
            Violation::Wraps => {
                let maximum = maximum?;
                let cores = request
                    .units()
                    .iter()
                    .map(|u| u.resources.cpu.units.wrapping_mul(u.count.into()));
                let cores = cores.fold(0, u64::wrapping_add);
                #[expect(clippy::cast_possible_truncation, reason = "the mistake")]
                let price = i64::from(cores as u32).max(1);
                Ok(DecCoin::new(&maximum.denom, Dec::from_int(price)))
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_suite_detects_each_violation() {
    let setup = Setup {
        denoms: vec!["uact".to_owned(), "uakt".to_owned()],
        ..Setup::default()
    };
    for (broken, expected) in [
        (
            Violation::Denom,
            "the price was expected in the order's denomination",
        ),
        (Violation::Zero, "the price was expected above zero and is 0"),
        (
            Violation::EmptyGroup,
            "to be refused with Invalid, because a group without units has no price",
        ),
        (
            Violation::OddError,
            "an error was expected to be Invalid, Timeout or Unavailable and is Internal",
        ),
        (
            Violation::Waits,
            "`calculate_price` was expected to respond within 30s",
        ),
        (
            Violation::MixesUp,
            "concurrent calls return their own prices: the price was expected in",
        ),
        (
            Violation::ForgetsPermits,
            "a dropped call does not affect later calls: `calculate_price` was expected",
        ),
    ] {
        let strategy = Strategy {
            broken,
            last: Default::default(),
            permits: 32.into(),
        };
        let failure = crate::conformance::verdict(suite_with_setup(Arc::new(strategy), &setup)).await;
        let failure = failure.unwrap_or_else(|| panic!("{broken:?} is not detected"));
        assert!(
            failure.contains(expected),
            "{broken:?} is detected with another message: {failure}"
        );
    }
}

/// Strategy that prices an order only if all units have GPUs and the denomination is uakt. The contract
/// allows such a strategy.
#[derive(Debug)]
struct GpuOnlyStrategy;

#[async_trait::async_trait]
impl PricingStrategy for GpuOnlyStrategy {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        let maximum = request.maximum().map_err(|e| e.into_error("test"))?;
        let has_gpu = request.units().iter().all(|unit| unit.resources.gpu.units > 0);
        if &*maximum.denom == "uakt" && has_gpu {
            return Ok(maximum);
        }
        Err(Error::new(
            ErrorKind::Invalid,
            "test",
            "GPUs for uakt and nothing else",
        ))
    }
}

#[tokio::test]
async fn mistakes_beyond_plain_orders_are_detected() {
    for (broken, expected) in [
        (
            Violation::OneDenom,
            "other denominations get their own price or an error: the price was expected in the order's denomination",
        ),
        (Violation::Wraps, "more costs no less: "),
    ] {
        let strategy = Strategy {
            broken,
            last: Default::default(),
            permits: 32.into(),
        };
        let failure = crate::conformance::verdict(suite_deterministic(Arc::new(strategy))).await;
        let failure = failure.unwrap_or_else(|| panic!("{broken:?} is not detected"));
        assert!(
            failure.contains(expected),
            "{broken:?} is detected with another message: {failure}"
        );
    }
}

#[derive(Debug)]
struct UnavailableSource(ErrorKind);

#[async_trait::async_trait]
impl PricingStrategy for UnavailableSource {
    async fn calculate_price(&self, _: &PriceRequest) -> Result<DecCoin, Error> {
        Err(Error::new(self.0, "test", "the feed is unavailable"))
    }
}

#[tokio::test]
async fn an_unavailable_source_conforms_if_declared_in_the_setup() {
    let setup = Setup {
        source_is_away: true,
        ..Setup::default()
    };
    suite_deterministic_with_setup(Arc::new(UnavailableSource(ErrorKind::Unavailable)), &setup).await;
    for strategy in [
        Arc::new(UnavailableSource(ErrorKind::Invalid)) as Arc<dyn PricingStrategy>,
        Arc::new(scale()),
    ] {
        let failure = crate::conformance::verdict(suite_with_setup(strategy, &setup))
            .await
            .unwrap();
        assert!(
            failure.contains("was expected to fail with Unavailable or Timeout"),
            "{failure}"
        );
    }
    // Without the setup's declaration the strategy has no price for any order.
    let failure =
        crate::conformance::verdict(suite(Arc::new(UnavailableSource(ErrorKind::Unavailable)))).await;
    assert!(failure.unwrap().contains("was expected to return a price"));
}

#[tokio::test]
async fn a_strategy_for_few_orders_conforms_with_its_setup() {
    let mut setup = Setup {
        denoms: vec!["uakt".to_owned()],
        ..Setup::default()
    };
    setup.unit.resources.gpu.units = 1;
    suite_deterministic_with_setup(Arc::new(GpuOnlyStrategy), &setup).await;
}
