//! `/configuration`: the Snapshot in force, as JSON.

use model::{
    Access, Action, AppProtocol, Backends, Certificate, ClientCertificate, ClusterId, Encryption,
    EndpointState, ErrorPages, HeaderChanges, HostTls, PathKind, RequestFilter, ResponseFilter, Route,
    Satisfy,
};
use routing::{HostTable, Listener, Snapshot};
use serde_json::{Value, json};

/// Describes a Snapshot. `acknowledged` is the generation that every worker serves.
pub(crate) fn describe(snapshot: &Snapshot, acknowledged: u64) -> Value {
    json!({
        "generation": snapshot.generation,
        "acknowledged": acknowledged,
        "hosts": snapshot.hosts().map(|table| host(table, snapshot)).collect::<Vec<_>>(),
        "clusters": snapshot.clusters().map(|(_, one)| cluster(one)).collect::<Vec<_>>(),
        "streams": snapshot.listeners().iter().filter_map(|one| stream(one, snapshot)).collect::<Vec<_>>(),
        "defaultCertificate": snapshot.settings.tls.default_certificate.as_deref().map(certificate),
    })
}

fn host(table: &HostTable, snapshot: &Snapshot) -> Value {
    json!({
        "host": table.name().to_string(),
        "wider": table.wider().map(ToString::to_string),
        "tls": tls(table.tls(), snapshot),
        "routes": table.routes().iter().map(|one| route(one, snapshot)).collect::<Vec<_>>(),
    })
}

/// Describes the certificate and the settings, but never the key.
fn tls(tls: &HostTls, snapshot: &Snapshot) -> Value {
    json!({
        "certificate": tls.certificate.as_deref().map(certificate),
        "clientCertificates": tls.client_auth.as_ref().map(|auth| format!("{:?}", auth.verify)),
        "stream": tls.stream.as_ref().map(|stream| {
            json!({"upstream": upstream(&stream.backends, snapshot), "isTerminated": stream.is_terminated})
        }),
        "passthrough": tls.passthrough.map(|cluster| snapshot.cluster(cluster).name.clone()),
    })
}

fn certificate(certificate: &Certificate) -> Value {
    let info = &certificate.info;
    json!({"namespace": info.namespace, "secret": info.object, "notAfter": info.not_after})
}

fn stream(listener: &Listener, snapshot: &Snapshot) -> Option<Value> {
    let stream = listener.stream()?;
    Some(json!({
        "address": listener.id.address.map(|address| address.to_string()),
        "port": listener.id.port,
        "transport": listener.id.kind.as_str(),
        "upstream": upstream(&stream.backends, snapshot),
        "acceptsProxyHeader": stream.accepts_proxy_header,
        "sendsProxyHeader": stream.sends_proxy_header,
    }))
}

fn route(route: &Route, snapshot: &Snapshot) -> Value {
    let path_type = match route.path.kind() {
        PathKind::Exact => "Exact",
        PathKind::Prefix => "Prefix",
        PathKind::Regex => "Regex",
    };
    json!({
        "path": route.path.path(),
        "pathType": path_type,
        "namespace": route.labels.namespace,
        "ingress": route.labels.object,
        "service": route.labels.service,
        "servicePort": route.labels.service_port,
        "filters": filters(route),
        "responseFilters": route.response_filters.as_slice().iter().map(response_filter).collect::<Vec<_>>(),
        "action": action(&route.action, snapshot),
        "errorPages": route.error_pages.as_ref().map(|pages| error_pages(pages, snapshot)),
    })
}

/// Which statuses others answer, and who steps in for endpoints.
fn error_pages(pages: &ErrorPages, snapshot: &Snapshot) -> Value {
    let name = |cluster: &ClusterId| json!(snapshot.cluster(*cluster).name);
    json!({
        "statuses": pages.statuses(),
        "upstreams": pages.backends.iter().map(name).collect::<Vec<_>>(),
        "sparesEndpoints": pages.spares_endpoints,
        "fallback": pages.fallback.as_ref().map(name),
    })
}

/// The checks that a request passes before the action, in order.
fn filters(route: &Route) -> Vec<Value> {
    let mut filters: Vec<Value> = route.request_filters.as_slice().iter().map(request_filter).collect();
    if let Some(access) = &route.access {
        let Access {
            forbidden,
            client_certificate,
            unavailable,
            limits,
            quota,
            networks,
            basic,
            external,
            satisfy,
        } = &**access;
        filters.extend(forbidden.as_ref().map(|reason| json!({"forbidden": reason})));
        filters.extend(client_certificate.as_ref().map(self::client_certificate));
        filters.extend(unavailable.as_ref().map(|reason| json!({"unavailable": reason})));
        filters.extend(limits.as_ref().map(|limits| json!({"limits": format!("{limits:?}")})));
        filters.extend(quota.as_ref().map(|quota| json!({"quota": format!("{quota:?}")})));
        filters.extend(networks.as_ref().map(|networks| json!({"networks": format!("{networks:?}")})));
        filters.extend(basic.as_ref().map(|basic| json!({"basicAuth": {"realm": basic.realm}})));
        let asked = external.as_ref().map(|auth| &*auth.check);
        filters
            .extend(asked.map(|check| json!({"externalAuth": {"host": check.host.as_text().unwrap_or("the one asked for"), "method": check.method}})));
        filters.extend((*satisfy == Satisfy::Any).then(|| json!({"satisfy": "any"})));
    }
    filters
}

fn request_filter(filter: &RequestFilter) -> Value {
    match filter {
        RequestFilter::RequestRedirect(redirect) => {
            json!({"requestRedirect": {"status": redirect.status, "host": redirect.host.as_deref(), "port": redirect.port}})
        }
        RequestFilter::UrlRewrite(rewrite) => json!({"urlRewrite": {"host": rewrite.host.as_deref()}}),
        RequestFilter::Headers(changes) => json!({"requestHeaders": changed(changes)}),
        RequestFilter::TlsRedirect(redirect) => {
            json!({"tlsRedirect": {"status": redirect.status, "believesHops": redirect.believes_hops}})
        }
        RequestFilter::AppRoot(path) => json!({"appRoot": path.to_string()}),
        RequestFilter::Redirect(redirect) => json!({"redirect": {"status": redirect.status}}),
        RequestFilter::Rewrite(rewrite) => {
            json!({"rewrite": {"pattern": rewrite.pattern.as_str(), "redirects": rewrite.redirects}})
        }
    }
}

fn response_filter(filter: &ResponseFilter) -> Value {
    match filter {
        ResponseFilter::Cors(cors) => json!({"cors": format!("{:?}", cors.origins)}),
        ResponseFilter::CrossOrigin(cors) => json!({"cors": format!("{:?}", cors.origins)}),
        ResponseFilter::SetHeaders(headers) => json!({"setHeaders": **headers}),
        ResponseFilter::Headers(changes) => json!({"responseHeaders": changed(changes)}),
    }
}

fn changed(changes: &HeaderChanges) -> Value {
    json!({"set": changes.set(), "add": changes.add(), "remove": changes.remove()})
}

fn client_certificate(demand: &ClientCertificate) -> Value {
    json!({"clientCertificate": {"verify": format!("{:?}", demand.verify)}})
}

fn action(action: &Action, snapshot: &Snapshot) -> Value {
    match action {
        Action::Respond(fixed) => json!({"respond": fixed.status}),
        Action::NotFound => json!({"respond": 404}),
        Action::Files(files) => json!({"files": files.folder}),
        Action::Forward(forward) => json!({
            "upstream": upstream(&forward.backends, snapshot),
            "connectTimeoutSeconds": forward.timeouts.connect.as_secs_f64(),
            "readTimeoutSeconds": forward.timeouts.read.as_secs_f64(),
            "sendTimeoutSeconds": forward.timeouts.send.as_secs_f64(),
            "bodyBytesMax": forward.body_bytes_max,
            "tries": forward.retry.tries,
        }),
    }
}

/// The name of the cluster, or the names of several with their weights.
fn upstream(backends: &Backends, snapshot: &Snapshot) -> Value {
    let name = |cluster| json!(snapshot.cluster(cluster).name);
    match backends {
        Backends::One(cluster) => name(*cluster),
        Backends::Split(split) => {
            let backends = split.backends().iter();
            let named = |one: &model::Backend| one.target.cluster().map_or_else(|| json!("invalid"), name);
            backends.map(|one| json!({"upstream": named(one), "weight": one.weight})).collect()
        }
        Backends::Canary(canary) => {
            let rules = format!("{:?}", canary.rules);
            json!({"upstream": name(canary.mainline), "canary": name(canary.cluster), "rules": rules})
        }
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

/// The protocol towards the endpoints, by its name in `backend-protocol`.
fn protocol(cluster: &model::Cluster) -> &'static str {
    match (cluster.version, &cluster.encryption) {
        (AppProtocol::Http1, Encryption::Never) => "HTTP",
        (AppProtocol::Http1, Encryption::Always(_)) => "HTTPS",
        (_, Encryption::AsClient(_)) => "AUTO_HTTP",
        (AppProtocol::FastCgi, _) => "FCGI",
        (AppProtocol::Http2, Encryption::Never) => "GRPC",
        (AppProtocol::Http2, Encryption::Always(_)) => "GRPCS",
    }
}
