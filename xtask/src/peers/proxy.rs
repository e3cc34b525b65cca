//! The proxies side by side: what each is to do, and a start of one. How they are configured is in
//! `xtask/peers`: all send the headers that ingress-nginx sends.
//!
//! Must not be in here: loads and figures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::IntoStaticStr;

use super::certificate::Certificate;
use super::feature::{Case, HOST};
use crate::ask;
use crate::child::{Program, START_LIMIT, free_address};
use crate::interrupt::Interrupt;
use crate::proxies::{Definition, unstable};
use crate::template;

/// A proxy between the load and the backend, or none. The order is that of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, IntoStaticStr, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Peer {
    /// The load goes to the backend without a proxy.
    Direct,
    /// One signature, as a full handshake needs it: the floor there.
    Signing,
    /// `bench::relay`: the floor.
    Relay,
    Nginx,
    /// For web application firewalls only.
    NginxModsecurity,
    Haproxy,
    /// For caches only.
    Varnish,
    /// For caches, compression and files only.
    Apache,
    Envoy,
    Caddy,
    Traefik,
    Pingora,
    Forebay,
}

/// Where Traefik's API has the only route of `peers/proxies/traefik.yaml`.
const TRAEFIK_ROUTE: &str = "/api/http/routers/all@file";

/// The entries of `peers/proxies.yaml`.
static DEFINITIONS: LazyLock<BTreeMap<Peer, Definition>> =
    LazyLock::new(|| template::data("peers/proxies.yaml").expect("a test reads the file"));

/// The protocol of clients.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Clients {
    /// HTTP/1 without TLS.
    #[default]
    Clear,
    /// HTTP/2 with prior knowledge.
    ClearH2,
    /// HTTP/1 and HTTP/2, as the client chooses.
    Tls,
}

/// The protocol of upstreams, always in the clear.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Upstream {
    #[default]
    Http1,
    H2c,
    Grpc,
    /// Bytes as they come from clients.
    Tcp,
}

/// The task of a peer: the values of the templates.
#[derive(Clone, Default, Serialize)]
pub(crate) struct Setup<'a> {
    pub(crate) clients: Clients,
    /// Whether clients with TLS may use HTTP/3 as well.
    pub(crate) http3: bool,
    /// The certificate for TLS.
    pub(crate) certificate: Option<&'a Certificate>,
    pub(crate) upstream: Upstream,
    pub(crate) upstreams: Vec<SocketAddr>,
    #[serde(skip)]
    pub(crate) cpus: Vec<usize>,
    pub(crate) workers: usize,
    /// The profile of Forebay's binary; `None` for that which ships.
    pub(crate) profile: Option<String>,
    pub(crate) logs: bool,
    /// The cap on idle upstream connections; `None` for Forebay's automatic one, for none in `HAProxy`, and
    /// for 512 in the others but Envoy, which has no such cap.
    pub(crate) keepalive: Option<u32>,
    /// How many Ingresses there are besides the one that is asked for.
    #[serde(skip)]
    pub(crate) other_ingresses: usize,
    /// The feature of the Ingress that the load asks for.
    pub(crate) feature: Case,
    /// Services besides `web`, and where they are.
    #[serde(skip)]
    pub(crate) services: Vec<(String, SocketAddr)>,
    pub(crate) folder: PathBuf,
}

/// A peer that listens.
pub(crate) struct Running {
    /// `None` for [`Peer::Direct`].
    pub(crate) program: Option<Program>,
    pub(crate) address: SocketAddr,
    /// Forebay's admin port.
    pub(crate) admin: Option<SocketAddr>,
}

/// An Ingress, as the template of manifests has it.
#[derive(Serialize)]
pub(crate) struct Ingress {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) service: String,
    /// Names without a slash are ingress-nginx's.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) paths: Vec<String>,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Where its program comes from.
    pub(crate) fn definition(self) -> &'static Definition {
        &DEFINITIONS[&self]
    }

    /// Whether it is one of ours, without which nothing is compared.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Peer::Direct | Peer::Signing | Peer::Relay | Peer::Forebay)
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn start(self, setup: &Setup, interrupt: &Interrupt) -> Result<Running> {
        if self == Peer::Direct {
            return Ok(Running { program: None, address: setup.upstreams[0], admin: None });
        }
        let [address, admin] = [free_address()?, free_address()?];
        let context = setup.context(address, admin)?;
        setup.feature.write_files(&setup.folder)?;
        let command = self.definition().command(&context, self.name(), &setup.folder)?;
        let mut program = Program::start(self.name(), command, &setup.cpus, &setup.folder)?;
        program.wait_for(address, interrupt)?;
        if self == Peer::Traefik {
            // It listens before it has read its file.
            let has_read = || Ok(ask::get(admin, TRAEFIK_ROUTE).is_ok());
            interrupt.await_that(START_LIMIT, "Traefik to read its file", has_read)?;
        }
        Ok(Running { program: Some(program), address, admin: (self == Peer::Forebay).then_some(admin) })
    }
}

impl Setup<'_> {
    fn context(&self, address: SocketAddr, admin: SocketAddr) -> Result<Value> {
        let mut groups = BTreeMap::from([("web", self.upstreams.clone())]);
        for (name, address) in &self.services {
            groups.entry(name).or_default().push(*address);
        }
        let own = json!({
            "address": address,
            "admin": admin,
            "groups": groups,
            "host": HOST,
            "ip": address.ip(),
            "port": address.port(),
            "scheme": if matches!(self.clients, Clients::Tls) { "https" } else { "http" },
            "modules": unstable::modules()?,
            "settings": self.settings(),
            "ingresses": self.ingresses(),
        });
        template::merged(own, self)
    }

    /// Forebay's, as the other peers have it: connections last for as long as the measurement, and no
    /// response has a header for HSTS.
    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.feature.forebay.settings.clone();
        let mut set = |key: &str, value: String| settings.insert(key.into(), value);
        set("disable-access-log", (!self.logs).to_string());
        set("keep-alive-requests", "100000000".into());
        set("upstream-keepalive-requests", "100000000".into());
        if let Some(keepalive) = self.keepalive {
            set("upstream-keepalive-connections", keepalive.to_string());
        }
        if matches!(self.clients, Clients::Tls) {
            set("hsts", "false".into());
        }
        if self.http3 {
            set("forebay-http3", "on".into());
        }
        settings
    }

    /// The one that is asked for, its canary, and the others.
    fn ingresses(&self) -> Vec<Ingress> {
        let forebay = &self.feature.forebay;
        let ingress = |name: &str, host: String, annotations: &BTreeMap<_, _>, paths: &[String]| Ingress {
            name: name.into(),
            host,
            service: if name == "canary" { name.into() } else { "web".into() },
            annotations: annotations.clone(),
            paths: if paths.is_empty() { vec!["/".into()] } else { paths.to_vec() },
        };
        let mut ingresses = vec![ingress("web", HOST.into(), &forebay.annotations, &forebay.paths)];
        if !forebay.canary.is_empty() {
            ingresses.push(ingress("canary", HOST.into(), &forebay.canary, &forebay.paths));
        }
        let others = (0..self.other_ingresses)
            .map(|index| ingress(&format!("other-{index}"), other_host(index), &BTreeMap::new(), &[]));
        ingresses.extend(others);
        ingresses
    }
}

/// The host of one of the other Ingresses.
pub(crate) fn other_host(index: usize) -> String {
    format!("other-{index}.test.com")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP/1 in the clear on both sides, and nothing more.
    fn plain() -> Setup<'static> {
        let upstreams = vec![([127, 0, 0, 1], 9001).into(), ([127, 0, 0, 1], 9002).into()];
        Setup { upstreams, workers: 1, ..Setup::default() }
    }

    /// The arguments of a peer, in one line, and its configuration.
    fn started(peer: Peer, setup: &Setup) -> Result<(String, String)> {
        let folder = tempfile::tempdir()?;
        let context = setup.context(([127, 0, 0, 1], 8000).into(), ([127, 0, 0, 1], 8001).into())?;
        let context = peer.definition().configure(&context, "peer", folder.path())?;
        let config = context["config"].as_str().map(std::fs::read_to_string).transpose()?;
        Ok((peer.definition().arguments(&context)?.join(" "), config.unwrap_or_default()))
    }

    fn assert_has(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn every_peer_is_in_the_list_once_in_order_and_has_a_definition() {
        assert!(Peer::value_variants().is_sorted_by(|one, next| one < next && one.name() != next.name()));
        assert!(DEFINITIONS.keys().eq(Peer::value_variants()));
        for peer in Peer::value_variants().iter().filter(|peer| peer.is_ours()) {
            let definition = peer.definition();
            assert!(definition.installed().is_none() && definition.version_built().is_none());
            assert!(definition.version_command().is_none());
        }
    }

    #[test]
    fn requests_go_to_every_upstream_with_all_headers() -> Result<()> {
        let setup = plain();
        let (_, config) = started(Peer::Traefik, &setup)?;
        assert_has(
            &config,
            &["http://127.0.0.1:9001", "9002", "X-Request-ID", "X-Forwarded-Scheme", "X-Scheme"],
        );
        for peer in [Peer::Nginx, Peer::Haproxy, Peer::Envoy, Peer::Caddy] {
            let (_, config) = started(peer, &setup)?;
            assert_has(
                &config,
                &["9001", "9002", "X-Real-IP", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Scheme"],
            );
            assert!(!config.contains("access.log") && !config.contains("/c/"), "{config}");
        }
        let (command, _) = started(Peer::Pingora, &Setup { keepalive: Some(8), ..setup })?;
        assert_has(&command, &["127.0.0.1:8000 1 8 http1 http1 127.0.0.1:9001 127.0.0.1:9002"]);
        Ok(())
    }

    #[test]
    fn envoy_is_configured_by_yaml() -> Result<()> {
        let parsed = |setup: &Setup| -> Result<serde_json::Value> {
            let config: serde_json::Value = serde_saphyr::from_str(&started(Peer::Envoy, setup)?.1)?;
            Ok(config["static_resources"].clone())
        };
        let config = parsed(&plain())?;
        let manager = &config["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
        assert_eq!(manager["codec_type"], "HTTP1");
        assert_eq!(manager["http_filters"][0]["name"], "envoy.filters.http.router");
        let grpc = Setup { clients: Clients::ClearH2, upstream: Upstream::Grpc, ..plain() };
        let options = &parsed(&grpc)?["clusters"][0]["typed_extension_protocol_options"];
        let options =
            &options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["explicit_http_config"];
        assert_eq!(options["http2_protocol_options"]["max_concurrent_streams"], 128);
        let tcp = parsed(&Setup { upstream: Upstream::Tcp, ..plain() })?;
        assert_eq!(tcp["listeners"][0]["filter_chains"][0]["filters"][0]["name"], "tcp_proxy");
        assert!(tcp["clusters"][0]["typed_extension_protocol_options"].is_null());
        Ok(())
    }

    #[test]
    fn tls_and_logs_are_configured_where_they_are_asked_for() -> Result<()> {
        let certificate = Certificate::at("/c");
        let setup = Setup { clients: Clients::Tls, certificate: Some(&certificate), logs: true, ..plain() };
        assert_has(
            &started(Peer::Nginx, &setup)?.1,
            &["8000 ssl", "ssl_certificate /c/chain; ", "nginx-access.log"],
        );
        assert_has(
            &started(Peer::Haproxy, &setup)?.1,
            &["ssl crt /c/both alpn h2,http/1.1", "option httplog"],
        );
        assert_has(&started(Peer::Envoy, &setup)?.1, &["TLSv1_2", "filename: /c/key", "envoy-access.log"]);
        assert_has(
            &started(Peer::Caddy, &setup)?.1,
            &["https://:8000 {", "tls /c/chain /c/key {", "caddy-access.log"],
        );
        let (command, config) = started(Peer::Traefik, &setup)?;
        assert_has(&command, &["--entrypoints.web.address=127.0.0.1:8000", "traefik-access.log"]);
        assert_has(&config, &["certFile: /c/chain", "tls: {}"]);
        assert_has(&started(Peer::Forebay, &setup)?.0, &["--https-port=8000", "--default-ssl-certificate"]);
        Ok(())
    }

    #[test]
    fn http3_is_beside_tls_where_it_is_asked_for() -> Result<()> {
        let certificate = Certificate::at("/c");
        let tls = Setup { clients: Clients::Tls, certificate: Some(&certificate), ..plain() };
        let http3 = Setup { http3: true, ..tls.clone() };
        for (peer, word) in [
            (Peer::Nginx, "listen 127.0.0.1:8000 quic reuseport; http3 on;"),
            (Peer::Caddy, "protocols h1 h2 h3"),
            (Peer::Traefik, "--entrypoints.web.http3=true"),
            (Peer::Forebay, r#""forebay-http3": "on""#),
        ] {
            let (command, config) = started(peer, &http3)?;
            assert!(command.contains(word) || config.contains(word), "{command}\n{config}");
            let (command, config) = started(peer, &tls)?;
            assert!(!command.contains(word) && !config.contains(word), "{command}\n{config}");
        }
        Ok(())
    }

    #[test]
    fn what_a_peer_does_not_speak_is_an_error() {
        let tls = Setup { clients: Clients::Tls, ..plain() };
        let tcp = Setup { upstream: Upstream::Tcp, ..plain() };
        let h2c = Setup { upstream: Upstream::H2c, ..plain() };
        for (peer, setup) in
            [(Peer::Pingora, &tls), (Peer::Pingora, &tcp), (Peer::Caddy, &tcp), (Peer::Nginx, &h2c)]
        {
            let error = started(peer, setup).expect_err("it speaks it");
            assert!(error.to_string().contains("does not speak"), "{error}");
        }
    }

    #[test]
    fn manifests_keep_values_as_they_are() -> Result<()> {
        let mut setup = plain();
        let annotation = "/$2: \"x\"";
        setup.feature.forebay.annotations.insert("rewrite-target".into(), annotation.into());
        setup.feature.forebay.paths.push("/a/([0-9]+)/(.*)".into());
        setup.other_ingresses = 1;
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&started(Peer::Forebay, &setup)?.1)?;
        let ingresses: Vec<_> = documents.iter().filter(|one| one["kind"] == "Ingress").collect();
        let name = "nginx.ingress.kubernetes.io/rewrite-target";
        assert_eq!(ingresses[0]["metadata"]["annotations"][name], annotation);
        assert_eq!(ingresses[0]["spec"]["rules"][0]["http"]["paths"][0]["path"], "/a/([0-9]+)/(.*)");
        assert_eq!(ingresses[1]["spec"]["rules"][0]["host"], other_host(0));
        Ok(())
    }
}
