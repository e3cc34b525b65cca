//! The command line. Flags carry ingress-nginx's names and defaults where ingress-nginx has them.
#![expect(clippy::doc_markdown, reason = "doc comments are help texts, in which backticks would be printed")]

mod abuse;
mod acme;
mod cache;
mod cluster;
mod console;
mod convert;
mod geoip;
mod kubectl;
mod manifests;
mod record;
mod refusal;
mod status;
mod tools;
mod top;
mod waf;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use control::old_version::OldVersion;
use control::{EndpointOverride, NsName, Unenforced};
use ipnet::IpNet;

use crate::log_output::AuditLog;
pub(crate) use crate::output::Output;
use crate::{bench, demo, doctor, past, version};
pub(crate) use abuse::{Abuse, AbuseCommand, Release};
pub(crate) use acme::AcmeArgs;
pub(crate) use cache::{Asking, Cache, CacheCommand, Purge};
pub(crate) use cluster::{ApiServer, Cluster};
pub(crate) use console::ConsoleSignIn;
pub(crate) use convert::{Convert, ConvertCommand, ConvertIngress, ObjectForm};
pub(crate) use geoip::Geoip;
pub(crate) use kubectl::{Kubectl, KubectlCommand, Logs, PastOfPods, Plugin, Reach};
pub(crate) use manifests::{Manifests, Source, read_stdin};
pub(crate) use record::RecordArgs;
pub(crate) use refusal::explain;
pub(crate) use status::Status;
pub(crate) use tools::{Completions, Man, Payload};
pub(crate) use top::{Top, Watching};
pub(crate) use waf::{Engine, Expected, Waf, WafCommand, WafTest};

/// A Kubernetes ingress controller with its own HTTP proxy: the ingress that costs no QPS.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy.
    #[command(
        after_help = "Examples:\n  forebay serve --manifests manifests/ --http-port 8080 --https-port 8443\n  forebay serve --configmap ingress-nginx/ingress-nginx-controller        (in a Pod)"
    )]
    Serve(Box<Serve>),
    /// Check manifests or a cluster: print what `serve` would serve, every problem, and what changes for
    /// users of ingress-nginx. Changes nothing. Exit status: 0 clean, 1 problems, 2 unusable arguments.
    #[command(
        after_help = "Examples:\n  forebay check manifests/\n  forebay check --kubeconfig ~/.kube/config --report migration.html"
    )]
    Check(Box<Check>),
    /// Explain a request step by step, with the object behind each step: from manifests, a cluster, or a
    /// running Forebay. Sends no request. Exit status: 0 it is served, 1 it is refused or gets an error, 2
    /// unusable arguments.
    #[command(
        after_help = "Examples:\n  forebay explain https://www.example.com/cart manifests/\n  forebay explain http://www.example.com/ --admin http://127.0.0.1:10254\n  forebay explain https://www.example.com/api --header Content-Type:application/json --body order.json manifests/"
    )]
    Explain(Box<Explain>),
    /// Convert Ingresses to the Gateway API.
    #[command(after_help = "Examples:\n  forebay convert ingress manifests/ > gateway.yaml")]
    Convert(Convert),
    /// Examine the Forebays of a cluster, as `kubectl forebay` does: this program, named kubectl-forebay, is
    /// a plugin for kubectl. Changes nothing.
    #[command(after_help = "Examples:\n  forebay kubectl status\n  forebay kubectl logs --help")]
    Kubectl(Box<Kubectl>),
    /// Show or purge the cache of a running Forebay.
    #[command(
        after_help = "Examples:\n  forebay cache status\n  forebay cache purge --host www.example.com --prefix /static/"
    )]
    Cache(Cache),
    /// List or release clients of a running Forebay that behave unlike all others.
    #[command(after_help = "Examples:\n  forebay abuse list\n  forebay abuse release --help")]
    Abuse(Abuse),
    /// Try rules of the web application firewall.
    #[command(after_help = "Examples:\n  forebay waf test --help")]
    Waf(Waf),
    /// Measure what an ingress costs on this machine: a Pod, load and Forebay for half a minute. With --case,
    /// a field case.
    #[command(
        after_help = "Examples:\n  forebay demo\n  forebay demo --stay\n  forebay demo --case d --report d.html"
    )]
    Demo(demo::Demo),
    /// Find what costs QPS on this machine: connections, ports, queues, cgroups, kernel parameters. Changes
    /// nothing. Exit status: 0 clean, 1 warnings, 2 failures.
    #[command(
        after_help = "Examples:\n  forebay doctor\n  forebay doctor --pid 4321 --output json\n  forebay doctor --since 02:50 --until 03:20"
    )]
    Doctor(Box<doctor::Doctor>),
    /// Take a part of a Forebay's record along, or record another process.
    #[command(after_help = "Examples:\n  forebay record export --help")]
    Record(past::Records),
    /// Watch a running Forebay in the terminal: rates, times, connections and what needs a look, and routes,
    /// hosts and clusters. Changes nothing.
    #[command(after_help = "Examples:\n  forebay top\n  forebay top --admin http://127.0.0.1:10254")]
    Top(Top),
    /// Run the static payload server that the demo, the tests and the benchmarks put behind the proxy.
    Payload(Payload),
    /// Load a URL, and report rate, latency, phases and errors. Exit status: 0 clean, 1 some requests failed,
    /// 2 nothing could be measured.
    #[command(
        after_help = "Examples:\n  forebay bench rps http://127.0.0.1:8080/\n  forebay bench compare --direct http://10.0.0.7:8080/ --via http://127.0.0.1/ --pid 4321"
    )]
    Bench(Box<bench::Bench>),
    /// Run the proxy that cases of the demo have in place of Forebay.
    #[command(hide = true)]
    PlainProxy(demo::PlainProxy),
    /// Print the completions of this command line for a shell.
    Completions(Completions),
    /// Print the manual page of forebay(1), or write the pages of all commands into a folder.
    Man(Man),
    /// Print the version, and the commit that it was built from.
    Version(version::Version),
}

/// How manifests are read: what `serve` and `check` have in common.
#[derive(Args, Debug)]
pub(crate) struct Reading {
    /// ConfigMap with the settings.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) configmap: Option<NsName>,
    /// Addresses of a Service without an EndpointSlice. May be given several times.
    #[arg(long, value_name = "NS/SERVICE[:PORT]=HOST:PORT[,HOST:PORT]")]
    pub(crate) endpoints: Vec<EndpointOverride>,
    /// Class of the Ingresses that are served, in the annotation kubernetes.io/ingress.class.
    #[arg(long, value_name = "NAME", default_value = "nginx")]
    pub(crate) ingress_class: String,
    /// Controller of the IngressClasses that are served.
    #[arg(long, value_name = "CONTROLLER", default_value = "k8s.io/ingress-nginx")]
    pub(crate) controller_class: String,
    /// Also serve the IngressClass named like --ingress-class, whatever its controller.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) ingress_class_by_name: bool,
    /// Serve Ingresses without a class [default: only those in files].
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) watch_ingress_without_class: Option<bool>,
    /// Service for requests that no Ingress matches.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) default_backend_service: Option<NsName>,
    /// Prefix of the annotations.
    #[arg(long, value_name = "PREFIX", default_value = "nginx.ingress.kubernetes.io")]
    pub(crate) annotations_prefix: String,
    /// Ignore Ingresses for every host.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) disable_catch_all: bool,
    /// Port for HTTPS, which redirects name; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    pub(crate) https_port: u16,
    /// Secret with the default certificate [default: one generated at the start].
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) default_ssl_certificate: Option<NsName>,
    /// Obey the annotation ssl-passthrough.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) enable_ssl_passthrough: bool,
    /// ConfigMap with the TCP services: "9000": "namespace/service:port", to which :PROXY
    /// may be added to take PROXY headers and once more to send them.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) tcp_services_configmap: Option<NsName>,
    /// ConfigMap with the UDP services.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) udp_services_configmap: Option<NsName>,
    /// Time after which a TCP service's response is slow, in forebay_stream_response_over_threshold_ratio.
    #[arg(long, value_name = "TIME", value_parser = model::parse_duration, default_value = "10ms")]
    pub(crate) stream_response_threshold: Duration,
    /// Zone of this process; endpoints are preferred whose hints name it. --enable-topology-aware-routing
    /// finds the node's.
    #[arg(long, value_name = "NAME")]
    pub(crate) topology_zone: Option<String>,
    /// Node of this process; endpoints are preferred whose hints name it.
    #[arg(long, value_name = "NAME")]
    pub(crate) topology_node: Option<String>,
    /// Leave Services of type ExternalName without endpoints.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) disable_svc_external_name: bool,
    /// Networks that ExternalName Services may resolve to [default: all]. Addresses of this machine,
    /// loopback, link-local, multicast and cloud metadata services are always refused.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = control::options::parse_network)]
    pub(crate) external_name_allow: Vec<IpNet>,
    /// Ignore Ingresses whose hosts, paths or TLS names look like nginx configuration.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) deep_inspect: bool,
    /// Accept only the characters that ingress-nginx accepts in redirects; otherwise they may hold variables.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) enable_annotation_validation: bool,
    /// Folders with the OWASP core rules and the lists that they name; the first with a file counts [default:
    /// /usr/share/modsecurity-crs,/etc/modsecurity/crs]. Rules of Ingresses may include files of these
    /// folders, and no others.
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) waf_rules: Vec<PathBuf>,
    /// Routes whose web application firewall cannot have its rules: `close` returns 503, `serve` serves them
    /// without it.
    #[arg(long, value_name = "serve|close", default_value = "close")]
    pub(crate) waf_unenforced: Unenforced,
    /// Lines of snippets that are not understood but restrict nobody, such as ssi: `close` returns
    /// 503, `serve` serves without them.
    #[arg(long, value_name = "serve|close", default_value = "close")]
    pub(crate) snippets_unenforced: Unenforced,
    #[command(flatten)]
    pub(crate) geoip: Geoip,
    /// Memory for cached responses, for routes with a cache: `256m`, `2g` [default: no cache].
    #[arg(long, value_name = "SIZE", value_parser = cache_memory)]
    pub(crate) cache_memory: Option<u64>,
    /// Forebay's own Service, whose endpoints are the replicas for forebay.io/cache-shared and
    /// forebay.io/limit-shared [default: that of --publish-service].
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) replicas_service: Option<NsName>,
    /// File with the secret by which replicas authenticate each other, of 32 bytes or more.
    #[arg(long, value_name = "FILE")]
    pub(crate) replicas_secret: Option<PathBuf>,
    /// Address of this replica [default: the environment variable POD_IP].
    #[arg(long, value_name = "IP")]
    pub(crate) replica_address: Option<IpAddr>,
    /// UDP port at which replicas exchange counts for forebay.io/limit-shared, the same for all [default:
    /// each counts alone].
    #[arg(long, value_name = "PORT", requires = "replicas_secret", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) replicas_udp_port: Option<u16>,
    /// Redis or Valkey that counts for forebay.io/limit-shared: `redis://HOST:6379/0`, or `rediss://` for
    /// TLS, with `USER:PASSWORD@` before the host [default: replicas exchange counts].
    #[arg(long, value_name = "URL")]
    pub(crate) limit_redis: Option<String>,
    /// File with its password, read at each connect.
    #[arg(long, value_name = "FILE", requires = "limit_redis")]
    pub(crate) limit_redis_password: Option<PathBuf>,
    /// PEM file with the certificate authorities for it [default: the system's].
    #[arg(long, value_name = "FILE", requires = "limit_redis")]
    pub(crate) limit_redis_ca: Option<PathBuf>,
    /// Folder whose files Ingresses may serve by the annotation forebay.io/files [default: none].
    #[arg(long, value_name = "DIR")]
    pub(crate) files_root: Option<PathBuf>,
    /// Folder for a cache on disk beside that in memory, which survives a restart; empty, or from an earlier
    /// run.
    #[arg(long, value_name = "DIR", requires_all = ["cache_disk", "cache_memory"])]
    pub(crate) cache_folder: Option<PathBuf>,
    /// Maximum size of that folder: `10g`.
    #[arg(long, value_name = "SIZE", value_parser = cache_disk, requires = "cache_folder")]
    pub(crate) cache_disk: Option<u64>,
    /// Addresses of this machine that Gateways are given, one each [default: all Gateways are served at every
    /// address].
    #[arg(long, value_name = "ADDRESS|CIDR", value_delimiter = ',', value_parser = control::options::parse_network)]
    pub(crate) gateway_address: Vec<IpNet>,
    /// Port for HTTP; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 80)]
    pub(crate) http_port: u16,
    /// Port of the admin server: /console/, /healthz, /metrics, /status, /configuration, /overload, /explain.
    #[arg(long, value_name = "PORT", default_value_t = 10254)]
    pub(crate) healthz_port: u16,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct Serve {
    /// File or folder with Kubernetes manifests, instead of a cluster. Watched; may be given several times.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "apiserver_host"])]
    pub(crate) manifests: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) status: Status,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Address of the admin server; all addresses without it.
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    pub(crate) healthz_host: String,
    /// Path of the health check of the admin server, beside /healthz.
    #[arg(long, value_name = "PATH", default_value = "/healthz")]
    pub(crate) health_check_path: String,
    /// Further host names of the admin server, beside addresses, localhost, names without a dot, the Pod and
    /// Services of its namespace.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) admin_host: Vec<String>,
    /// Networks that may use the console, /status, /configuration, /overload, /explain, /doctor, /record,
    /// /abuse and purges, beside this machine. /metrics and health checks are for everybody.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) admin_allow: Vec<IpNet>,
    /// Serve the read-only console at /console/ of the admin server.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) console: bool,
    #[command(flatten)]
    pub(crate) console_sign_in: ConsoleSignIn,
    /// Worker threads [default: the CPUs that the cgroup and the affinity mask allow].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Local address for connections to endpoints. May be given several times: each has a port range of its
    /// own.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) upstream_source_address: Vec<IpAddr>,
    /// Audit log of web application firewalls [default: where the access log goes].
    #[arg(long, value_name = "FILE|stdout|stderr|off", value_parser = AuditLog::parse)]
    pub(crate) waf_audit_log: Option<AuditLog>,
    /// Folder for buffered request bodies longer than client-body-buffer-size [default: none; bodies above 1
    /// MiB are streamed].
    #[arg(long, value_name = "PATH")]
    pub(crate) body_buffer_dir: Option<PathBuf>,
    /// Memory for small files of --files-root; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = model::parse_size, default_value = "32m")]
    pub(crate) files_memory: u64,
    /// Path at every host that serves all files of --files-root, without a manifest.
    #[arg(long, value_name = "PATH", requires = "files_root", conflicts_with_all = ["kubeconfig", "apiserver_host"])]
    pub(crate) serve_files: Option<String>,
    /// File that keeps the states of canaries with steps over a restart, where there is no cluster to keep
    /// them [default: they begin anew].
    #[arg(long, value_name = "FILE")]
    pub(crate) canary_state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) recording: RecordArgs,
    /// Seconds between SIGTERM, which fails /healthz at once, and the end of accepting. Meanwhile connections
    /// are closed after their responses.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) shutdown_grace_period: u64,
    #[command(flatten)]
    pub(crate) webhook: Webhook,
    #[command(flatten)]
    pub(crate) acme: AcmeArgs,
    #[command(flatten)]
    pub(crate) metrics: Metrics,
}

/// The validating admission webhook.
#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct Webhook {
    /// Address of the validating webhook, such as :8443 [default: none].
    #[arg(long, value_name = "[ADDRESS]:PORT", default_value = "")]
    pub(crate) validating_webhook: String,
    /// PEM file with the webhook's certificate. Read again when it changes.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub(crate) validating_webhook_certificate: String,
    /// PEM file with its key.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub(crate) validating_webhook_key: String,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as the flags are")]
pub(crate) struct Metrics {
    /// Serve metrics at /metrics.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) enable_metrics: bool,
    /// Label metrics with the host.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) metrics_per_host: bool,
    /// Count requests for hosts that no Ingress names.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) metrics_per_undefined_host: bool,
    /// Label metrics with 2xx instead of 200.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) report_status_classes: bool,
    /// Upper bounds of the time histograms, in seconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) time_buckets: Vec<f64>,
    /// Upper bounds of the histograms of request and response lengths, in bytes.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) length_buckets: Vec<f64>,
    /// Upper bounds of the histogram of bytes sent.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) size_buckets: Vec<f64>,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    #[command(flatten)]
    pub(crate) api_server: ApiServer,
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
    /// Version of the ingress-nginx to compare with, such as 1.11 [default: that of the controller's image,
    /// or of values for Helm].
    #[arg(long, value_name = "VERSION")]
    pub(crate) from: Option<OldVersion>,
    /// Also write it to this file, as one page of HTML.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) asked: Asked,
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    /// URL of the admin server of a running Forebay, whose configuration is used [default:
    /// http://127.0.0.1:10254, unless manifests or a cluster are named].
    #[arg(long, value_name = "URL", conflicts_with_all = ["kubeconfig", "apiserver_host", "paths", "manifests"])]
    pub(crate) admin: Option<String>,
    #[command(flatten)]
    pub(crate) api_server: ApiServer,
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// A request to explain.
#[derive(Args, Debug)]
pub(crate) struct Asked {
    /// URL of the request: scheme, host, path and query. Without a scheme it is http://.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Method of the request [default: GET, or POST with --body].
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Header of the request. May be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// File with the request's body, for the web application firewall; its type is in a header.
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<PathBuf>,
    /// Address of the client, or of the proxy that it comes through.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) client_ip: IpAddr,
}

impl Cli {
    /// The names of the flags of `serve`.
    pub(crate) fn known_flags() -> Vec<String> {
        let command = Self::command();
        let serve = command.find_subcommand("serve").expect("there is a command to serve");
        let own = serve.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned));
        own.chain(["help".to_owned(), "version".to_owned()]).collect()
    }
}

impl Serve {
    /// Whether there is no source but the cluster of the Pod that this may run in.
    pub(crate) fn has_no_source(&self) -> bool {
        let api_server = &self.cluster.api_server;
        self.manifests.is_empty()
            && self.serve_files.is_none()
            && api_server.kubeconfig.is_none()
            && api_server.apiserver_host.as_deref().is_none_or(str::is_empty)
    }

    /// Whether the states of canaries outlive this process: in the Lease of a cluster, or in a file.
    pub(crate) fn keeps_canaries(&self) -> bool {
        let is_cluster = self.manifests.is_empty() && self.serve_files.is_none();
        let has_lease = is_cluster && self.status.update_status && !self.status.disable_leader_election;
        has_lease || self.canary_state.is_some()
    }
}

impl Reading {
    /// The same for manifests in files or on standard input, where Ingresses without a class are taken.
    pub(crate) fn of_files(mut self) -> Self {
        self.watch_ingress_without_class.get_or_insert(true);
        self
    }

    pub(crate) fn into_options(self, manifests: Vec<PathBuf>) -> anyhow::Result<control::Options> {
        let of_files = !manifests.is_empty();
        let replicas = self.replica_options();
        Ok(control::Options {
            manifests,
            ingress_class: self.ingress_class,
            controller_class: self.controller_class,
            ingress_class_by_name: self.ingress_class_by_name,
            watch_ingress_without_class: self.watch_ingress_without_class.unwrap_or(of_files),
            default_backend_service: self.default_backend_service,
            configmap: self.configmap,
            endpoints: self.endpoints,
            annotations_prefix: self.annotations_prefix,
            disable_catch_all: self.disable_catch_all,
            http_port: self.http_port,
            https_port: self.https_port,
            default_ssl_certificate: self.default_ssl_certificate,
            ssl_passthrough: self.enable_ssl_passthrough,
            tcp_services_configmap: self.tcp_services_configmap,
            udp_services_configmap: self.udp_services_configmap,
            gateway_addresses: self.gateway_address,
            reserved_ports: vec![
                (self.http_port, "--http-port"),
                (self.https_port, "--https-port"),
                (self.healthz_port, "--healthz-port"),
            ],
            reserved_udp_ports: self
                .replicas_udp_port
                .map(|port| (port, "--replicas-udp-port"))
                .into_iter()
                .collect(),
            stream_response_threshold: self.stream_response_threshold,
            zone: self.topology_zone,
            node: self.topology_node,
            disable_external_names: self.disable_svc_external_name,
            external_name_allow: self.external_name_allow,
            deep_inspect: self.deep_inspect,
            validates_annotations: self.enable_annotation_validation,
            waf_unenforced: self.waf_unenforced,
            snippets_unenforced: self.snippets_unenforced,
            has_cache: self.cache_memory.is_some(),
            has_limit_redis: self.limit_redis.is_some(),
            replicas,
            has_files_root: self.files_root.is_some(),
            class_may_be_missing: of_files,
            firewalls: Arc::new(crate::firewalls::load(&self.waf_rules)?),
            geoip: self.geoip.sources(),
            ..control::Options::default()
        })
    }
}

/// A size that is worth a cache.
fn cache_memory(text: &str) -> Result<u64, String> {
    size_of_cache(text, proxy::CACHE_BYTES_MIN)
}

/// A size that is worth a folder.
fn cache_disk(text: &str) -> Result<u64, String> {
    size_of_cache(text, cache_disk::BYTES_MIN)
}

fn size_of_cache(text: &str, least: u64) -> Result<u64, String> {
    let bytes = model::parse_size(text).map_err(|error| error.to_string())?;
    if bytes < least {
        Err(format!("{text:?} is too little for a cache: at least {}m", least >> 20))
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
