use super::*;
use akash_provider_kube_model::inventory::Vendor;
use proptest::prelude::*;

#[path = "tests/runner.rs"]
mod runner;

fn card(address: &str, maker: &str, device: &str) -> Value {
    json!({"address": address, "index": 0, "pci": {
        "vendor": {"id": maker, "name": "x"}, "product": {"id": device, "name": "y"}, "driver": "z",
    }})
}

fn read(answer: &Value) -> Result<Cards, String> {
    Cards::read(answer.to_string().as_bytes())
}

fn of(cards: &Cards, vendor: Vendor) -> Vec<(String, i64)> {
    let numbers = cards.by_vendor(vendor);
    numbers
        .map(|(number, count)| (number.to_owned(), count))
        .collect()
}

#[test]
fn response_has_the_number_of_cards_by_device_id() {
    let cards = [
        card("0000:3b:00.0", "10de", "20B5"),
        card("0000:5e:00.0", "0x10DE", "20b5"),
        card("0000:af:00.0", "10de", "2684"),
        card("0000:af:00.0", "10de", "2684"),
        card("0000:d8:00.0", "1002", "740f"),
        card("0000:01:00.0", "1a03", "2000"),
        card("0000:02:00.0", "10de", "not a number"),
        json!({"address": "0000:03:00.0", "pci": null}),
    ];
    let found = read(&json!({ "cards": cards })).unwrap();
    assert_eq!(
        of(&found, Vendor::Nvidia),
        [("20b5".to_owned(), 2), ("2684".to_owned(), 1)]
    );
    assert_eq!(of(&found, Vendor::Amd), [("740f".to_owned(), 1)]);
    assert_eq!(
        (found.count(Vendor::Nvidia), found.unreadable(Vendor::Nvidia)),
        (4, 1)
    );
    // Within the response of the whole machine.
    assert_eq!(
        read(&json!({"errors": null, "cpu": {}, "gpu": {"cards": cards}})).unwrap(),
        found
    );
    for none in [
        json!({"cards": null}),
        json!({"cards": []}),
        json!({}),
        json!({"gpu": {}}),
    ] {
        assert_eq!(read(&none).unwrap(), Cards::default(), "{none}");
    }
}

#[test]
fn invalid_response_is_rejected() {
    let refused = |text: &str| Cards::read(text.as_bytes()).unwrap_err();
    for text in [
        "",
        "<html>",
        "[1",
        "7",
        r#"{"cards": 3}"#,
        r#"{"cards": [{"pci": {"vendor": {"id": -1}}}]}"#,
        r#"{"cards": [{"pci": 4}]}"#,
    ] {
        assert!(refused(text).starts_with("invalid response: "), "{text}");
    }
    let nested = format!("{}{}", r#"{"gpu":"#.repeat(5_000), "}".repeat(5_000));
    assert!(
        refused(&nested).contains("invalid response"),
        "nesting is limited"
    );
    let many = |count: usize| json!({"cards": vec![card("", "10de", "20b5"); count]});
    assert_eq!(read(&many(CARDS_MAX)).unwrap().count(Vendor::Nvidia), 256);
    assert!(
        read(&many(CARDS_MAX + 1))
            .unwrap_err()
            .contains("257 cards exceed the limit of a node")
    );
    let long = " ".repeat(RESPONSE_MAX + 1);
    assert!(refused(&long).contains("longer than"));
    let just = format!("{}{}", r#"{"cards": []}"#, " ".repeat(RESPONSE_MAX - 13));
    assert!(Cards::read(just.as_bytes()).is_ok());
}

proptest! {
    #[test]
    fn no_response_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Cards::read(&bytes);
    }
}

#[test]
fn response_has_the_processors() {
    let part = json!({"total_cores": 1, "processors": [
        {"id": 0, "total_hardware_threads": 8, "total_threads": 9, "vendor": "AuthenticAMD", "model": " AMD EPYC\u{7} 9354 "},
        {"id": 1, "total_threads": 2},
    ]});
    let processor = |id: &str, vendor: &str, model: &str, threads| Processor {
        id: id.to_owned(),
        vendor: vendor.to_owned(),
        model: model.to_owned(),
        threads,
    };
    let expected = vec![
        processor("0", "AuthenticAMD", "AMD EPYC 9354", 8),
        processor("1", "", "", 2),
    ];
    for answer in [part.clone(), json!({"cpu": part, "gpu": {}})] {
        assert_eq!(
            Processor::read(answer.to_string().as_bytes()),
            Ok(expected.clone())
        );
    }
    assert_eq!(Processor::read(b"{}"), Ok(Vec::new()));
}

#[test]
fn invalid_processors_are_rejected_and_names_are_truncated() {
    let of = |count: usize| json!({"processors": vec![json!({"id": 0}); count]}).to_string();
    assert_eq!(
        Processor::read(of(PROCESSORS_MAX).as_bytes()).unwrap().len(),
        PROCESSORS_MAX
    );
    let read = |text: &str| Processor::read(text.as_bytes());
    assert!(
        read(&of(PROCESSORS_MAX + 1))
            .unwrap_err()
            .contains("65 processors")
    );
    let long = json!({"processors": [], "rest": "x".repeat(RESPONSE_MAX)}).to_string();
    assert!(read(&long).unwrap_err().contains("longer than"));
    for garbage in [
        "",
        "[]",
        r#"{"processors": {}}"#,
        r#"{"processors": [{"id": "x"}]}"#,
    ] {
        assert!(read(garbage).is_err(), "{garbage}");
    }
    let absurd = json!({"processors": [{"id": -1, "model": "m".repeat(1000), "total_threads": u32::MAX}]});
    let read = read(&absurd.to_string()).unwrap();
    assert_eq!((read[0].model.len(), read[0].threads), (WORDS_MAX, THREADS_MAX));
}

fn options() -> DiscoveryOptions {
    DiscoveryOptions {
        image: "registry.example.com/provider:1".to_owned(),
        program: "provider-services".to_owned(),
        namespace: "look".to_owned(),
    }
}

#[test]
fn pod_matches_the_go_operator_with_fewer_permissions() {
    let pod = pod(&options(), &name("n1").unwrap(), "n1");
    assert_eq!(
        pod["metadata"]["name"],
        "operator-inventory-hardware-discovery-n1"
    );
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app.kubernetes.io/name": "inventory", "app.kubernetes.io/instance": "inventory-hardware-discovery",
            "app.kubernetes.io/component": "operator", "app.kubernetes.io/part-of": "provider",
        })
    );
    let spec = &pod["spec"];
    assert_eq!(
        (&spec["nodeName"], &spec["serviceAccountName"]),
        (&json!("n1"), &json!(ACCOUNT))
    );
    let container = &spec["containers"][0];
    let args = json!(["provider-services", "tools", "psutil", "serve", "--api-port=8081"]);
    assert_eq!(
        (&container["name"], &container["args"]),
        (&json!("psutil"), &args)
    );
    assert_eq!(spec["automountServiceAccountToken"], json!(false));
    assert_eq!(
        container["securityContext"]["capabilities"],
        json!({"drop": ["ALL"]})
    );
    assert!(name(&"n".repeat(215)).is_ok() && name(&"n".repeat(216)).is_err());
    assert!(selector().contains("app.kubernetes.io/instance=inventory-hardware-discovery,"));
}

#[test]
fn pod_progress_separates_waiting_from_failed_pods() {
    let of =
        |node: &str, status: Value| progress(&json!({"spec": {"nodeName": node}, "status": status}), "n1");
    let waiting = |reason: &str| {
        let state = json!({"waiting": {"reason": reason, "message": "m".repeat(9_000)}});
        of(
            "n1",
            json!({"phase": "Pending", "containerStatuses": [{"state": state}]}),
        )
    };
    assert_eq!(of("n1", json!({"phase": "Running"})), DiscoveryProgress::Runs);
    assert!(
        matches!(of("n2", json!({"phase": "Running"})), DiscoveryProgress::Fails(why) if why.contains("another node"))
    );
    assert!(matches!(
        of("n1", json!({"phase": "Pending"})),
        DiscoveryProgress::Waits(_)
    ));
    assert!(matches!(of("n1", json!(null)), DiscoveryProgress::Waits(_)));
    assert!(matches!(waiting("ContainerCreating"), DiscoveryProgress::Waits(why) if why.len() < 400));
    assert!(matches!(waiting("ErrImagePull"), DiscoveryProgress::Fails(_)));
    let full = json!({"phase": "Failed", "reason": "OutOfpods", "message": "no capacity"});
    assert_eq!(
        of("n1", full),
        DiscoveryProgress::Fails("the pod ended: OutOfpods no capacity".to_owned())
    );
}
