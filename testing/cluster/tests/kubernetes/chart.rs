//! The Helm chart: the API server accepts its objects, and Forebay serves as installed, with the rights that
//! it grants.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cluster::Helm;
use serde_json::{Value, json};
use testkit::{Authority, Connection, TlsClient};

use crate::pods::deploy_payload;
use crate::space::{Space, await_that, forebay};

/// Namespaces that the values files name.
const NAMESPACES: [&str; 3] = ["certificates", "other", "team"];
/// Kinds of others that the chart makes objects of. Of these, the API server here only knows that they exist.
const CUSTOM: [(&str, &str, &str, &str); 6] = [
    ("cert-manager.io", "v1", "Certificate", "certificates"),
    ("cert-manager.io", "v1", "Issuer", "issuers"),
    ("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
];

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/forebay")
}

/// Runs kubectl, with `input`, and wants it to succeed.
fn kubectl(arguments: &[&str], input: &str) {
    let mut command = Command::new("kubectl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("kubectl reads");
    let output = child.wait_with_output().expect("kubectl ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
}

fn custom_kinds() -> String {
    let definitions = CUSTOM.map(|(group, version, kind, plural)| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version =
            json!({"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
        let scope = if kind == "GatewayClass" { "Cluster" } else { "Namespaced" };
        // The API server has nobody else define the kinds of its own project.
        let annotations = json!({"api-approved.kubernetes.io": "unapproved, for a test"});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "annotations": annotations},
            "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
        })
    });
    json!({"apiVersion": "v1", "kind": "List", "items": definitions}).to_string()
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A release, which goes when this is dropped.
pub(crate) struct Release<'a> {
    helm: Helm,
    space: &'a Space,
}

impl<'a> Release<'a> {
    /// Installs the chart for the class of a test, named as the test is.
    pub(crate) fn install(space: &'a Space, settings: &[&str]) -> Self {
        let helm = Helm::install().expect("Helm");
        let release = Release { helm, space };
        release.run("install", settings);
        release
    }

    pub(crate) fn upgrade(&self, settings: &[&str]) {
        self.run("upgrade", settings);
    }

    fn run(&self, verb: &str, settings: &[&str]) {
        let (name, chart) = (&*self.space.name, chart());
        let own = [
            format!("fullnameOverride={name}"),
            format!("controller.ingressClassResource.controllerValue={}", self.space.controller()),
            format!("controller.ingressClass={name}"),
            "controller.ingressClassResource.enabled=false".to_owned(),
            "controller.service.type=ClusterIP".to_owned(),
            "controller.shutdownGracePeriod=0".to_owned(),
        ];
        let mut arguments =
            [verb, name, &chart.display().to_string(), "--namespace", name].map(String::from).to_vec();
        let settings = own.into_iter().chain(settings.iter().map(|setting| (*setting).to_owned()));
        arguments.extend(settings.map(|setting| format!("--set={setting}")));
        self.helm.run(arguments).expect("Helm installs");
    }

    /// The address of the one Pod, once it is ready.
    fn pod(&self) -> String {
        let controller = format!("{}-controller", self.space.name);
        self.space.await_rollout(&controller);
        let pods = self.space.client.list("Pod", &self.space.name).expect("the API answers");
        let pod =
            pods.iter().find(|pod| pod["metadata"]["labels"]["app.kubernetes.io/component"] == "controller");
        pod.and_then(|pod| pod["status"]["podIP"].as_str()).expect("a Pod with an address").to_owned()
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let name = &*self.space.name;
        if let Err(error) = self.helm.run(["uninstall", name, "--namespace", name]) {
            eprintln!("{error:#}");
        }
    }
}

fn address(host: &str, port: u16) -> SocketAddr {
    format!("{host}:{port}").parse().expect("an address")
}

/// The arguments of the controller's container, of rendered manifests.
fn arguments(rendered: &str) -> Vec<String> {
    let lines = rendered.lines().map(str::trim).skip_while(|line| *line != "- serve");
    let lines = lines.take_while(|line| *line != "env:").filter_map(|line| line.strip_prefix("- "));
    lines.map(|argument| argument.trim_matches('"').to_owned()).collect()
}

#[test]
fn the_api_server_and_forebay_take_what_all_values_files_make() {
    let space = Space::new("values");
    for name in NAMESPACES {
        space.client.apply(&namespace(name)).expect("a namespace");
    }
    kubectl(&["apply", "--server-side", "-f", "-"], &custom_kinds());
    kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "");
    let helm = Helm::install().expect("Helm");
    let chart = chart();
    for values in fs::read_dir(chart.join("ci")).expect("values files") {
        let values = values.expect("an entry").path();
        let template = ["template", "forebay", &chart.display().to_string(), "--namespace", &space.name]
            .map(String::from);
        let template = template.into_iter().chain([format!("--values={}", values.display())]);
        let rendered = helm.run(template).expect("it is rendered");
        kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"], &rendered);
        // An unknown argument is an error before the help at the end is printed.
        let arguments = arguments(&rendered);
        assert!(arguments.len() > 5, "{arguments:?}");
        let output = Command::new(forebay()).args(&arguments).arg("--help").output().expect("Forebay");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for name in NAMESPACES {
        space.client.delete(&namespace(name)).expect("it is deleted");
    }
}

#[test]
fn the_manifests_pass_the_restricted_pod_security_standard() {
    let space = Space::new("static");
    let file = chart().join("../../static/deploy.yaml");
    let text = fs::read_to_string(file).expect("deploy/static/deploy.yaml");
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"});
    let object = json!({"kind": "Namespace", "metadata": {"name": space.name, "labels": labels}});
    space.client.merge(&object).expect("a label");
    let here = text.replace("namespace: forebay", &format!("namespace: {}", space.name));
    let arguments = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "--warnings-as-errors",
        "-f",
        "-",
    ];
    kubectl(&arguments, &here);
}

/// Has a Service serve a host, with a certificate of the authority that is returned.
pub(crate) fn serve_over_tls(space: &Space, host: &str) -> Authority {
    deploy_payload(space, "web", 1, &json!({}));
    let authority = Authority::new("chart");
    let certificate = authority.server(&[host]);
    space.apply(
        "Secret",
        "tls",
        json!({
            "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": certificate.chain_pem(), "tls.key": certificate.key_pem()},
        }),
    );
    let mut ingress = space.ingress(host, "web");
    ingress["spec"]["tls"] = json!([{"hosts": [host], "secretName": "tls"}]);
    space.apply("Ingress", "web", ingress);
    space.await_rollout("web");
    authority
}

#[test]
fn forebay_serves_as_the_chart_installs_it() {
    let space = Space::new("chart");
    let authority = serve_over_tls(&space, "chart.test");
    let release = Release::install(&space, &["controller.config.ssl-redirect=false"]);
    let pod = release.pod();
    await_that("the route", || Connection::to(address(&pod, 80)).get("chart.test", "/1k").status == 200);
    let tls = TlsClient::new("chart.test").believing(&authority);
    assert_eq!(tls.connect(address(&pod, 443)).get("chart.test", "/1k").status, 200);
    await_that("the Service's address in the status", || {
        let ingress = space.find("Ingress", "web").expect("the Ingress");
        let service = space.find("Service", &format!("{}-controller", space.name)).expect("the Service");
        ingress["status"]["loadBalancer"]["ingress"] == json!([{"ip": service["spec"]["clusterIP"]}])
    });
    assert_eq!(Connection::to(address(&pod, 10254)).get("admin", "/metrics").status, 200);
}

#[test]
fn an_upgrade_keeps_the_certificate_of_the_webhook() {
    let space = Space::new("webhook-certificate");
    // Of no namespace that is there: other tests' Ingresses are none of its business.
    let settings = [
        "controller.admissionWebhooks.enabled=true",
        "controller.replicaCount=0",
        "controller.admissionWebhooks.namespaceSelector.matchLabels.none=none",
    ];
    let release = Release::install(&space, &settings);
    let name = format!("{}-controller-admission", space.name);
    let certificate = || space.find("Secret", &name).expect("a Secret")["data"].clone();
    let first = certificate();
    assert!(first["tls.crt"].is_string() && first["tls.key"].is_string(), "{first}");
    release.upgrade(&settings);
    assert_eq!(certificate(), first);
}
