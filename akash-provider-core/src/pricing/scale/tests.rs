use super::*;
use crate::pricing::PriceRequest;
use crate::pricing::fixtures::{base_unit, dec, leased_ip, request, request_with};
use crate::types::{Attribute, Endpoint, ResourceUnit};
use proptest::prelude::*;
use std::sync::Arc;

fn big(text: &str) -> BigDecimal {
    text.parse().unwrap()
}

/// Returns a configuration in which ephemeral storage costs nothing unless `storage` contains its price.
fn config(cpu: &str, memory: &str, endpoint: &str, ip: &str, storage: &[(&str, &str)]) -> ScaleConfig {
    let mut classes = BTreeMap::from([("ephemeral".to_owned(), big("0"))]);
    classes.extend(
        storage
            .iter()
            .map(|(class, price)| ((*class).to_owned(), big(price))),
    );
    ScaleConfig {
        cpu: big(cpu),
        memory: big(memory),
        storage: classes,
        endpoint: big(endpoint),
        ip: big(ip),
        gpu: BTreeMap::new(),
    }
}

fn price(config: ScaleConfig, request: &PriceRequest) -> Result<Dec, PriceError> {
    let scale = Scale::new(config).unwrap();
    let price = scale.price(request)?;
    assert_eq!(&*price.denom, "uact");
    let totals = scale.totals(request).unwrap();
    assert_eq!(
        scale.exact_sum(&totals).unwrap(),
        price.amount,
        "both ways of summing agree"
    );
    Ok(price.amount)
}

fn volume(bytes: u64, pairs: &[(&str, &str)]) -> Storage {
    Storage {
        name: "data".into(),
        bytes,
        attributes: pairs.iter().map(|(k, v)| Attribute::new(*k, *v)).collect(),
    }
}

#[test]
fn no_price_at_all_is_refused() {
    assert_eq!(
        Scale::new(ScaleConfig::default()).unwrap_err(),
        ScaleError::AllZero
    );
    assert_eq!(
        Scale::new(config("0", "0", "0", "0", &[])).unwrap_err(),
        ScaleError::AllZero
    );
}

#[test]
fn one_price_is_enough() {
    for one in [
        config("1", "0", "0", "0", &[]),
        config("0", "1", "0", "0", &[]),
        config("0", "0", "1", "0", &[]),
    ] {
        assert!(Scale::new(one).is_ok());
    }
    let storage = BTreeMap::from([(String::new(), big("1"))]);
    assert!(
        Scale::new(ScaleConfig {
            storage,
            ..ScaleConfig::default()
        })
        .is_ok()
    );
}

#[test]
fn negative_prices_are_refused_by_name() {
    let negative = |config| Scale::new(config).unwrap_err().to_string();
    assert_eq!(
        negative(config("-1", "0", "0", "0", &[])),
        "the price of CPU is -1; it must not be negative"
    );
    let storage = negative(config("1", "0", "0", "0", &[("beta2", "-0.5")]));
    assert_eq!(
        storage,
        "the price of storage class `beta2` is -0.5; it must not be negative"
    );
}

#[test]
fn cpu_costs_by_the_thousandth() {
    let request = request_with(|u| u.resources.cpu.units = 13);
    assert_eq!(price(config("22", "0", "0", "0", &[]), &request), Ok(dec("286")));
}

#[test]
fn memory_costs_by_the_mib() {
    let request = request_with(|u| u.resources.memory.bytes = 123_456);
    let per_mib = (23 << 20).to_string();
    assert_eq!(
        price(config("0", &per_mib, "0", "0", &[]), &request),
        Ok(dec("2839488"))
    );
}

#[test]
fn mib_have_sixteen_digits() {
    let memory = |bytes| {
        price(
            config("0", "1", "0", "0", &[]),
            &request_with(|u| u.resources.memory.bytes = bytes),
        )
        .unwrap()
    };
    assert_eq!(memory(1), dec("0.0000009536743164"));
    assert_eq!(memory(2_097_151), dec("1.9999990463256836"));
}

#[test]
fn storage_costs_by_the_mib() {
    let request = request_with(|u| u.resources.storage = vec![volume(98_765, &[])]);
    let scale = (24 << 20).to_string();
    let amount = price(config("0", "0", "0", "0", &[("ephemeral", &scale)]), &request).unwrap();
    let off = amount.checked_sub(dec("2370360")).unwrap();
    assert!(off <= dec("0.00001") && off >= dec("-0.00001"), "{off}");
}

#[test]
fn storage_is_multiplied_by_the_count() {
    let scale = (3 << 20).to_string();
    let of_count = |count| {
        let request = request_with(|u| {
            u.resources.storage = vec![volume(111, &[])];
            u.count = count;
        });
        price(config("0", "0", "0", "0", &[("ephemeral", &scale)]), &request).unwrap()
    };
    let close = |amount: Dec, to: &str| {
        let off = amount.checked_sub(dec(to)).unwrap();
        assert!(off <= dec("0.00001") && off >= dec("-0.00001"), "{amount}");
    };
    close(of_count(1), "333");
    close(of_count(2), "666");
}

#[test]
fn leased_ips_count_once_whatever_the_count() {
    let of = |sequence_numbers: &[u32], count| {
        let request = request_with(|u| {
            u.resources.endpoints = sequence_numbers.iter().map(|n| leased_ip(*n)).collect();
            u.count = count;
        });
        price(config("0", "0", "0", "5.5", &[]), &request).unwrap()
    };
    assert_eq!(of(&[1367], 1), dec("5.5"));
    assert_eq!(of(&[1367, 1368], 1), dec("11"));
    assert_eq!(of(&[1367, 1368], 33), dec("11"));
    assert_eq!(of(&[1367, 1367], 1), dec("5.5"));
}

#[test]
fn absurd_prices_are_an_error() {
    let cpu = (i128::from(i64::MAX) * 100).to_string();
    let absurd = Scale::new(config(&cpu, "0", "0", "0", &[]))
        .unwrap()
        .price(&request(vec![base_unit()]));
    assert_eq!(absurd.unwrap_err(), PriceError::TooLarge);
    assert!(PriceError::TooLarge.to_string().contains("price is above 10^18"));
    let limit = |cpu| {
        price(
            config(cpu, "0", "0", "0", &[]),
            &request_with(|u| u.resources.cpu.units = 1),
        )
    };
    assert_eq!(limit("1000000000000000000"), Ok(dec("1000000000000000000")));
    assert_eq!(limit("1000000000000000000.1"), Err(PriceError::TooLarge));
    let beyond_128_bits = Scale::new(config("1e39", "1e39", "0", "0", &[])).unwrap();
    let huge = request_with(|u| (u.resources.cpu.units, u.count) = (u64::MAX, u32::MAX));
    assert_eq!(beyond_128_bits.price(&huge).unwrap_err(), PriceError::TooLarge);
}

#[test]
fn everything_together() {
    let request = request_with(|u| {
        u.resources.cpu.units = 1000;
        u.resources.memory.bytes = 512 << 20;
        u.resources.storage = vec![volume(1 << 30, &[])];
        u.resources.endpoints = vec![Endpoint::default(), leased_ip(1)];
        u.count = 2;
    });
    let config = config("0.004", "0.0016", "0.05", "5", &[("ephemeral", "0.00016")]);
    assert_eq!(price(config, &request), Ok(dec("15.06608")));
}

#[test]
fn a_class_without_a_price_is_named() {
    let beta2 = request_with(|u| {
        u.resources.storage = vec![volume(1 << 30, &[("class", "beta2"), ("persistent", "true")])];
    });
    let error = Scale::new(config("1", "0", "0", "0", &[]))
        .unwrap()
        .price(&beta2)
        .unwrap_err();
    assert_eq!(
        error,
        PriceError::NoStorageClass {
            class: "beta2".to_owned()
        }
    );
    assert!(
        error
            .to_string()
            .starts_with("no pricing configured for storage class `beta2`")
    );
}

#[test]
fn volumes_in_memory_are_priced_as_ephemeral() {
    let ram = request_with(|u| {
        u.resources.storage = vec![volume(1 << 20, &[("class", "ram"), ("persistent", "false")])];
    });
    assert_eq!(
        price(config("0", "0", "0", "0", &[("ephemeral", "7")]), &ram),
        Ok(dec("7"))
    );
}

#[test]
fn a_price_of_zero_is_an_error() {
    let scale = Scale::new(config("0", "0", "0", "1", &[])).unwrap();
    assert_eq!(
        scale.price(&request(vec![base_unit()])).unwrap_err(),
        PriceError::Zero
    );
}

#[test]
fn one_storage_class_with_a_price_is_enough() {
    let config = config("0", "0", "0", "0", &[("ephemeral", "1"), ("beta2", "0")]);
    let one_mib = request_with(|u| u.resources.storage = vec![volume(1 << 20, &[])]);
    assert_eq!(price(config, &one_mib), Ok(dec("1")));
}

#[test]
fn w13_sizes_of_partial_mib_have_a_price() {
    // 1/2^20 with 16 digits times a price with 3 digits has 19 digits: the last digit is rounded half up.
    let memory = |scale: &str, bytes| {
        price(
            config("0", scale, "0", "0", &[]),
            &request_with(|u| u.resources.memory.bytes = bytes),
        )
        .unwrap()
    };
    assert_eq!(memory("0.016", 1), dec("0.000000015258789062"));
    assert_eq!(memory("0.123", 1), dec("0.000000117301940917"));
    assert_eq!(memory("0.00000125", 1), dec("0.000000000001192093"));
}

#[test]
fn scales_of_many_digits_are_exact() {
    let thirty = "0.000000000000000000000000000001";
    let request = request_with(|u| (u.resources.cpu.units, u.count) = (1_000_000, 1_000_000));
    assert_eq!(
        price(config(thirty, "0", "0", "0", &[]), &request),
        Ok(dec("0.000000000000000001"))
    );
    for absurd in ["1e41", "1e-41", "1e999999999999", "1e-999999999999"] {
        let refused = Scale::new(config(absurd, "0", "0", "0", &[])).unwrap_err();
        assert_eq!(
            refused,
            ScaleError::OutOfRange {
                what: "CPU".to_owned()
            },
            "{absurd}"
        );
    }
    assert_eq!(
        Scale::new(config("0e-999999999999", "0", "0", "0", &[])).unwrap_err(),
        ScaleError::AllZero
    );
}

#[test]
fn the_ordered_amounts_are_priced_and_not_the_overcommitted_ones() {
    let mut request = request_with(|u| u.resources.cpu.units = 1000);
    let mut halved = base_unit();
    halved.resources.cpu.units = 500;
    request.allocated = Some(Arc::new(vec![halved]));
    assert_eq!(price(config("1", "0", "0", "0", &[]), &request), Ok(dec("1000")));
}

#[test]
fn groups_without_one_denomination_have_no_price() {
    let scale = Scale::new(config("1", "0", "0", "0", &[])).unwrap();
    let mut other = base_unit();
    other.price.denom = "uakt".into();
    for units in [vec![], vec![base_unit(), other]] {
        assert_eq!(scale.price(&request(units)).unwrap_err(), PriceError::NoMaximum);
    }
}

#[test]
fn storage_scales_are_read() {
    let scales = parse_storage_scales("0.00016,beta1=0.00016, beta3 = 0.0002").unwrap();
    let texts: Vec<String> = scales
        .iter()
        .map(|(class, price)| format!("{class} {price}"))
        .collect();
    assert_eq!(texts, ["beta1 0.00016", "beta3 0.0002", "ephemeral 0.00016"]);
    assert!(parse_storage_scales("").unwrap().is_empty());
    for bad in [
        "beta1",
        "beta1=",
        "beta1=x",
        "1,,2",
        "a=1=2",
        &format!("a={}", "1".repeat(101)),
    ] {
        assert!(
            matches!(parse_storage_scales(bad), Err(ScaleError::Entry { .. })),
            "{bad}"
        );
    }
    let twice = parse_storage_scales("1,ephemeral=2").unwrap_err();
    assert_eq!(twice.to_string(), "`ephemeral` occurs twice");
}

fn gpu_request(units: u64, models: &[&str]) -> PriceRequest {
    request_with(|u| gpus(u, units, models))
}

fn gpus(unit: &mut ResourceUnit, units: u64, models: &[&str]) {
    unit.resources.gpu.units = units;
    unit.resources.gpu.attributes = models.iter().map(|m| Attribute::new(*m, "true")).collect();
}

fn gpu_price(prices: &str, request: &PriceRequest) -> Result<Dec, PriceError> {
    let gpu = parse_gpu_prices(prices).unwrap();
    price(
        ScaleConfig {
            gpu,
            ..config("1", "0", "0", "0", &[])
        },
        request,
    )
}

#[test]
fn gpus_have_no_price_by_default() {
    assert_eq!(
        price(
            config("1", "0", "0", "0", &[]),
            &gpu_request(8, &["vendor/nvidia/model/h100"])
        ),
        Ok(dec("11"))
    );
    assert_eq!(gpu_price("*=100", &gpu_request(0, &[])), Ok(dec("11")));
}

#[test]
fn the_most_specific_gpu_price_applies() {
    let prices = "*=1000,nvidia/*=2000,nvidia/a100=3000,nvidia/a100/ram/80Gi=4000,\
                  nvidia/a100/ram/80Gi/interface/sxm=5000,nvidia/a100/interface/pcie=3500";
    for (model, amount) in [
        ("vendor/amd/model/mi100", "1011"),
        ("vendor/nvidia/model/v100/ram/16Gi", "2011"),
        ("vendor/nvidia/model/a100", "3011"),
        ("vendor/nvidia/model/a100/ram/40Gi", "3011"),
        ("vendor/nvidia/model/a100/ram/80Gi", "4011"),
        ("vendor/nvidia/model/a100/ram/80Gi/interface/sxm", "5011"),
        ("vendor/nvidia/model/a100/interface/pcie", "3511"),
        // A wildcard can result in the most expensive model of the vendor.
        ("vendor/nvidia/model/*", "5011"),
        ("vendor/amd/model/*", "1011"),
    ] {
        assert_eq!(
            gpu_price(prices, &gpu_request(1, &[model])),
            Ok(dec(amount)),
            "{model}"
        );
    }
    assert_eq!(gpu_price(prices, &gpu_request(1, &[])), Ok(dec("5011")));
    let either = [
        "vendor/nvidia/model/v100",
        "vendor/nvidia/model/a100",
        "not a gpu",
    ];
    assert_eq!(gpu_price(prices, &gpu_request(2, &either)), Ok(dec("6011")));
    // Priced only with RAM sizes: the most expensive size, unless the order names one.
    let by_ram = "nvidia/a100/ram/40Gi=10,nvidia/a100/ram/80Gi=20,nvidia/*=1";
    assert_eq!(
        gpu_price(by_ram, &gpu_request(1, &["vendor/nvidia/model/a100"])),
        Ok(dec("31"))
    );
    assert_eq!(
        gpu_price(by_ram, &gpu_request(1, &["vendor/nvidia/model/a100/ram/40Gi"])),
        Ok(dec("21"))
    );
    assert_eq!(
        gpu_price(by_ram, &gpu_request(1, &["vendor/nvidia/model/a100/ram/96Gi"])),
        Ok(dec("12"))
    );
}

#[test]
fn the_reserved_gpu_is_priced() {
    let mut request = gpu_request(2, &["vendor/nvidia/model/*"]);
    let mut reserved = base_unit();
    gpus(&mut reserved, 2, &["vendor/nvidia/model/t4"]);
    request.allocated = Some(Arc::new(vec![reserved]));
    assert_eq!(
        gpu_price("nvidia/t4=10,nvidia/h100=1000", &request),
        Ok(dec("31"))
    );
}

#[test]
fn a_gpu_without_a_price_gets_no_bid() {
    let error = gpu_price("nvidia/t4=10", &gpu_request(1, &["vendor/nvidia/model/h100"])).unwrap_err();
    assert_eq!(
        error,
        PriceError::NoGpu {
            model: "nvidia/h100".to_owned()
        }
    );
}

#[test]
fn gpu_names_have_a_form() {
    for bad in [
        "nvidia",
        "nvidia/",
        "/a100",
        "*/a100",
        "nvidia/a*",
        "nvidia/*/ram/80Gi",
        "nvidia/a100/ram",
        "nvidia/a100/x/y",
    ] {
        let refused = parse_gpu_prices(&format!("{bad}=1")).unwrap_err();
        assert_eq!(refused, ScaleError::Gpu { name: bad.to_owned() }, "{bad}");
    }
    assert!(matches!(
        parse_gpu_prices("nvidia/a100"),
        Err(ScaleError::Entry { .. })
    ));
    assert!(parse_gpu_prices(" ").unwrap().is_empty());
}

proptest! {
    #[test]
    fn both_ways_of_summing_agree(
        cpu in 0_u64..1 << 50, memory in any::<u64>(), count in any::<u32>(), rates in prop::array::uniform3(0_u64..1 << 40),
        digits in prop::array::uniform3(0_i64..25),
    ) {
        let rate = |n: usize| BigDecimal::new(rates[n].into(), digits[n]);
        let config = ScaleConfig {
            cpu: rate(0), memory: rate(1), storage: BTreeMap::from([("ephemeral".to_owned(), rate(2))]),
            endpoint: big("1"), ..ScaleConfig::default()
        };
        let request = request_with(|u| {
            u.resources.cpu.units = cpu;
            u.resources.memory.bytes = memory;
            u.resources.storage = vec![volume(memory / 3, &[])];
            u.count = count;
            u.price.amount = Dec::from_int(1);
        });
        let scale = Scale::new(config).unwrap();
        let totals = scale.totals(&request).unwrap();
        if let Some(quick) = scale.quick_sum(&totals) {
            prop_assert_eq!(scale.exact_sum(&totals).unwrap(), quick);
        }
    }

    #[test]
    fn reading_prices_never_panics(text in "\\PC{0,40}") {
        let _ = parse_storage_scales(&text).map(|storage| Scale::new(ScaleConfig { storage, ..ScaleConfig::default() }));
        let _ = parse_gpu_prices(&text);
    }
}
