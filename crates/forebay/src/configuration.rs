//! `/configuration`: the Snapshot in force, as JSON.

use model::{
    Action, Certificate, Encryption, EndpointState, Filter, HostTls, HttpVersion, PathMatch, Route, Stream,
    Transport,
};
use routing::{HostTable, Snapshot};
use serde_json::{Value, json};

/// Describes a Snapshot. `acknowledged` is the generation that every worker serves.
pub(crate) fn describe(snapshot: &Snapshot, acknowledged: u64) -> Value {
    json!({
        "generation": snapshot.generation,
        "acknowledged": acknowledged,
        "hosts": snapshot.hosts().map(|table| host(table, snapshot)).collect::<Vec<_>>(),
        "clusters": snapshot.clusters().map(|(_, one)| cluster(one)).collect::<Vec<_>>(),
        "streams": snapshot.streams.iter().map(|one| stream(one, snapshot)).collect::<Vec<_>>(),
        "defaultCertificate": snapshot.settings.tls.default_certificate.as_deref().map(certificate),
    })
}

fn host(table: &HostTable, snapshot: &Snapshot) -> Value {
    json!({
        "host": table.name().to_string(),
        "tls": tls(table.tls(), snapshot),
        "routes": table.routes().iter().map(|one| route(one, snapshot)).collect::<Vec<_>>(),
    })
}

/// Which certificate it is, and never its key.
fn tls(tls: &HostTls, snapshot: &Snapshot) -> Value {
    json!({
        "certificate": tls.certificate.as_deref().map(certificate),
        "clientCertificates": tls.client_auth.as_ref().map(|auth| format!("{:?}", auth.verify)),
        "passthrough": tls.passthrough.map(|cluster| snapshot.cluster(cluster).name.clone()),
    })
}

fn certificate(certificate: &Certificate) -> Value {
    let info = &certificate.info;
    json!({"namespace": info.namespace, "secret": info.object, "notAfter": info.not_after})
}

fn stream(stream: &Stream, snapshot: &Snapshot) -> Value {
    json!({
        "port": stream.port,
        "transport": match stream.transport {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        },
        "upstream": snapshot.cluster(stream.cluster).name,
        "acceptsProxyHeader": stream.accepts_proxy_header,
        "sendsProxyHeader": stream.sends_proxy_header,
    })
}

fn route(route: &Route, snapshot: &Snapshot) -> Value {
    let path_type = match &route.path {
        PathMatch::Exact(_) => "Exact",
        PathMatch::Prefix(_) => "Prefix",
        PathMatch::StartsWith(_) => "ImplementationSpecific",
    };
    json!({
        "path": route.path.path(),
        "pathType": path_type,
        "namespace": route.labels.namespace,
        "ingress": route.labels.object,
        "service": route.labels.service,
        "servicePort": route.labels.service_port,
        "filters": route.filters.iter().map(filter).collect::<Vec<_>>(),
        "action": action(&route.action, snapshot),
    })
}

fn filter(filter: &Filter) -> Value {
    match filter {
        Filter::TlsRedirect(redirect) => {
            json!({"tlsRedirect": {"status": redirect.status, "force": redirect.force}})
        }
        Filter::ClientCertificate(certificate) => {
            json!({"clientCertificate": {"verify": format!("{:?}", certificate.verify)}})
        }
        Filter::Forbidden { reason } => json!({"forbidden": reason}),
        Filter::Unavailable { reason } => json!({"unavailable": reason}),
    }
}

fn action(action: &Action, snapshot: &Snapshot) -> Value {
    match action {
        Action::Respond(fixed) => json!({"respond": fixed.status}),
        Action::Forward(forward) => json!({
            "upstream": snapshot.cluster(forward.cluster).name,
            "connectTimeoutSeconds": forward.timeouts.connect.as_secs_f64(),
            "readTimeoutSeconds": forward.timeouts.read.as_secs_f64(),
            "sendTimeoutSeconds": forward.timeouts.send.as_secs_f64(),
            "bodyBytesMax": forward.body_bytes_max,
            "tries": forward.retry.tries,
        }),
    }
}

fn cluster(cluster: &model::Cluster) -> Value {
    let endpoint = |endpoint: &model::Endpoint| json!({"address": endpoint.address.to_string(), "draining": endpoint.state == EndpointState::Draining});
    json!({
        "upstream": cluster.name,
        "protocol": protocol(cluster),
        "endpoints": cluster.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// What is spoken with the endpoints, as `backend-protocol` names it.
fn protocol(cluster: &model::Cluster) -> &'static str {
    match (cluster.version, &cluster.encryption) {
        (HttpVersion::Http1, Encryption::Never) => "HTTP",
        (HttpVersion::Http1, Encryption::Always(_)) => "HTTPS",
        (_, Encryption::AsClient(_)) => "AUTO_HTTP",
        (HttpVersion::Http2, Encryption::Never) => "GRPC",
        (HttpVersion::Http2, Encryption::Always(_)) => "GRPCS",
    }
}
