//! Checks of the rendered chart, for values that users give.
//!
//! Must not be in here: a cluster.

use serde_json::json;

use super::*;

fn rendered(file: &str, settings: &[&str]) -> Objects {
    let chart = Chart::open().unwrap();
    let values = chart.root.join(CHART).join("ci").join(file);
    let values: &[&Path] = if file.is_empty() { &[] } else { &[&values] };
    Objects::parse(&chart.render(values, settings, &[]).unwrap()).unwrap()
}

fn container(objects: &Objects) -> serde_json::Value {
    objects.get("Deployment", "forebay-controller")["spec"]["template"]["spec"]["containers"][0].clone()
}

fn arguments(container: &serde_json::Value) -> Vec<&str> {
    container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect()
}

#[test]
fn the_chart_is_sound_and_what_is_made_from_it_is_up_to_date() {
    run(&Arguments { write: false }).unwrap();
}

#[test]
fn the_chart_is_of_this_version() {
    let objects = rendered("", &[]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(container(&objects)["image"], format!("forebay:{version}"));
    assert_eq!(
        objects.get("Deployment", "forebay-controller")["metadata"]["labels"]["helm.sh/chart"],
        format!("forebay-{version}")
    );
}

#[test]
fn values_for_ingress_nginx_install_without_its_image_hooks_and_probes() {
    let objects = rendered("ingress-nginx-values.yaml", &[]);
    let container = container(&objects);
    assert_eq!(container["image"], concat!("mirror.example.com/forebay:", env!("CARGO_PKG_VERSION")));
    assert_eq!(container["lifecycle"], json!(null));
    assert_eq!(
        container["livenessProbe"]["httpGet"],
        json!({"path": "/livez", "port": 10254, "scheme": "HTTP"})
    );
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let arguments = arguments(&container);
    for argument in [
        "--ingress-class=public",
        "--watch-ingress-without-class=true",
        "--default-ssl-certificate=certificates/wildcard",
        "--enable-ssl-passthrough",
        "--publish-service=$(POD_NAMESPACE)/forebay-controller",
        "--tcp-services-configmap=$(POD_NAMESPACE)/forebay-tcp",
    ] {
        assert!(arguments.contains(&argument), "{argument} in {arguments:?}");
    }
    let settings = &objects.get("ConfigMap", "forebay-controller")["data"];
    assert_eq!(settings["keep-alive-requests"], "100000");
    assert_eq!(settings["add-headers"], "forebay/forebay-custom-add-headers");
    let webhook =
        &objects.get("ValidatingWebhookConfiguration", "forebay-controller-admission")["webhooks"][0];
    assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Fail"), &json!(10)));
    assert_eq!(objects.find("Deployment", "forebay-defaultbackend"), None);
}

#[test]
fn long_bodies_have_a_volume_where_the_values_say() {
    const FOLDER: &str = "/var/cache/forebay/bodies";
    let objects = rendered("", &["controller.bodyBuffer.enabled=true"]);
    let container = container(&objects);
    assert!(arguments(&container).contains(&&*format!("--body-buffer-dir={FOLDER}")));
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(&json!({"name": "bodies", "mountPath": FOLDER})), "{mounts:?}");
    let volumes = &objects.get("Deployment", "forebay-controller")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(*volumes, json!([{"name": "bodies", "emptyDir": {"sizeLimit": "10Gi"}}]));
    let without = self::container(&rendered("", &[]));
    assert!(arguments(&without).iter().all(|argument| !argument.starts_with("--body-buffer-dir")));
}

#[test]
fn the_record_has_a_volume_where_the_values_say() {
    const FOLDER: &str = "/var/cache/forebay/record";
    let objects = rendered("", &["controller.record.enabled=true", "controller.record.size=32m"]);
    let container = container(&objects);
    for argument in [format!("--record={FOLDER}"), "--record-size=32m".to_owned()] {
        assert!(arguments(&container).contains(&&*argument), "{argument}");
    }
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(mounts.contains(&json!({"name": "record", "mountPath": FOLDER})), "{mounts:?}");
    let volumes = &objects.get("Deployment", "forebay-controller")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(*volumes, json!([{"name": "record", "emptyDir": {"sizeLimit": "128Mi"}}]));
    let without = self::container(&rendered("", &[]));
    assert!(arguments(&without).iter().all(|argument| !argument.starts_with("--record")));
}

#[test]
fn people_sign_in_for_the_console() {
    let objects = rendered("console-oidc-values.yaml", &[]);
    let container = container(&objects);
    for argument in [
        "--console-oidc-issuer-url=https://login.example.com/realms/ops",
        "--console-oidc-client-id=forebay-console",
        "--console-oidc-client-secret-file=/etc/forebay/console-oidc/client-secret",
        "--console-oidc-cookie-secret-file=/etc/forebay/console-oidc/cookie-secret",
        "--console-oidc-ca-file=/etc/forebay/console-oidc/ca.pem",
        "--console-oidc-scope=openid,email,groups",
        "--console-oidc-redirect-url=https://console.example.com/console/oauth2/callback",
        "--console-oidc-rule=/cache/purge when claims.groups has \"owners\"",
        "--console-oidc-rule=* when claims.groups has \"platform\"",
        "--admin-host=console.example.com",
    ] {
        assert!(arguments(&container).contains(&argument), "{argument}: {container}");
    }
    let mount = json!({"name": "console-oidc", "mountPath": "/etc/forebay/console-oidc", "readOnly": true});
    assert!(container["volumeMounts"].as_array().unwrap().contains(&mount), "{container}");
    let without = self::container(&rendered("", &[]));
    assert!(arguments(&without).iter().all(|argument| !argument.starts_with("--console-")));
}

#[test]
fn rules_of_the_firewall_are_the_images_or_those_of_a_volume() {
    let usual = container(&rendered("", &["controller.waf.mode=On"]));
    assert!(!arguments(&usual).iter().any(|argument| argument.starts_with("--waf-")), "{usual}");
    let objects = rendered("waf-values.yaml", &[]);
    let container = container(&objects);
    assert!(arguments(&container).contains(&"--waf-rules=/etc/forebay/waf"), "{container}");
    assert!(arguments(&container).contains(&"--waf-unenforced=serve"), "{container}");
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(
        mounts.contains(&json!({"name": "waf-rules", "mountPath": "/etc/forebay/waf", "readOnly": true}))
    );
    let volumes = &objects.get("Deployment", "forebay-controller")["spec"]["template"]["spec"]["volumes"];
    let volume = json!({"name": "waf-rules", "configMap": {"name": "core-rules"}});
    assert!(volumes.as_array().unwrap().contains(&volume), "{volumes}");
    let settings = &objects.get("ConfigMap", "forebay-controller")["data"];
    assert_eq!(settings["forebay-waf-mode"], "DetectionOnly");
    assert_eq!(settings["enable-owasp-modsecurity-crs"], "true");
}

#[test]
fn secrets_are_read_where_the_values_say() {
    let namespaces = |objects: &Objects| -> Vec<String> {
        let bindings = objects.of_kind("RoleBinding").filter(|it| it["roleRef"]["name"] == "forebay-secrets");
        bindings.map(|it| it["metadata"]["namespace"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(namespaces(&rendered("", &[])), ["forebay"]);
    assert_eq!(namespaces(&rendered("ingress-nginx-values.yaml", &[])), ["forebay", "certificates"]);
    let scoped = rendered("scoped-values.yaml", &[]);
    assert_eq!(namespaces(&scoped), [""; 0]);
    assert_eq!(scoped.get("Role", "forebay-scope")["metadata"]["namespace"], "team");
    assert_eq!(scoped.of_kind("ClusterRole").count(), 0);
    assert_eq!(namespaces(&rendered("", &["rbac.secrets.namespaces={a,forebay}"])), ["forebay", "a"]);
    let everywhere = rendered("", &["rbac.secrets.clusterWide=true"]);
    assert_eq!(namespaces(&everywhere), [""; 0]);
    everywhere.get("ClusterRoleBinding", "forebay-secrets");
}

#[test]
fn nothing_is_written_but_status_events_and_the_lease() {
    for file in ["", "ingress-nginx-values.yaml", "scoped-values.yaml", "daemonset-host-network-values.yaml"]
    {
        let objects = rendered(file, &[]);
        for role in objects.of_kind("ClusterRole").chain(objects.of_kind("Role")) {
            for rule in role["rules"].as_array().unwrap() {
                let words = |key: &str| -> Vec<_> {
                    rule[key].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
                };
                let writes = words("verbs").iter().any(|verb| !["get", "list", "watch"].contains(verb));
                let may_be_written = |resource: &&str| {
                    resource.ends_with("/status") || ["events", "leases"].contains(resource)
                };
                assert!(!writes || words("resources").iter().all(may_be_written), "{file}: {rule}");
                assert!(!rule.to_string().contains('*'), "{file}: {rule}");
            }
        }
    }
}

#[test]
fn low_ports_need_no_root_with_the_network_of_the_pod_and_of_the_node() {
    let pod = |objects: &Objects, kind: &str| {
        objects.get(kind, "forebay-controller")["spec"]["template"]["spec"].clone()
    };
    let own = pod(&rendered("", &[]), "Deployment");
    let sysctls = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    assert_eq!(own["securityContext"]["sysctls"], sysctls);
    assert_eq!(own["containers"][0]["securityContext"]["allowPrivilegeEscalation"], false);
    let of_node = pod(&rendered("daemonset-host-network-values.yaml", &[]), "DaemonSet");
    assert_eq!(of_node["securityContext"]["sysctls"], json!(null));
    let context = &of_node["containers"][0]["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], true);
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}));
}

#[test]
fn wrong_types_are_refused_and_unknown_keys_are_not() {
    let chart = Chart::open().unwrap();
    for (setting, place) in [
        ("controller.kind=StatefulSet", "/controller/kind"),
        ("controller.replicaCount=many", "/controller/replicaCount"),
        ("controller.metrics.enabled=1", "/controller/metrics/enabled"),
        ("controller.image.digest=sha256:12ab", "/controller/image/digest"),
        ("tcp.ssh=a/b:22", "ssh"),
    ] {
        let error = chart.render(&[], &[setting], &[]).unwrap_err().to_string();
        assert!(error.contains(place), "{setting}: {error}");
    }
    let unknown = ["controller.opentelemetry.enabled=true", "podSecurityPolicy.enabled=true"];
    chart.render(&[], &unknown, &[]).unwrap();
}

#[test]
fn evictions_leave_a_pod_where_there_are_several_and_are_never_held_up_by_one() {
    let budget = |settings: &[&str]| {
        let objects = rendered("", settings);
        let found = objects.find("PodDisruptionBudget", "forebay-controller")?;
        let spec = &found["spec"];
        Some((spec["minAvailable"].clone(), spec["maxUnavailable"].clone()))
    };
    assert_eq!(budget(&[]), None);
    assert_eq!(budget(&["controller.replicaCount=2"]), Some((json!(1), json!(null))));
    let half = ["controller.replicaCount=4", "controller.maxUnavailable=50%"];
    assert_eq!(budget(&half), Some((json!(null), json!("50%"))));
    // One Pod now and maybe several soon.
    assert_eq!(budget(&["controller.autoscaling.enabled=true"]), Some((json!(null), json!(1))));
    let scaled = ["controller.autoscaling.enabled=true", "controller.autoscaling.minReplicas=2"];
    assert_eq!(budget(&scaled), Some((json!(1), json!(null))));
    assert_eq!(budget(&["controller.kind=DaemonSet", "controller.replicaCount=2"]), None);
}

#[test]
fn pods_spread_over_nodes_and_zones_by_their_own_labels() {
    let objects = rendered("", &["nameOverride=edge"]);
    let pod = &objects.get("Deployment", "forebay-edge-controller")["spec"]["template"];
    let constraints = pod["spec"]["topologySpreadConstraints"].as_array().unwrap();
    let keys: Vec<_> = constraints.iter().map(|it| it["topologyKey"].as_str().unwrap()).collect();
    assert_eq!(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
    for constraint in constraints {
        let labels = constraint["labelSelector"]["matchLabels"].as_object().unwrap();
        assert!(labels.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value), "{labels:?}");
        assert_eq!(constraint["whenUnsatisfiable"], "ScheduleAnyway");
    }
}

#[test]
fn the_test_asks_the_admin_server_of_the_controller() {
    let objects = rendered("", &[]);
    let pod = objects.get("Pod", "forebay-controller-test");
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
    assert_eq!(pod["spec"]["containers"][0]["image"], container(&objects)["image"]);
    let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "http://forebay-controller-test/readyz");
    // Every rendering checks that the Service leads to the controller.
    let service = objects.get("Service", "forebay-controller-test");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "metrics");
}

#[test]
fn rules_come_with_the_chart_but_for_those_that_are_left_out() {
    let chart = Chart::open().unwrap();
    let text = fs::read_to_string(chart.root.join("deploy/monitoring/rules/forebay.yaml")).unwrap();
    let file: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    let rules = |groups: &serde_json::Value| -> Vec<serde_json::Value> {
        groups
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect()
    };
    let objects = rendered("metrics-values.yaml", &[]);
    let spec = &objects.get("PrometheusRule", "forebay-controller")["spec"];
    let (ours, rendered_rules) = (rules(&file["groups"]), rules(&spec["groups"]));
    assert_eq!(rendered_rules[0], json!({"record": "forebay:error_budget:ratio", "expr": "vector(0.005)"}));
    let left_out: Vec<_> = ours[1..].iter().filter(|rule| !rendered_rules.contains(rule)).collect();
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0]["alert"], "ForebayDoctorFailure");
    let runbook = ["controller.metrics.prometheusRule.defaults.runbookUrl=https://docs.test/"];
    let objects = rendered("metrics-values.yaml", &runbook);
    let spec = &objects.get("PrometheusRule", "forebay-controller")["spec"];
    let gone = rules(&spec["groups"]).into_iter().find(|rule| rule["alert"] == "ForebayGone").unwrap();
    let url = gone["annotations"]["runbook_url"].as_str().unwrap();
    assert!(url.starts_with("https://docs.test/docs/troubleshooting.md#"), "{url}");
    let own = rendered_rules.last().unwrap();
    assert_eq!((&own["alert"], rendered_rules.len()), (&json!("IngressErrors"), ours.len()));
    let unknown = [
        "metrics.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "metrics.prometheusRule.defaults.disabled={Nobody}",
    ];
    let settings = unknown.map(|setting| format!("controller.{setting}"));
    let error = chart.render(&[], &settings.each_ref().map(|it| &**it), &[]).unwrap_err().to_string();
    assert!(error.contains("no alert is called Nobody"), "{error}");
}

#[test]
fn dashboards_are_where_grafanas_sidecar_finds_them() {
    let objects = rendered("metrics-values.yaml", &[]);
    let map = objects.get("ConfigMap", "forebay-dashboards");
    let metadata = &map["metadata"];
    assert_eq!(
        (&metadata["namespace"], &metadata["labels"]["grafana_dashboard"]),
        (&json!("default"), &json!("1"))
    );
    let titles = ["forebay.json", "forebay-routes.json"].map(|file| {
        let json: serde_json::Value = serde_json::from_str(map["data"][file].as_str().unwrap()).unwrap();
        json["title"].clone()
    });
    assert_eq!(titles, [json!("Forebay"), json!("Forebay: routes")]);
    assert!(rendered("", &[]).find("ConfigMap", "forebay-dashboards").is_none());
}
