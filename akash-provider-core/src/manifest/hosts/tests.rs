use super::*;
use crate::manifest::Proto;
use crate::types::DeploymentId;

fn lease() -> LeaseId {
    let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
    DeploymentId::new(owner, 1001)
        .group(1)
        .order(1)
        .bid("akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap())
}

fn group(exposes: &str) -> Group {
    let text = format!(
        r#"
version: "2.0"
endpoints: {{front: {{kind: ip}}}}
services:
  web:
    image: nginx
    expose: [{exposes}, {{port: 9999, to: [{{global: true, ip: front}}]}}]
profiles:
  compute: {{small: {{resources: {{cpu: {{units: 1}}, memory: {{size: 1Gi}}, storage: {{size: 1Gi}}}}}}}}
  placement: {{west: {{pricing: {{small: {{denom: uakt, amount: 1}}}}}}}}
deployment: {{web: {{west: {{profile: small, count: 1}}}}}}
"#
    );
    crate::sdl::parse(&text).unwrap().manifest.groups.remove(0)
}

fn names(declarations: &[HostnameDeclaration]) -> Vec<&str> {
    declarations.iter().map(|d| d.hostname.as_str()).collect()
}

#[test]
fn ingress_exposes_get_the_automatic_host_and_the_listed_ones() {
    let group = group("{port: 8080, as: 80, accept: [b.com, a.com], to: [{global: true}]}");
    let lease = lease();
    let automatic = format!("{}.ingress.example.com", lease.ingress_label("web"));
    let wanted = hostnames_wanted(&group, &lease, Some("ingress.example.com"));
    assert_eq!(names(&wanted), [automatic.as_str(), "b.com", "a.com"]);
    assert!(wanted.iter().all(|d| d.service == "web" && d.external_port == 80));
    assert_eq!(names(&hostnames_wanted(&group, &lease, None)), ["b.com", "a.com"]);
    assert_eq!(custom_hosts(&group), ["b.com", "a.com"]);
}

#[test]
fn two_ingress_exposes_of_a_service_share_one_automatic_host() {
    let group = group("{port: 80, to: [{global: true}]}, {port: 8080, as: 80, to: [{global: true}]}");
    assert_eq!(hostnames_wanted(&group, &lease(), Some("example.com")).len(), 1);
}

#[test]
fn hosts_are_lower_case_and_only_of_ingress_exposes_when_declared() {
    let mut group =
        group("{port: 80, to: [{global: true}]}, {port: 81, accept: [x.com], to: [{global: true}]}");
    group.services[0].expose[0].hosts = Some(vec!["KITTENS.com".to_owned(), "kittens.com".to_owned()]);
    assert_eq!(names(&hostnames_wanted(&group, &lease(), None)), ["kittens.com"]);
    assert_eq!(custom_hosts(&group), ["kittens.com", "x.com"]);
}

#[test]
fn leased_ips_carry_the_owners_sharing_key() {
    let group = group("{port: 80, to: [{global: true}]}");
    let lease = lease();
    let expected = IpDeclaration {
        service: "web".to_owned(),
        port: 9999,
        external_port: 9999,
        proto: Proto::Tcp,
        sharing_key: ip_sharing_key(lease.owner(), "front"),
    };
    assert_eq!(ips_wanted(&group, &lease), [expected]);
}

#[test]
fn without_static_hosts_every_ingress_expose_needs_a_hostname() {
    let bare = group("{port: 8080, as: 80, to: [{global: true}]}");
    let expected = "service \"web\" exposed on 80:TCP must have a hostname: list one under `accept:` in the SDL (this \
                    provider assigns none; its operator can set --deployment-ingress-static-hosts and \
                    --deployment-ingress-domain)";
    assert_eq!(missing_hostname(&bare, false).as_deref(), Some(expected));
    assert_eq!(missing_hostname(&bare, true), None);
    let named = group("{port: 8080, as: 80, accept: [a.com], to: [{global: true}]}");
    assert_eq!(missing_hostname(&named, false), None);
}

#[test]
fn an_update_keeps_the_names_of_services() {
    let old = group("{port: 80, to: [{global: true}]}");
    let mut new = old.clone();
    new.services[0].image = "other".to_owned();
    assert!(same_services(&old, &new));
    new.services[0].name = "renamed".to_owned();
    assert!(!same_services(&old, &new));
    assert!(!same_services(
        &old,
        &Group {
            services: vec![],
            ..new
        }
    ));
}
