//! Examples of every command. A test parses each example.

/// Returns the examples of a command. `path` excludes the name of the program.
pub(super) fn examples(path: &str) -> &'static [&'static str] {
    let all = EXAMPLES.iter().find(|(name, _)| *name == path);
    all.map_or(&[], |(_, lines)| lines)
}

/// Path and examples of each command.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "dev",
        &[
            "dev",
            "dev --once my-app.yaml",
            "dev --processes my-app.yaml",
            "dev --orders 100 --rate 20 --node-gpus nvidia/a100=4",
        ],
    ),
    (
        "devnet",
        &[
            "devnet",
            "devnet --state chain.json --block-time 6s",
            "devnet tenant deploy my-app.yaml",
        ],
    ),
    (
        "devnet tenant deploy",
        &["devnet tenant deploy my-app.yaml --deposit 5000000uact"],
    ),
    (
        "devnet tenant accept",
        &["devnet tenant accept 42", "devnet tenant accept 42 --output json"],
    ),
    ("devnet tenant update", &["devnet tenant update 42 my-app.yaml"]),
    ("devnet tenant close", &["devnet tenant close 42"]),
    ("devnet tenant deposit", &["devnet tenant deposit 42 1000000uact"]),
    ("state show", &["state show", "state show --output json"]),
    (
        "state reset-height",
        &["state reset-height --chain-id akashnet-2"],
    ),
    (
        "sdl",
        &[
            "sdl validate my-app.yaml",
            "sdl validate my-app.yaml -o json",
            "sdl manifest my-app.yaml",
            "sdl hash -",
        ],
    ),
    (
        "operator hostname",
        &[
            "operator hostname",
            "operator hostname --ingress-class traefik --ingress-controller traefik",
            "operator hostname --ingress-mode gateway-api --gateway-name edge --gateway-provider istio",
            "operator hostname --tls-issuer letsencrypt --deployment-blocked-hostnames provider.example.com",
        ],
    ),
    (
        "replay",
        &[
            "replay /var/lib/provider/flight",
            "replay flight --order akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm/42/1/1",
            "replay flight --until 2026-11-23T18:00:00Z --output json",
        ],
    ),
    (
        "bundle",
        &[
            "bundle /var/lib/provider/flight --out report.tar.gz",
            "bundle flight --out report.tar.gz --from 2026-11-23T17:00:00Z --until 2026-11-23T18:00:00Z",
        ],
    ),
    (
        "bus tail",
        &[
            "bus tail --bus redis://10.0.0.1",
            "bus tail akash.provider.facts --bus redis-sentinel://10.0.0.1,10.0.0.2/provider --bus-password-file pw -o json",
            "bus tail akash.provider.cluster.status --last --bus rediss://bus.example.com",
        ],
    ),
    ("bus schema", &["bus schema"]),
    (
        "price check",
        &["price check prices.yaml", "price check prices.yaml --output json"],
    ),
    (
        "tools psutil list",
        &["tools psutil list gpu", "tools psutil list cpu --root /host"],
    ),
    (
        "tools psutil serve",
        &[
            "tools psutil serve",
            "tools psutil serve --api-address 127.0.0.1 --api-port 9000 --pcidb-enable-network-fetch",
        ],
    ),
    ("migrate list", &["migrate list", "migrate list -o json"]),
    (
        "migrate run",
        &["migrate run --kubeconfig cluster.yaml --gateway-namespace gates"],
    ),
    (
        "operator status",
        &["operator status", "operator status --output json"],
    ),
    (
        "operator inventory",
        &[
            "operator inventory --config /etc/inventory/rules.yaml --state-dir /var/lib/inventory",
            "operator inventory --gpu-list gpus.json --provider-configs-url=",
            "operator inventory --discovery-image registry.example.com/provider:1 --discovery-namespace akash-discovery",
        ],
    ),
    (
        "operator hostname forget",
        &[
            "operator hostname forget akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0",
        ],
    ),
    (
        "operator hostname confirm",
        &[
            "operator hostname confirm",
            "operator hostname confirm --rest-port 8081",
        ],
    ),
    (
        "operator ip",
        &[
            "operator ip --provider akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0",
            "operator ip --provider akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --metal-lb-pool public --metal-lb-annotations both",
        ],
    ),
    (
        "operator ip forget",
        &[
            "operator ip forget akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0",
        ],
    ),
    ("operator ip confirm", &["operator ip confirm --rest-port 8085"]),
    (
        "doctor",
        &[
            "doctor --config provider-settings.yaml",
            "doctor --from main --chain-id akashnet-2 --node https://rpc.example:443 --cluster-k8s --output json",
            "doctor --config provider-settings.yaml --fix",
        ],
    ),
    (
        "explain",
        &[
            "explain my-app.yaml --node-gpus nvidia/a100=1",
            "explain my-app.yaml --from main --chain-id akashnet-2 --node https://rpc.example:443 --kubeconfig cluster.yaml",
            "explain my-app.yaml --provider akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --node https://rpc.example:443",
            "explain --order akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42/1/1 --from main --kubeconfig cluster.yaml",
        ],
    ),
    (
        "keys add",
        &[
            "keys add main",
            "keys add main --recover",
            "keys add main --source mnemonic.txt --keyring-backend test",
        ],
    ),
    ("keys list", &["keys list", "keys list --list-names"]),
    ("keys show", &["keys show main", "keys show main --address"]),
    ("keys import", &["keys import main key.txt"]),
    ("keys export", &["keys export main"]),
    ("keys delete", &["keys delete main --yes"]),
    (
        "query provider get",
        &["query provider get akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0"],
    ),
    ("query provider list", &["query provider list --limit 20 -o json"]),
    (
        "query cert list",
        &["query cert list --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --state valid"],
    ),
    (
        "query market order get",
        &["query market order get --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42"],
    ),
    (
        "query market order list",
        &["query market order list --state open"],
    ),
    (
        "query market bid get",
        &[
            "query market bid get --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
        ],
    ),
    (
        "query market bid list",
        &["query market bid list --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm --state open"],
    ),
    (
        "query market lease get",
        &[
            "query market lease get --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
        ],
    ),
    (
        "query market lease list",
        &["query market lease list --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm --state active"],
    ),
    ("query market params", &["query market params -o json"]),
    ("query orders", &["query orders --state open --limit 10"]),
    (
        "query bids",
        &["query bids --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"],
    ),
    (
        "query leases",
        &["query leases --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --state active -o json"],
    ),
    (
        "query deployment get",
        &["query deployment get --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42"],
    ),
    (
        "query deployment list",
        &["query deployment list --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --state active"],
    ),
    (
        "query deployment group get",
        &[
            "query deployment group get --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42 --gseq 1",
        ],
    ),
    ("query deployment params", &["query deployment params"]),
    (
        "query escrow accounts",
        &[
            "query escrow accounts open",
            "query escrow accounts open deployment/akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42",
        ],
    ),
    (
        "query escrow payments",
        &["query escrow payments open --limit 20"],
    ),
    (
        "query audit get",
        &["query audit get akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"],
    ),
    ("query audit list", &["query audit list"]),
    (
        "query bank balances",
        &["query bank balances akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0"],
    ),
    (
        "query auth account",
        &["query auth account akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --node https://rpc.example:443"],
    ),
    ("query params", &["query params -o json"]),
    (
        "query tx",
        &["query tx 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"],
    ),
    (
        "tx cert generate client",
        &["tx cert generate client --from main"],
    ),
    (
        "tx cert generate server",
        &["tx cert generate server provider.example.com --from main"],
    ),
    (
        "tx cert publish",
        &["tx cert publish server --from main --chain-id akashnet-2 --node https://rpc.example:443"],
    ),
    ("tx cert revoke", &["tx cert revoke server --from main --yes"]),
    (
        "tx provider create",
        &[
            "tx provider create provider.yaml --from main --chain-id akashnet-2 --node https://rpc.example:443",
            "tx provider create provider.yaml --from main --dry-run",
        ],
    ),
    (
        "tx provider update",
        &["tx provider update provider.yaml --from main --yes"],
    ),
    (
        "tx provider apply",
        &["tx provider apply provider.yaml --from main --yes"],
    ),
    (
        "tx deployment create",
        &[
            "tx deployment create my-app.yaml --from main --chain-id akashnet-2 --node https://rpc.example:443",
            "tx deployment create my-app.yaml --from main --deposit 5000000uact --dry-run",
        ],
    ),
    (
        "tx deployment update",
        &["tx deployment update my-app.yaml --dseq 42 --from main --yes"],
    ),
    (
        "tx deployment close",
        &["tx deployment close --dseq 42 --from main --yes"],
    ),
    (
        "tx market lease create",
        &[
            "tx market lease create --dseq 42 --from main --wait",
            "tx market lease create --dseq 42 --from main --provider akash1365yvmc4s7awdyj3n2sav7xfx76adc6dnmlx63",
        ],
    ),
    (
        "tx escrow deposit deployment",
        &["tx escrow deposit deployment 5000000uact --dseq 42 --from main"],
    ),
    (
        "run",
        &[
            "run --from main --chain-id akashnet-2 --node https://rpc.example:443 --cluster-k8s --bid-price-cpu-scale 0.004 --bid-price-memory-scale 0.0016 --bid-price-storage-scale 0.00016",
            "run --from main --chain-id akashnet-2 --nodes 1 --bid-price-strategy shellScript --bid-price-script-path price.sh",
        ],
    ),
    (
        "config show",
        &[
            "config show --output json",
            "config show --provider-config provider.yaml",
        ],
    ),
    ("config check", &["config check", "config check provider.yaml"]),
    ("config schema", &["config schema"]),
    ("breaker show", &["breaker show --output json"]),
    (
        "breaker release",
        &[
            "breaker release",
            "breaker release --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0",
        ],
    ),
    ("reconcile", &["reconcile --dry-run", "reconcile"]),
    ("leases", &["leases", "leases --output json"]),
    ("capacity", &["capacity", "capacity --output json"]),
    (
        "harden",
        &[
            "harden --all",
            "harden akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
        ],
    ),
    (
        "end-lease",
        &[
            "end-lease akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm \
             --reason decommission",
        ],
    ),
    ("log-level", &["log-level", "log-level debug"]),
    (
        "audit",
        &[
            "audit --since 168h",
            "audit --lease akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm -o json",
        ],
    ),
    (
        "orders",
        &["orders --since 168h", "orders --declined --code gpu -o json"],
    ),
    (
        "order",
        &[
            "order akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0/42/1/1",
            "order 42",
        ],
    ),
    ("summary", &["summary", "summary --since 168h -o json"]),
    (
        "send-manifest",
        &[
            "send-manifest my-app.yaml --dseq 42 --from main",
            "send-manifest my-app.yaml --dseq 42 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm -o json",
        ],
    ),
    ("get-manifest", &["get-manifest --dseq 42 -o yaml"]),
    (
        "lease-status",
        &["lease-status --dseq 42 --wait", "lease-status --dseq 42 -o json"],
    ),
    ("service-status", &["service-status --dseq 42 --service web"]),
    (
        "lease-logs",
        &[
            "lease-logs --dseq 42 --follow",
            "lease-logs --dseq 42 --service web,db --tail 100",
        ],
    ),
    ("lease-events", &["lease-events --dseq 42 --follow"]),
    (
        "lease-shell",
        &[
            "lease-shell --dseq 42 --tty web /bin/sh",
            "lease-shell --dseq 42 web -- ls -la /tmp",
        ],
    ),
    ("lease-attestation", &["lease-attestation --dseq 42"]),
    ("status", &["status akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"]),
    (
        "migrate-hostnames",
        &[
            "migrate-hostnames app.example.com --dseq 43 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
        ],
    ),
    (
        "migrate-endpoints",
        &["migrate-endpoints my-ip --dseq 43 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"],
    ),
    ("sdl-to-manifest", &["sdl-to-manifest my-app.yaml -o yaml"]),
    (
        "show-cluster-ns",
        &[
            "show-cluster-ns --owner akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0 --dseq 42 --provider akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm",
        ],
    ),
    ("version", &["version"]),
    ("completions", &["completions bash", "completions zsh"]),
];
