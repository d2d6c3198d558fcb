use super::*;

fn about() -> ProviderInfo {
    ProviderInfo {
        address: "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap(),
        public_hostname: String::new(),
        reclamation_window: None,
        leadership: None,
    }
}

#[test]
fn empty_fields_are_omitted_and_unknown_capacity_is_an_error() {
    let text = String::from_utf8(body(&Status::default(), &about()).to_vec()).unwrap();
    assert_eq!(
        text,
        "{\"cluster\":{\"leases\":0,\"inventory\":{\"available\":{},\"error\":{}}},\"bidengine\":{\"orders\":0},\
         \"manifest\":{\"deployments\":0},\"address\":\"akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm\",\
         \"leased_ip\":{\"allocatable\":\"0\",\"allocated\":\"0\",\"capacity\":\"0\"}}"
    );
}

#[test]
fn every_field_is_named_and_ordered_as_in_the_recording() {
    let mut status = Status::default();
    status.inventory_known = true;
    let pair = |allocatable, available| Pair {
        allocatable,
        available,
    };
    let order = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/2194/1/1"
        .parse()
        .unwrap();
    status.inventory.active.push(ReservationStatus {
        order,
        cpu: 120,
        gpu: 1,
        memory: 16_777_216,
        storage_ephemeral: 16_777_216,
        storage: [("beta2".to_owned(), 7)].into(),
    });
    status.inventory.available.nodes.push(NodeMetrics {
        name: "node1".to_owned(),
        cpu: pair(2000, 1630),
        gpu: pair(2, 1),
        memory: pair(25_171_652_608, 24_718_667_776),
        storage_ephemeral: pair(Pair::UNLIMITED, 241_098_714_324),
        ..NodeMetrics::default()
    });
    status
        .inventory
        .available
        .storage
        .insert("beta2".to_owned(), pair(9, 8));
    let about = ProviderInfo {
        public_hostname: "provider.localhost".to_owned(),
        reclamation_window: Some(Duration::from_secs(1)),
        ..about()
    };
    let text = String::from_utf8(body(&status, &about).to_vec()).unwrap();
    assert_eq!(
        text,
        "{\"cluster\":{\"leases\":0,\"inventory\":{\"active\":[{\"cpu\":120,\"gpu\":1,\"memory\":16777216,\
         \"storage_ephemeral\":16777216,\"storage\":{\"beta2\":7}}],\"available\":{\"nodes\":[{\"name\":\"node1\",\
         \"allocatable\":{\"cpu\":2000,\"gpu\":2,\"memory\":25171652608,\"storage_ephemeral\":9223372036854775807},\
         \"available\":{\"cpu\":1630,\"gpu\":1,\"memory\":24718667776,\"storage_ephemeral\":241098714324}}],\
         \"storage\":[{\"class\":\"beta2\",\"size\":8}]}}},\"bidengine\":{\"orders\":0},\"manifest\":{\"deployments\":0},\
         \"cluster_public_hostname\":\"provider.localhost\",\"reclamation_window\":1000000000,\
         \"address\":\"akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm\",\
         \"leased_ip\":{\"allocatable\":\"0\",\"allocated\":\"0\",\"capacity\":\"0\"}}"
    );
}

#[test]
fn leased_ips_are_in_the_rest_status() {
    let mut status = Status::default();
    let mut ips = LeasedIpStatus::default();
    (ips.total, ips.allocated, ips.available) = (10, 6, 4);
    status.inventory.leased_ips = Some(ips);
    let body: Value = serde_json::from_slice(&body(&status, &about())).unwrap();
    let expected = serde_json::json!({"allocatable": "10", "allocated": "6", "capacity": "10"});
    assert_eq!(body["leased_ip"], expected);
}
