//! Descriptions of the steps of a request, in words. The steps, their order and their effects are those that
//! were noted while the request was taken through them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use model::overload::{Concurrency, Mode, Overload, Priority};
use model::template::Template;
use model::{
    Access, Action, AuthzProtocol, Backends, CachePolicy, ClientPlaces, ErrorPages, ExtAuthz, ExternalAuth,
    Forward, HeaderChanges, Jwt, Oidc, QuotaWindow, Rate, RequestFilter, ResponseFilter, Route,
};

use super::{Inspected, Outcome, Step, Verdict, destination, processor};
use crate::admit::Admitted;
use crate::admit::access::{jwt, limits, priority, quota};
use crate::admit::firewall::unix_time;
use crate::admit::upstream_head;
use crate::answer::{recode, replace};
use crate::cache;
use crate::forward::mirror;
use crate::forward::outbound;
use crate::request::geo;
use crate::request::stage::Stage;
use crate::request::trace::Trace;
use crate::route::values;
use crate::upstream::Cluster;

/// A step that was done.
#[derive(Clone, Copy)]
pub(super) struct Noted {
    pub(super) stage: Stage,
    pub(super) goes_on: bool,
}

/// The steps that were done, except those without any configuration.
pub(super) fn describe(admitted: &Admitted<'_>, noted: &[Noted], inspected: Option<&Inspected>) -> Vec<Step> {
    let last = noted.len().saturating_sub(1);
    let of = |(at, noted): (usize, &Noted)| {
        let (verdict, text) = match (noted.stage, inspected) {
            (Stage::Firewall, Some(inspected)) => firewall(admitted, inspected),
            _ => step(admitted, *noted)?,
        };
        // One check of several may suffice; then only the last result counts.
        let is_outvoted = verdict == Verdict::Answers && at < last;
        let verdict = if is_outvoted { Verdict::Passes } else { verdict };
        let text = if is_outvoted { format!("{text}; another check may") } else { text };
        Some(Step { stage: noted.stage, verdict, text })
    };
    noted.iter().enumerate().filter_map(of).collect()
}

/// Adds the client's response to the last step.
pub(super) fn conclude(steps: &mut [Step], outcome: &Outcome) {
    let (Outcome::Answered(answer) | Outcome::Replaced(answer, _)) = outcome else { return };
    let Some(last) = steps.last_mut().filter(|step| step.verdict == Verdict::Answers) else { return };
    let status = answer.status;
    let described = answer.location().map_or_else(|| status.to_string(), |to| format!("{status} to {to}"));
    last.text = format!("{described}: {}", last.text);
}

fn step(admitted: &Admitted<'_>, Noted { stage, goes_on }: Noted) -> Option<(Verdict, String)> {
    let route = admitted.route;
    let access = route.and_then(|route| route.access.as_deref());
    let plain = if goes_on { Verdict::Passes } else { Verdict::Answers };
    let either = |passes: &str, answers: &str| (if goes_on { passes } else { answers }).to_owned();
    let text = match stage {
        Stage::BlockedHeaders => {
            either("User-Agent and Referer are not blocked", "User-Agent or Referer is blocked")
        }
        Stage::Route => route_in_words(admitted, route.map(|route| &**route), goes_on),
        Stage::HostGuards | Stage::GuardsInClear => guards(admitted, access?, stage, goes_on)?,
        Stage::AppRoot => either("the path is not /", "the path is /"),
        Stage::HostScript => {
            either("the snippet of the host lets it pass", "the snippet of the host answers")
        }
        Stage::Location => {
            either("a location of the host's snippet takes it", "a location of the host's snippet answers")
        }
        Stage::RouteScript => {
            route?.script.as_ref()?.route.as_ref()?;
            return Some(script(admitted, goes_on, plain));
        }
        Stage::BodyLength => return body_length(admitted, route?, goes_on),
        Stage::Closed => access?.unavailable.clone()?,
        Stage::Preflight => return preflight(route?, goes_on),
        Stage::Redirect => {
            either("no redirect for this request", "all requests of the route are sent elsewhere")
        }
        Stage::Rewrite => return Some(rewrite(admitted, goes_on)),
        Stage::TlsRedirect => tls_redirect(admitted, route, goes_on),
        Stage::Maintenance => either("no maintenance for this client now", "the route is under maintenance"),
        Stage::RequestHeaders => return Some((Verdict::Changes, request_headers(route?))),
        Stage::Backend => return backend(admitted, route?, goes_on),
        Stage::Limits => return Some(limits_in_words(admitted, access?, goes_on)),
        Stage::Networks => {
            let client = client_in_words(admitted, access?);
            if goes_on { format!("{client} may") } else { format!("{client} may not") }
        }
        Stage::ApiKeys => match admitted.decision.as_deref().and_then(|decision| decision.client.as_ref()) {
            Some(holder) => format!("the key is that of {}", holder.name),
            None => "there is no key, or an unknown one".to_owned(),
        },
        Stage::Jwt => token(admitted, access?.jwt.as_deref()?, goes_on),
        Stage::BasicAuth => basic(admitted, goes_on),
        Stage::Oidc => sign_in(admitted, access?, goes_on)?,
        Stage::ExternalAuth | Stage::ExtAuthz => return asked(admitted, access?, stage),
        Stage::Processor => {
            return Some((Verdict::Changes, processor::in_words(admitted, access?.processor.as_ref()?)));
        }
        Stage::Firewall
        | Stage::Buffering
        | Stage::UpstreamHead
        | Stage::Cache
        | Stage::Guard
        | Stage::Mirror
        | Stage::Balance
        | Stage::Timeouts
        | Stage::Retries
        | Stage::Overload
        | Stage::Responses
        | Stage::Replacements
        | Stage::Codings
        | Stage::ErrorPages
        | Stage::Tracing => return None,
    };
    Some((plain, text))
}

/// A request that asks whether a page may ask from another origin, where the route has rules for that.
fn preflight(route: &Route, goes_on: bool) -> Option<(Verdict, String)> {
    let is_cors =
        |filter: &&ResponseFilter| matches!(filter, ResponseFilter::Cors(_) | ResponseFilter::CrossOrigin(_));
    route.response_filters.as_slice().iter().find(is_cors)?;
    let (verdict, text) = if goes_on {
        (Verdict::Changes, "no preflight; the response gets the headers of CORS")
    } else {
        (Verdict::Answers, "a preflight of CORS")
    };
    Some((verdict, text.to_owned()))
}

/// The client's address, and its place where the route has rules for it.
fn client_in_words(admitted: &Admitted<'_>, access: &Access) -> String {
    let mut text = admitted.forwarded.client.to_string();
    let places = access.networks.as_ref().and_then(|networks| networks.places.as_deref());
    if places.is_some_and(ClientPlaces::need_countries) {
        let _ = match geo::country(admitted.request) {
            Ok(Some(country)) => write!(text, " of {country}"),
            Ok(None) => write!(text, " of an unknown country"),
            Err(_) => write!(text, " without a database of countries"),
        };
    }
    if places.is_some_and(ClientPlaces::need_systems) {
        let _ = match geo::system(admitted.request) {
            Ok(Some(system)) => write!(text, " in AS{system}"),
            Ok(None) => write!(text, " in an unknown autonomous system"),
            Err(_) => write!(text, " without a database of autonomous systems"),
        };
    }
    text
}

/// The result of the firewall, which ends its transaction.
pub(super) fn inspected(admitted: &Admitted<'_>) -> Option<Inspected> {
    let inspection = admitted.inspection()?;
    let (phase, rule) = (inspection.phase(), Some(inspection.rule()).filter(|rule| *rule > 0));
    Some(Inspected { report: inspection.finish(unix_time(admitted))?.clone(), phase, rule })
}

fn sign_in(admitted: &Admitted<'_>, access: &Access, goes_on: bool) -> Option<String> {
    let issuers = |sign_ins: &[Arc<Oidc>]| {
        let issuers = sign_ins.iter().map(|one| one.client.provider.settings().issuer.as_str());
        issuers.collect::<Vec<_>>().join(" or ")
    };
    if let Some(endpoints) = &access.oidc_endpoints {
        return Some(format!("Forebay itself answers, for those who sign in at {}", issuers(endpoints)));
    }
    let oidc = access.oidc.as_ref()?;
    let issuer = issuers(std::slice::from_ref(oidc));
    if oidc.has_path(admitted.client_path()) {
        return Some(format!("Forebay itself answers, for those who sign in at {issuer}"));
    }
    let decision = admitted.decision.as_deref().filter(|decision| decision.session.is_some());
    let Some(decision) = decision else {
        return Some(format!("there is no session: a browser has to sign in at {issuer}"));
    };
    let name = decision.user.as_deref().unwrap_or("somebody without a name");
    let rest = if goes_on { "" } else { ", and no rule lets the request pass" };
    Some(format!("{name} has signed in at {issuer}{rest}"))
}

fn firewall(admitted: &Admitted<'_>, inspected: &Inspected) -> (Verdict, String) {
    let Inspected { report, phase, rule } = inspected;
    let mut text = match (phase, rule, report.stopped_by) {
        (0, _, None) => "the rules let it pass".to_owned(),
        (0, _, Some(rule)) => format!("rule {rule} would refuse it, but the rules only report"),
        (phase, Some(rule), _) => format!("rule {rule} refuses it in phase {phase}"),
        (phase, None, _) => format!("a limit of the rules refuses it in phase {phase}"),
    };
    for (name, score) in [("inbound", report.inbound_score), ("outbound", report.outbound_score)] {
        if let Some(score) = score.filter(|score| *score > 0) {
            let _ = write!(text, ", {name} score {score}");
        }
    }
    if *phase == 0 && admitted.parsed.has_body() && !admitted.progress.has_body_begun() {
        text.push_str("; they have not seen its body");
    }
    (if *phase == 0 { Verdict::Passes } else { Verdict::Answers }, text)
}

fn route_in_words(admitted: &Admitted<'_>, route: Option<&Route>, goes_on: bool) -> String {
    let host = String::from_utf8_lossy(admitted.host());
    match route {
        Some(route) if goes_on => {
            let (labels, path) = (&route.labels, &route.path);
            format!("host {}, path {:?} {}", labels.host(), path.kind(), path.path())
        }
        Some(route) => format!("the path is that of {} but for the final slash", route.path.path()),
        None => format!("no route takes host {host:?} with this path and method"),
    }
}

/// The guards of a host, in words. A client certificate is described at the stage for the connection: with or
/// without TLS.
fn guards(admitted: &Admitted<'_>, access: &Access, stage: Stage, goes_on: bool) -> Option<String> {
    if let Some(why) = &access.forbidden {
        return Some(why.clone());
    }
    let demand = access.client_certificate.as_ref()?;
    if (stage == Stage::GuardsInClear) != admitted.conn.tls.is_none() {
        return None;
    }
    let verify = demand.verify;
    Some(if goes_on {
        format!("a client without a certificate passes ({verify:?})")
    } else {
        format!(
            "a client without a certificate is refused ({verify:?}); a good one is shown over TLS and lets it pass"
        )
    })
}

fn script(admitted: &Admitted<'_>, goes_on: bool, plain: Verdict) -> (Verdict, String) {
    let target = admitted.script.as_ref().and_then(|script| script.target.as_deref());
    match target {
        Some(target) if goes_on => {
            (Verdict::Changes, format!("the snippets lead to {}", String::from_utf8_lossy(target)))
        }
        _ if goes_on => (plain, "the snippet lets it pass".to_owned()),
        _ => (plain, "the snippet answers".to_owned()),
    }
}

fn body_length(admitted: &Admitted<'_>, route: &Route, goes_on: bool) -> Option<(Verdict, String)> {
    let Action::Forward(forward) = &route.action else { return None };
    let max = forward.body_bytes_max.bytes()?;
    let fields = &admitted.parsed.fields;
    let (verdict, text) = match fields.content_length {
        Some(length) if !goes_on => (Verdict::Answers, format!("{length} bytes are more than {max}")),
        Some(length) => (Verdict::Passes, format!("{length} bytes of at most {max}")),
        None if fields.chunked => {
            (Verdict::Unknown, format!("the length of the body shows while it comes; above {max} bytes: 413"))
        }
        None => (Verdict::Passes, format!("no body; at most {max} bytes")),
    };
    Some((verdict, text))
}

fn rewrite(admitted: &Admitted<'_>, goes_on: bool) -> (Verdict, String) {
    let target = admitted.rewritten_target();
    match target {
        Some(target) => {
            (Verdict::Changes, format!("the endpoint is asked for {}", String::from_utf8_lossy(target)))
        }
        None if goes_on && has_url_rewrite(admitted) => {
            (Verdict::Changes, "the endpoint is told another host".to_owned())
        }
        None if goes_on => (Verdict::Passes, "the pattern is not found in the path".to_owned()),
        None => (Verdict::Answers, "the target is a URL".to_owned()),
    }
}

fn has_url_rewrite(admitted: &Admitted<'_>) -> bool {
    let filters = admitted.route.map_or(&[][..], |route| route.request_filters.as_slice());
    filters.iter().any(|filter| matches!(filter, RequestFilter::UrlRewrite(_)))
}

/// Changes to headers of the request.
fn request_headers(route: &Route) -> String {
    let changes = route.request_filters.as_slice().iter().find_map(|filter| match filter {
        RequestFilter::Headers(changes) => Some(&**changes),
        _ => None,
    });
    changes.map(changes_in_words).unwrap_or_default()
}

/// Changes to headers, in words.
pub(super) fn changes_in_words(changes: &HeaderChanges) -> String {
    let names = |list: &[(String, String)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let all = [
        ("sets", names(changes.set())),
        ("adds to", names(changes.add())),
        ("removes", changes.remove().to_vec()),
    ];
    let lists = all.into_iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<_> = lists.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    lists.join("; ")
}

fn tls_redirect(admitted: &Admitted<'_>, route: Option<&std::sync::Arc<Route>>, goes_on: bool) -> String {
    if !goes_on {
        return "the request came in clear".to_owned();
    }
    let filters = route.map_or(&[][..], |route| route.request_filters.as_slice());
    let redirect = filters.iter().find_map(|filter| match filter {
        RequestFilter::TlsRedirect(redirect) => Some(redirect),
        _ => None,
    });
    let is_https = admitted.conn.tls.is_some() || admitted.forwarded.scheme == b"https";
    match redirect {
        _ if is_https => "the request came over TLS".to_owned(),
        Some(redirect) if redirect.only_for.is_some() => "no certificate is for this name".to_owned(),
        _ => "no redirect for this request".to_owned(),
    }
}

fn backend(admitted: &Admitted<'_>, route: &Route, goes_on: bool) -> Option<(Verdict, String)> {
    if let Action::Respond(_) = &route.action {
        return Some((Verdict::Passes, "none is needed: the answer is fixed".to_owned()));
    }
    let Action::Forward(forward) = &route.action else { return None };
    if !goes_on && admitted.cluster.is_none() {
        let why = "by chance it is for a backend that does not exist or may not be referred to";
        return Some((Verdict::Answers, why.to_owned()));
    }
    if !goes_on {
        return Some((Verdict::Answers, "there is no endpoint".to_owned()));
    }
    let name = |cluster| admitted.config.snapshot.cluster(cluster).name.clone();
    let chosen = admitted.cluster?;
    if forward.fallback.as_ref().is_some_and(|fallback| fallback.clusters.contains(&chosen)) {
        let text = format!("what is preferred is out of use; {} steps in", name(chosen));
        return Some((Verdict::Changes, text));
    }
    if !forward.backends.clusters().any(|cluster| cluster == chosen) {
        return Some((Verdict::Changes, format!("there is no endpoint; {} steps in", name(chosen))));
    }
    match &forward.backends {
        Backends::One(cluster) => Some((Verdict::Passes, name(*cluster))),
        Backends::Split(split) if split.backends().len() == 1 => Some((Verdict::Passes, name(chosen))),
        Backends::Split(_) => {
            Some((Verdict::Unknown, "by chance, by the weights of the backends".to_owned()))
        }
        Backends::Canary(canary) => {
            let choice = admitted.canary_choice(canary);
            let verdict = if choice.takes().is_some() { Verdict::Passes } else { Verdict::Unknown };
            Some((verdict, destination::describe_choice(admitted, canary, choice)))
        }
    }
}

fn limits_in_words(admitted: &Admitted<'_>, access: &Access, goes_on: bool) -> (Verdict, String) {
    let decision = admitted.decision.as_deref();
    let limits =
        access.limits.as_ref().filter(|limits| limits::counted(admitted, decision, limits).is_limited());
    let quota = access.quota.as_ref().filter(|quota| quota::counted(admitted, decision, quota).is_limited());
    let rates = limits.into_iter().flat_map(|limits| {
        let of_rate = move |rate: &Rate| {
            let (status, burst) = (limits.rate_status, rate.burst);
            format!("{} a minute and {burst} at once beside one: else {status}", rate.per_minute)
        };
        limits.rates.iter().map(of_rate)
    });
    let connections = limits.and_then(|limits| {
        Some(format!("{} at a time: else {}", limits.connections?, limits.connections_status))
    });
    let of_window = |window: &QuotaWindow| format!("{} in {} s: else 429", window.requests, window.seconds);
    let windows = quota.into_iter().flat_map(|quota| &quota.windows).map(of_window);
    let together =
        quota.filter(|quota| quota.is_shared).map(|_| "counted with the other replicas".to_owned());
    let all: Vec<_> = rates.chain(connections).chain(windows).chain(together).collect();
    if all.is_empty() {
        return (Verdict::Passes, "this client is not limited".to_owned());
    }
    let verdict = if goes_on { Verdict::Unknown } else { Verdict::Answers };
    (verdict, format!("depends on how much the client asks for ({})", all.join("; ")))
}

fn basic(admitted: &Admitted<'_>, goes_on: bool) -> String {
    let has_credentials = admitted.parsed.fields.find_name(admitted.head, b"authorization").is_some();
    let text = match (goes_on, has_credentials) {
        (true, _) => "the password is right",
        (false, true) => "the credentials are not right",
        (false, false) => "there are no credentials",
    };
    text.to_owned()
}

fn token(admitted: &Admitted<'_>, jwt: &Jwt, goes_on: bool) -> String {
    let token = admitted.decision.as_deref().and_then(|decision| decision.token.as_deref());
    let said = jwt::in_words(admitted, jwt, token);
    if token.is_some() && !goes_on { format!("{said}, and no rule allows the request") } else { said }
}

/// The services that decide on the request; their answers are not known.
fn asked(admitted: &Admitted<'_>, access: &Access, stage: Stage) -> Option<(Verdict, String)> {
    if stage == Stage::ExternalAuth {
        return Some((Verdict::Unknown, external(admitted, access.external.as_ref()?)));
    }
    let services = access.ext_authz.iter().map(|authz| ext_authz(admitted, authz));
    Some((Verdict::Unknown, services.collect::<Vec<_>>().join("; ")))
}

fn external(admitted: &Admitted<'_>, auth: &ExternalAuth) -> String {
    let check = &auth.check;
    let text =
        |template: &Template| String::from_utf8_lossy(&values::expand(admitted, template)).into_owned();
    let service = &admitted.config.snapshot.cluster(auth.cluster).name;
    let method = check.method.as_deref().unwrap_or("GET");
    let (host, target) = (text(&check.host), text(&check.target));
    let mut said = format!("asks {service}: {method} {target} of {host}; 2xx lets it in");
    if !check.response_headers.is_empty() {
        said += ", and the endpoint gets its ";
        said += &check.response_headers.join(", ");
    }
    said
}

fn ext_authz(admitted: &Admitted<'_>, authz: &ExtAuthz) -> String {
    let check = &authz.check;
    let service = &admitted.config.snapshot.cluster(authz.cluster).name;
    let how = match &check.protocol {
        AuthzProtocol::Grpc { .. } => "gRPC: its status 0".to_owned(),
        AuthzProtocol::Http { prefix, .. } => format!("HTTP below {prefix}/: 200"),
    };
    let seen = match check.body {
        Some(body) => format!(", with up to {} bytes of the body", body.bytes_max),
        None => String::new(),
    };
    let otherwise =
        if check.fails_open { "let in".to_owned() } else { format!("answered {}", check.status_on_error) };
    let millis = check.timeout.as_millis();
    format!(
        "asks {service} by {how} lets it in{seen}; without an answer within {millis} ms it is {otherwise}"
    )
}

fn overload_in_words(overload: &Overload) -> (Verdict, String) {
    let limit = match overload.concurrency {
        Concurrency::Auto => "as many requests at a time as it answers without delay".to_owned(),
        Concurrency::Fixed(limit) => format!("{limit} requests at a time"),
        Concurrency::Off => "as many requests as come".to_owned(),
    };
    if overload.mode != Mode::Enforce {
        return (Verdict::Passes, format!("an endpoint ought to have {limit}; that is only watched"));
    }
    let text = if overload.queue_timeout.is_zero() {
        format!("an endpoint has {limit}: else 503")
    } else {
        let seconds = overload.queue_timeout.as_secs_f64();
        format!("an endpoint has {limit}; others wait for {seconds} s at most: else 503")
    };
    let verdict = if overload.concurrency == Concurrency::Off { Verdict::Passes } else { Verdict::Unknown };
    (verdict, text)
}

/// Treatment of a request by the cache, as far as that is known.
pub(super) fn of_cache(admitted: &Admitted<'_>, policy: &CachePolicy) -> Step {
    Step { stage: Stage::Cache, verdict: Verdict::Unknown, text: cache::in_words(admitted, policy) }
}

/// The overload guard's rule for the request's priority; none for a normal request without a shortage.
pub(super) fn of_guard(admitted: &Admitted<'_>, forward: &Forward) -> Option<Step> {
    let relief = admitted.worker.relief();
    let priority = priority::of(admitted, forward.priority);
    let mode = admitted.config.settings().guard;
    if mode == Mode::Off || (priority == Priority::Normal && relief.level == 0) {
        return None;
    }
    let rule = match priority {
        Priority::Critical => "critical: never refused while Forebay is short of something",
        Priority::Normal => "normal: refused while Forebay is short of something at level 3",
        Priority::Sheddable => "sheddable: refused while Forebay is short of something at level 2 or above",
    };
    let mut text = rule.to_owned();
    if mode == Mode::Watch {
        text.push_str(", if that were not only watched");
    }
    if relief.level > 0 {
        let _ = write!(text, "; the level is {} now", relief.level);
    }
    let verdict = match relief.sheds(priority) && !relief.only_watches {
        true if forward.cache.is_some() => {
            text.push_str(": refused unless the cache answers");
            Verdict::Unknown
        }
        true => Verdict::Answers,
        false => Verdict::Passes,
    };
    Some(Step { stage: Stage::Guard, verdict, text })
}

/// Rules for a forwarded request.
pub(super) fn of_forward(admitted: &Admitted<'_>, forward: &Forward, cluster: &Cluster) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut add = |stage, verdict, text| steps.push(Step { stage, verdict, text });
    if admitted.parsed.has_body() {
        let is_held = outbound::is_held(admitted, forward, upstream_head::protocol(admitted));
        let text = if is_held { "the body is read whole first" } else { "the body is passed on as it comes" };
        add(Stage::Buffering, Verdict::Passes, text.to_owned());
    }
    if forward.head.is_some() {
        add(Stage::UpstreamHead, Verdict::Changes, "the endpoint is told other headers".to_owned());
    }
    for mirror in outbound::mirrors(admitted, forward) {
        add(Stage::Mirror, Verdict::Changes, mirror::in_words(admitted, forward, mirror));
    }
    if cluster.keyed().is_some() || cluster.compares_times() {
        add(Stage::Balance, Verdict::Passes, "see the endpoints".to_owned());
    }
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    let times = &forward.timeouts;
    let mut text = format!(
        "{} to connect, {} between two writes, {} between two reads",
        seconds(times.connect),
        seconds(times.send),
        seconds(times.read)
    );
    for (time, what) in [(times.backend_request, "one try"), (times.request, "all tries together")] {
        if let Some(time) = time {
            text = format!("{text}, {} for {what}", seconds(time));
        }
    }
    add(Stage::Timeouts, Verdict::Passes, text);
    let tries =
        forward.retry.tries.map_or_else(|| "one for each endpoint".to_owned(), |tries| tries.to_string());
    let mut text = format!("tries at most: {tries}");
    if let Some(backoff) = forward.retry.backoff {
        text = format!("{text}, {} apart", seconds(backoff));
    }
    add(Stage::Retries, Verdict::Passes, text);
    if let Some(overload) = forward.overload.as_deref().filter(|it| **it != Overload::default()) {
        let (verdict, text) = overload_in_words(overload);
        add(Stage::Overload, verdict, text);
    }
    let of_route = admitted.route.is_some_and(|route| !route.response_filters.as_slice().is_empty());
    if of_route || forward.transfer.response.is_some() {
        add(
            Stage::Responses,
            Verdict::Changes,
            "the response is changed on its way, or sent at a pace".to_owned(),
        );
    }
    if let Some(replacements) = forward.transfer.response.as_ref().and_then(|it| it.replacements.as_ref()) {
        add(Stage::Replacements, Verdict::Changes, replace::in_words(replacements));
    }
    if let Some(compression) = forward.transfer.response.as_ref().and_then(|it| it.compression.as_ref()) {
        add(Stage::Codings, Verdict::Changes, recode::in_words(admitted, compression));
    }
    if let Some(pages) = admitted.error_pages().filter(|pages| !pages.statuses().is_empty()) {
        add(Stage::ErrorPages, Verdict::Unknown, error_pages_in_words(admitted, pages));
    }
    if let Some(trace) = &admitted.trace {
        let (verdict, text) = trace_in_words(trace);
        add(Stage::Tracing, verdict, text);
    }
    steps
}

/// The statuses whose responses are replaced, and by which backends'.
fn error_pages_in_words(admitted: &Admitted<'_>, pages: &ErrorPages) -> String {
    let names = pages.backends.iter().map(|id| admitted.config.snapshot.cluster(*id).name.as_str());
    let names: Vec<_> = names.chain(["a plain 404"]).collect();
    let statuses: Vec<_> = pages.statuses().iter().map(u16::to_string).collect();
    let whose = if pages.spares_endpoints { "of Forebay's own" } else { "of endpoints and of Forebay's own" };
    format!("in place of {} {whose}: {}", statuses.join(", "), names.join(", else "))
}

/// Role of the request in a trace, and whether its span is sent.
fn trace_in_words(trace: &Trace<'_>) -> (Verdict, String) {
    let whose = match trace.parent {
        Some(_) => "the span is a child of the client's",
        None => "the span begins a trace",
    };
    let percent = trace.tracing.sampler.share.ratio() * 100.0;
    match trace.is_sent() {
        Some(true) => (Verdict::Changes, format!("{whose}; it is sent")),
        Some(false) => (Verdict::Changes, format!("{whose}; it is not sent")),
        None => (Verdict::Unknown, format!("{whose}; by chance it is sent: {percent} % are")),
    }
}
