//! Warnings and errors of the charts, and objects that depend on a value.

use super::{Helm, OPERATORS, OWN, PROVIDER, SPACE, check_settings, sources};
use serde_json::{Value, json};
use testbed::{Testbed, Tier};

/// Renders a release with the objects of the cluster, and changes nothing.
const DRY: &str = "--dry-run=server";

/// Warnings of a chart name the unknown value, the most similar value and the values with a password.
#[test]
fn notes_warn_of_unknown_values_and_of_passwords_in_values() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let notes = |chart: &str, set: &str| {
        let (folder, values) = sources(chart);
        let values = ["--values", &values, "--set", set];
        helm.run(&[&["install", chart, &folder, DRY, OWN], &values[..]].concat())
    };
    for (chart, set, warning) in [
        (
            PROVIDER,
            "bidPriceCpuscal=1",
            "`bidPriceCpuscal`; did you mean `bidpricecpuscale`?",
        ),
        (
            PROVIDER,
            "gatewayApi.name=a",
            "`gatewayApi.name`; did you mean `gatewayApi.gatewayName`?",
        ),
        (PROVIDER, "zzzz=1", "unknown value `zzzz`\n"),
        (
            PROVIDER,
            "redis.url=redis://:pw@host:6379",
            "`redis.url` contains a password",
        ),
        (
            PROVIDER,
            "settings.bus=redis://u:pw@host",
            "`settings.bus` contains a password",
        ),
        (
            "akash-ip-operator",
            "replicacount=2",
            "`replicacount`; did you mean `replicaCount`?",
        ),
    ] {
        let notes = notes(chart, set);
        assert!(notes.contains(warning), "{set}: {notes}");
    }
    for (chart, _) in OPERATORS {
        let notes = notes(chart, "global.any=1");
        assert!(!notes.contains("WARNING"), "{notes}");
    }
    let notes = notes(PROVIDER, "redis.url=redis://host:6379");
    assert!(!notes.contains("password"), "{notes}");
}

/// A conflict in the cluster gives one error with the remedy, before Helm changes an object.
#[test]
fn second_release_and_outdated_definitions_get_one_error() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let error = |chart: &str, release: &str, more: &[&str]| {
        let (folder, values) = sources(chart);
        let install = ["install", release, &folder, DRY, OWN, "--values", &values];
        let output = helm.output(&[&install, more].concat());
        assert!(!output.status.success(), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        let errors = stderr.lines().filter(|line| line.contains("Error"));
        assert_eq!(errors.count(), 1, "{stderr}");
        stderr
    };
    for chart in [PROVIDER, "akash-ip-operator"] {
        helm.install(chart);
        let text = error(chart, "second", &[]);
        let owner = format!("belong to release {chart} in namespace {SPACE}");
        assert!(
            text.contains(&owner) && text.contains("rbac.create=false"),
            "{text}"
        );
    }
    let user = format!("--kube-as-user=system:serviceaccount:{SPACE}:default");
    let text = error(PROVIDER, PROVIDER, &[&user]);
    assert!(text.contains("is forbidden"), "{text}");
    helm.run(&["uninstall", PROVIDER]);
    let serve = |newer: bool| {
        let patch = format!(
            r#"[{{"op":"replace","path":"/spec/versions/0/served","value":{newer}}},
                {{"op":"replace","path":"/spec/versions/1/served","value":{}}}]"#,
            !newer
        );
        let (kind, patch) = ("customresourcedefinition", format!("--patch={patch}"));
        let args = ["patch", kind, "manifests.akash.network", "--type=json", &patch];
        cluster.kubectl(&args).unwrap();
    };
    serve(false);
    let run = std::panic::AssertUnwindSafe(|| error(PROVIDER, PROVIDER, &[]));
    let text = std::panic::catch_unwind(run);
    serve(true);
    let text = text.unwrap();
    for part in [
        "manifests.akash.network is outdated",
        "kubectl apply --filename deploy/crds",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// Disruption budgets and limits of outgoing connections are there only if they can block nothing, or on request.
#[test]
fn disruption_budgets_need_two_instances_and_egress_policies_need_a_value() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    let install = |chart: &str, more: &[&str]| {
        let (folder, values) = sources(chart);
        let fixed = ["upgrade", "--install", chart, &folder, "--values", &values, OWN];
        helm.run(&[&fixed, more].concat());
    };
    for (chart, name) in OPERATORS {
        install(chart, &[]);
        let space = format!("--namespace={SPACE}");
        let budgets = cluster
            .kubectl(&["get", "poddisruptionbudgets", &space, "--output=name"])
            .unwrap();
        assert!(!budgets.contains(name), "{budgets}");
        assert_eq!(
            helm.get("networkpolicy", name)["spec"]["policyTypes"],
            json!(["Ingress"])
        );
        let more = ["--set=replicaCount=2", "--set=networkPolicy.egress.enabled=true"];
        install(chart, &more);
        let budget = helm.get("poddisruptionbudget", name)["spec"].clone();
        assert_eq!(budget["maxUnavailable"], 1);
        let selector = helm.get("deployment", name)["spec"]["selector"].clone();
        assert_eq!(budget["selector"], selector);
        let policy = helm.get("networkpolicy", name)["spec"].clone();
        assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(ports(&policy["egress"][0]), [53, 53, 443, 6443]);
    }
    install(PROVIDER, &[]);
    let policy = helm.get("networkpolicy", PROVIDER)["spec"].clone();
    assert_eq!(policy["policyTypes"], json!(["Ingress"]));
    let more = [
        "--set=networkPolicy.egress.enabled=true",
        "--set=node=https://a.example:1443\\,http://b.example",
        "--set=redis.url=redis-sentinel://host:26380/main",
        "--set=networkPolicy.egress.rules[0].to[0].ipBlock.cidr=192.0.2.0/24",
    ];
    install(PROVIDER, &more);
    let policy = helm.get("networkpolicy", PROVIDER)["spec"].clone();
    let expected = [53, 53, 80, 443, 1443, 6379, 6443, 9090, 26380, 26657];
    assert_eq!(ports(&policy["egress"][0]), expected);
    assert_eq!(ports(&policy["egress"][1]), [8080, 8081, 8443, 8444]);
    assert_eq!(policy["egress"][2]["to"][0]["ipBlock"]["cidr"], "192.0.2.0/24");
}

/// A second instance takes part in the election of the first one. The account may label the pods of the release, and
/// change nothing else of them.
#[test]
fn second_instance_needs_an_election_and_the_account_may_only_label_its_pods() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    let helm = Helm::new(&cluster);
    helm.install(PROVIDER);
    let (folder, values) = sources(PROVIDER);
    let upgrade = ["upgrade", PROVIDER, &folder, "--values", &values, OWN];
    let (two, election) = ("--set=replicaCount=2", "--set=settings.ha=kubernetes");
    let output = helm.output(&[&upgrade[..], &[two]].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("takes part in no leader election"), "{stderr}");
    helm.run(&[&upgrade[..], &[election]].concat());
    let notes = helm.run(&[&upgrade[..], &[election, two]].concat());
    assert!(!notes.contains("unknown value"), "{notes}");
    check_settings(&helm);
    assert_eq!(
        helm.get("poddisruptionbudget", PROVIDER)["spec"]["maxUnavailable"],
        1
    );
    let role = "provider.akash.network/role";
    assert_eq!(helm.get("service", PROVIDER)["spec"]["selector"][role], "leader");
    let metrics = helm.get("service", "akash-provider-metrics")["spec"].clone();
    assert_eq!(
        (&metrics["selector"][role], &metrics["clusterIP"]),
        (&Value::Null, &json!("None"))
    );
    helm.until_pods(&[PROVIDER]);
    let (user, space) = (
        format!("--as=system:serviceaccount:{SPACE}:{PROVIDER}"),
        format!("--namespace={SPACE}"),
    );
    let can = |pod: &str| {
        let asked = cluster.kubectl(&["auth", "can-i", "patch", pod, &user, &space]);
        asked.is_ok_and(|answer| answer.trim() == "yes")
    };
    assert!(can("pods/akash-provider-1") && !can("pods/akash-provider-2"));
    let patch = |patch: Value| {
        let patch = format!("--patch={patch}");
        let pod = ["patch", "pod", "akash-provider-0", "--type=merge", &patch];
        cluster.kubectl(&[&pod[..], &[&user, &space]].concat())
    };
    patch(json!({"metadata": {"labels": {role: "leader"}}})).unwrap();
    let denied = patch(json!({"spec": {"activeDeadlineSeconds": 5000}})).unwrap_err();
    let denied = denied.to_string();
    assert!(denied.contains("ValidatingAdmissionPolicy"), "{denied}");
}

/// Returns the sorted ports of a rule of a NetworkPolicy.
fn ports(rule: &Value) -> Vec<u64> {
    let ports = rule["ports"].as_array().unwrap().iter();
    let mut ports: Vec<u64> = ports.map(|port| port["port"].as_u64().unwrap()).collect();
    ports.sort_unstable();
    ports
}
