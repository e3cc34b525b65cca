//! The head of an admitted request as endpoints get it.
//!
//! Never in here: the body.

use model::{AppProtocol, Forward, HeadSettings, HeaderNames, UpstreamHead};
use routing::Needs;
use wire::cache::Head;

use crate::admit::{Admitted, cache_head, cgi, errors, filtered, script_heads};
use crate::io::buffer::Buffer;
use crate::replicas;
use crate::request::head::{
    HeadEdits, RequestOptions, Subrequest, write_request_head, write_subrequest_head,
};
use crate::route::client_certificate;
use crate::route::values;
use crate::upstream::Params;

/// Sets the headers that a route adds for its endpoints.
fn tell(head: &UpstreamHead, admitted: &Admitted<'_>, edits: &mut HeadEdits<'_>) {
    if let Some(prefix) = &head.forwarded_prefix {
        let value = values::expand_field(admitted, prefix);
        if value.is_empty() {
            edits.remove("X-Forwarded-Prefix");
        } else {
            edits.set("X-Forwarded-Prefix", value);
        }
    }
}

/// Sets the headers that the settings add for every endpoint.
fn set_on_request<'e>(heads: &'e HeadSettings, admitted: &Admitted<'_>, edits: &mut HeadEdits<'e>) {
    for (name, template) in &heads.of_requests {
        let value = values::expand_field(admitted, template);
        if value.is_empty() {
            edits.remove(name);
        } else {
            edits.set(name, value);
        }
    }
}

/// The head of a request as endpoints get it, with room for its body. One that awaits the length of the body
/// has no end.
pub(crate) fn write_head(admitted: &Admitted<'_>, forward: &Forward, awaits_length: bool) -> Buffer {
    write_head_with(admitted, forward, awaits_length, |edits| cache_head::edit_request(admitted, edits))
}

/// `Host`, where it is neither the client's nor a trusted hop's.
pub(crate) fn host(admitted: &Admitted<'_>, forward: &Forward) -> Option<Vec<u8>> {
    let host = forward.head.as_ref().and_then(|head| head.host.as_ref());
    let host = host.map(|host| values::expand_field(admitted, host)).filter(|host| !host.is_empty());
    let host = script_heads::host(admitted).or(host);
    if admitted.is_filtered() { filtered::host(admitted).or(host) } else { host }
}

/// Path and query, where they are not the client's.
fn changed_target<'e>(admitted: &'e Admitted<'_>) -> Option<&'e [u8]> {
    admitted
        .rewritten_target()
        .or_else(|| admitted.script.as_ref().and_then(|script| script.target.as_deref()))
}

/// Path and query.
pub(crate) fn target<'e>(admitted: &'e Admitted<'_>) -> &'e [u8] {
    changed_target(admitted).unwrap_or_else(|| admitted.sent_target())
}

/// The changes to the client's head for endpoints; with `tells_trace` the trace too, which is another one for
/// each request.
pub(crate) fn edits<'e>(admitted: &'e Admitted<'_>, forward: &Forward, tells_trace: bool) -> HeadEdits<'e> {
    if !admitted.needs.has_any(Needs::REQUEST_HEAD) {
        return HeadEdits::default();
    }
    let mut edits = HeadEdits::over(Head::of_request(admitted.head, admitted.parsed));
    if let Some(heads) = &admitted.config.settings().heads {
        set_on_request(heads, admitted, &mut edits);
    }
    let access = admitted.route.and_then(|route| route.access.as_deref());
    if let Some(demand) = access.and_then(|access| access.client_certificate.as_ref()) {
        client_certificate::tell(demand, admitted.conn.tls.as_deref(), &mut edits);
    }
    for (name, value) in admitted.decision.iter().flat_map(|decision| &decision.upstream) {
        match value {
            Some(value) => edits.set(name, value.as_slice()),
            None => edits.remove(name),
        }
    }
    if let Some(head) = &forward.head {
        tell(head, admitted, &mut edits);
    }
    if let Some(trace) = admitted.trace.as_ref().filter(|_| tells_trace) {
        trace.tell(&mut edits);
    }
    script_heads::edit_request(admitted, &mut edits);
    if admitted.is_filtered() {
        filtered::edit_request(admitted, &mut edits);
    }
    edits
}

/// The head of a request as endpoints get it, with changes of one's own.
pub(crate) fn write_head_with(
    admitted: &Admitted<'_>,
    forward: &Forward,
    awaits_length: bool,
    change: impl FnOnce(&mut HeadEdits<'_>),
) -> Buffer {
    if admitted.peer_request.is_some() {
        return write_head_for_peer(admitted, change);
    }
    let (parsed, settings) = (admitted.parsed, admitted.config.settings());
    let mut bytes = Buffer::small(&admitted.worker.buffers);
    let host = host(admitted, forward);
    let mut edits = edits(admitted, forward, true);
    change(&mut edits);
    let has_errors = admitted.route.is_some_and(|route| route.error_pages.is_some());
    let target = if has_errors { errors::tell(admitted, &mut edits) } else { None };
    let options = RequestOptions {
        forwarded: &admitted.forwarded,
        host: host.as_deref(),
        target: target.as_deref().or_else(|| changed_target(admitted)),
        last_lines: Some(&admitted.conn.last_lines).filter(|_| admitted.conn.requests.get() > 1),
        request_id: admitted.id.as_bytes(),
        original_uri: settings.forwarded.original_uri && admitted.error_page.is_none(),
        connection: forward.connection_header,
        is_upgrade: admitted.is_upgrade(),
        names: settings.client.header_names,
        is_bodiless: admitted.is_bodiless(),
        is_http_1_0: forward.transfer.uses_http_1_0,
        awaits_length,
    };
    write_request_head(admitted.head, parsed, &options, &edits, &mut bytes);
    bytes
}

/// The head of another replica's request, which is as endpoints are to get it.
#[cold]
fn write_head_for_peer(admitted: &Admitted<'_>, change: impl FnOnce(&mut HeadEdits<'_>)) -> Buffer {
    let (head, parsed) = (admitted.head, admitted.parsed);
    let mut edits = HeadEdits::default();
    change(&mut edits);
    edits.remove(replicas::NAME);
    let subrequest = Subrequest {
        method: admitted.method(),
        target: admitted.sent_target(),
        host: admitted.host(),
        names: HeaderNames::All,
    };
    let mut bytes = Buffer::small(&admitted.worker.buffers);
    write_subrequest_head(head, parsed, &subrequest, &edits, &mut bytes);
    bytes
}

/// The protocol of the endpoints of the request's cluster.
pub(crate) fn protocol(admitted: &Admitted<'_>) -> AppProtocol {
    let version = |cluster| admitted.config.snapshot.cluster(cluster).version;
    admitted.cluster.map(version).unwrap_or_default()
}

/// The parameters of an application beside the `head`; none if the endpoints do not speak `FastCGI`.
pub(crate) fn params(
    admitted: &Admitted<'_>,
    forward: &Forward,
    protocol: AppProtocol,
    head: &Buffer,
) -> Option<Box<Params>> {
    let fast_cgi = || forward.head.as_ref().and_then(|head| head.fast_cgi.as_deref());
    let is_told = protocol == AppProtocol::FastCgi;
    is_told.then(|| Box::new(Params(cgi::params(admitted, fast_cgi(), head.data()))))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use model::template::Template;
    use model::{
        Action, AfterRewrite, Block, Expression, Model, PathChange, RequestFilter, RequestFilters, Route,
        Sampler, Script, ScriptRewrite, Settings, Step, TraceShare, Tracing, UrlRewrite,
    };

    use super::*;
    use crate::request::decision::Decision;
    use crate::testing::{FAST_CGI, ONE, TWO, World, forward, model, route, route_to};

    fn with_head(head: UpstreamHead) -> Forward {
        Forward { head: Some(Box::new(head)), ..forward(TWO) }
    }

    /// The route with a filter that rewrites the path.
    fn rewriting(route: Route) -> Route {
        let path = Some(PathChange::Full("/of-filter".to_owned()));
        let rewrite = Arc::new(UrlRewrite { path, ..UrlRewrite::default() });
        let filters = RequestFilters::new(vec![RequestFilter::UrlRewrite(rewrite)]).unwrap();
        Route { request_filters: filters, ..route }
    }

    /// The route with a snippet that rewrites the path, and what the snippet does next.
    fn scripted(route: Route, next: AfterRewrite) -> Route {
        let rewrite = ScriptRewrite {
            pattern: Expression::anywhere("^/a").unwrap(),
            target: Template::parse("/of-script").unwrap(),
            query: None,
            keeps_query: true,
            next,
        };
        let block = Block { steps: vec![Step::Rewrite(rewrite)], ..Block::default() };
        let script = Script { route: Some(Arc::new(block)), ..Script::default() };
        Route { script: Some(Box::new(script)), ..route }
    }

    #[test]
    fn filters_come_before_scripts_unless_these_end_all_rewrites() {
        let go_on = |route| scripted(route, AfterRewrite::GoOn);
        let stay = |route| scripted(route, AfterRewrite::Stay);
        for (route, expected) in [
            (route_to(TWO), "/a?b"),
            (go_on(route_to(TWO)), "/of-script?b"),
            (stay(route_to(TWO)), "/of-script?b"),
            (rewriting(route_to(TWO)), "/of-filter?b"),
            (rewriting(go_on(route_to(TWO))), "/of-filter?b"),
            (rewriting(stay(route_to(TWO))), "/of-script?b"),
        ] {
            let found = World::of(route).admitted("GET /a?b", |admitted, _| target(&admitted).to_vec());
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }

    #[test]
    fn the_host_is_the_client_s_unless_the_route_names_one() {
        let named =
            |text| UpstreamHead { host: Some(Template::parse(text).unwrap()), ..UpstreamHead::default() };
        for (forward, expected) in [
            (forward(TWO), None),
            (with_head(named("backend.test")), Some(b"backend.test".to_vec())),
            (with_head(named("")), None),
        ] {
            let world = World::of(route("/", Action::Forward(forward.clone())));
            assert_eq!(world.admitted("GET /", |admitted, _| host(&admitted, &forward)), expected);
        }
    }

    #[test]
    fn a_plain_route_changes_nothing() {
        World::of(route_to(TWO)).admitted("GET /\ntraceparent: x", |admitted, _| {
            assert!(edits(&admitted, &forward(TWO), true).is_empty());
        });
    }

    #[test]
    fn a_trace_is_told_on_request() {
        let sampler = Sampler { share: TraceShare::ALL, follows_parent: false };
        let tracing = Some(Arc::new(Tracing { operation: None, trusts_client: false, sampler }));
        World::of(Route { tracing, ..route_to(TWO) }).admitted("GET /", |admitted, _| {
            let told = edits(&admitted, &forward(TWO), true).lines();
            assert!(told[0].starts_with("traceparent: 00-") && told[0].ends_with("-01"), "{told:?}");
            assert_eq!(told[1], "tracestate", "the client's does not pass");
            assert!(edits(&admitted, &forward(TWO), false).is_empty());
        });
    }

    #[test]
    fn what_the_checks_say_replaces_what_all_endpoints_are_told() {
        let of_requests = vec![
            ("X-User".to_owned(), Template::parse("nobody").unwrap()),
            ("X-Zone".to_owned(), Template::parse("a").unwrap()),
        ];
        let heads = Some(Box::new(HeadSettings { of_requests, ..HeadSettings::default() }));
        let settings = Settings { heads, ..Settings::default() };
        World::new(&Model { settings, ..model([route_to(TWO)]) }).admitted("GET /", |admitted, _| {
            let mut decision = Decision::default();
            decision.tell("x-user", Some(b"ann".to_vec()));
            decision.tell("Cookie", None);
            let admitted = Admitted { decision: Some(Rc::new(decision)), ..admitted };
            let told = edits(&admitted, &forward(TWO), true).lines();
            assert_eq!(told, ["X-User: ann", "X-Zone: a", "Cookie"]);
        });
    }

    #[test]
    fn the_head_is_written_with_the_changed_target_and_host() {
        let host = Some(Template::parse("backend.test").unwrap());
        let forward = with_head(UpstreamHead { host, ..UpstreamHead::default() });
        let world = World::of(rewriting(route("/", Action::Forward(forward.clone()))));
        world.admitted("GET /a?b\nX-Own: 1", |admitted, _| {
            let head = write_head(&admitted, &forward, false);
            let head = String::from_utf8_lossy(head.data()).into_owned();
            assert!(head.starts_with("GET /of-filter?b HTTP/1.1\r\n"), "{head}");
            for line in ["backend.test", "X-Own: 1"] {
                assert!(head.contains(line), "{line} in {head}");
            }
            assert!(!head.contains("web.test\r\nX-Own"), "{head}");
        });
    }

    #[test]
    fn only_applications_have_parameters() {
        for (cluster, expected) in [(ONE, false), (FAST_CGI, true)] {
            World::of(route_to(cluster)).admitted("GET /", |admitted, _| {
                let head = write_head(&admitted, &forward(cluster), false);
                let params = params(&admitted, &forward(cluster), protocol(&admitted), &head);
                assert_eq!(params.is_some(), expected);
            });
        }
    }
}
