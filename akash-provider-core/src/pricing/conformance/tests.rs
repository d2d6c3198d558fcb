use super::*;
use crate::pricing::{RandomRange, Scale, ScaleConfig, ShellScript, ShellScriptConfig};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

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

#[tokio::test]
async fn shell_script_conforms() {
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

/// Breaks one rule at a time, to show that the suite finds it.
#[derive(Debug)]
enum Broken {
    Denom,
    Zero,
    EmptyGroup,
    OddError,
}

#[async_trait::async_trait]
impl PricingStrategy for Broken {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        let maximum = request.maximum().map_err(|e| e.into_error("test"));
        match self {
            Self::Denom => Ok(DecCoin::new(&"uact".into(), Dec::from_int(1))),
            Self::Zero => maximum.map(|m| DecCoin::new(&m.denom, Dec::ZERO)),
            Self::EmptyGroup => {
                Ok(maximum.unwrap_or_else(|_| DecCoin::new(&"uact".into(), Dec::from_int(1))))
            }
            Self::OddError => Err(Error::new(ErrorKind::Internal, "test", "broken")),
        }
    }
}

#[tokio::test]
async fn the_suite_finds_what_is_broken() {
    for broken in [Broken::Denom, Broken::Zero, Broken::EmptyGroup, Broken::OddError] {
        let name = format!("{broken:?}");
        let run = AssertUnwindSafe(suite(Arc::new(broken))).catch_unwind();
        assert!(run.await.is_err(), "{name} is not found");
    }
}
