//! Destinations of a request: candidate endpoints, how one is picked, and the head that it gets.

use balance::CanaryChoice;
use model::overload::Mode;
use model::{AppProtocol, Backend, Backends, Canary, ClusterId, Encryption, Forward, Overload};

use super::Destination;
use crate::admit::Admitted;
use crate::admit::upstream_head;
use crate::forward::outbound;
use crate::request::RequestId;
use crate::request::session::session;
use crate::route::values;
use crate::upstream::{Cluster, Keyed, checks};

/// The destinations of an admitted request. `cluster` is the one that it would go to at this moment.
pub(super) fn all(admitted: &Admitted<'_>, forward: &Forward, cluster: &Cluster) -> Vec<Destination> {
    let fallback = forward.fallback.iter().flat_map(|fallback| fallback.clusters.iter().copied());
    let stands_in = |id| {
        let is_in_use = admitted.cluster == Some(id);
        let choice =
            if is_in_use { "the first that is in use" } else { "while those before it are out of use" };
        one_of(admitted, forward, id, format!("fallback: {choice}"))
    };
    let mut all = of_backends(admitted, forward, cluster);
    all.extend(fallback.map(stands_in));
    all
}

fn of_backends(admitted: &Admitted<'_>, forward: &Forward, cluster: &Cluster) -> Vec<Destination> {
    match &forward.backends {
        Backends::Canary(canary) => of_canary(admitted, forward, canary, cluster),
        Backends::Split(split) if forward.fallback.is_some() && split.backends().len() == 1 => {
            let first = split.backends().iter().filter_map(|one| one.target.cluster());
            first.map(|id| one_of(admitted, forward, id, "preferred while it is in use".to_owned())).collect()
        }
        Backends::Split(split) => {
            let share = |one: &Backend| format!("chance: {} of {}", one.weight, split.weight());
            let taking = split.backends().iter().filter(|one| one.weight > 0);
            let known = taking.filter_map(|one| Some((one, one.target.cluster()?)));
            known.map(|(one, cluster)| of_share(admitted, forward, (one, cluster), share(one))).collect()
        }
        Backends::One(_) => vec![one(admitted, forward, cluster, None)],
    }
}

/// One of several backends. The head is shown for those with the same changes as the selected one.
fn of_share(
    admitted: &Admitted<'_>,
    forward: &Forward,
    (backend, cluster): (&Backend, ClusterId),
    mut share: String,
) -> Destination {
    let noted = admitted.backend.as_ref();
    let is_noted = backend.filters.as_ref() == noted.map(|backend| &backend.filters);
    if backend.filters.is_some() {
        share += ", with filters of its own";
    }
    let destination = one_of(admitted, forward, cluster, share);
    let head = if is_noted { destination.head } else { String::new() };
    Destination { head, ..destination }
}

fn of_canary(
    admitted: &Admitted<'_>,
    forward: &Forward,
    canary: &Canary,
    cluster: &Cluster,
) -> Vec<Destination> {
    let choice = admitted.canary_choice(canary);
    let (weight, total) = admitted.canary_weight(canary).share();
    let why = match choice {
        CanaryChoice::Weight if weight > 0 && weight < total => {
            let ours = format!("canary, by chance: {weight} of {total}");
            let rest = format!("mainline, by chance: {} of {total}", total - weight);
            return vec![
                one_of(admitted, forward, canary.mainline, rest),
                one_of(admitted, forward, canary.cluster, ours),
            ];
        }
        CanaryChoice::Weight if canary.rollout.is_some() => describe_choice(admitted, canary, choice),
        CanaryChoice::Weight if weight == 0 => "mainline: no rule of the canary takes it".to_owned(),
        CanaryChoice::Weight => "canary: its weight takes all".to_owned(),
        decided => describe_choice(admitted, canary, decided),
    };
    vec![one(admitted, forward, cluster, Some(why))]
}

/// The choice between a mainline and its canary, in words.
pub(super) fn describe_choice(admitted: &Admitted<'_>, canary: &Canary, choice: CanaryChoice) -> String {
    let of_rollout = || admitted.worker.rollouts.in_words(canary.rollout.as_ref()?);
    let who = |takes: bool| if takes { "canary" } else { "mainline" };
    let header = canary.rules.header.as_ref().map_or("", |header| &header.name);
    let cookie = canary.rules.cookie.as_deref().unwrap_or_default();
    let (weight, total) = admitted.canary_weight(canary).share();
    match choice {
        CanaryChoice::MainlineEmpty => {
            "the mainline has no endpoint, and then the canary takes nothing".to_owned()
        }
        CanaryChoice::CanaryEmpty => "mainline: the canary has no endpoint".to_owned(),
        CanaryChoice::Affinity(takes) => {
            format!("{}: the client's affinity cookie keeps it there", who(takes))
        }
        CanaryChoice::Header(takes) => format!("{}: the header {header} decides", who(takes)),
        CanaryChoice::Cookie(takes) => format!("{}: the cookie {cookie} decides", who(takes)),
        CanaryChoice::Weight => match of_rollout() {
            Some(step) => format!("by chance: {step}"),
            None => format!("by chance: the canary takes {weight} of {total}"),
        },
    }
}

fn one_of(admitted: &Admitted<'_>, forward: &Forward, id: ClusterId, choice: String) -> Destination {
    let admitted = &admitted.at(Some(id));
    one(admitted, forward, admitted.cluster_of(id), Some(choice))
}

/// One destination; the request has been routed to its cluster.
pub(super) fn one(
    admitted: &Admitted<'_>,
    forward: &Forward,
    cluster: &Cluster,
    choice: Option<String>,
) -> Destination {
    let id = admitted.cluster.expect("a cluster has been chosen");
    let model = admitted.config.snapshot.cluster(id);
    let (mut how, first) = picked(admitted, forward, cluster);
    if let Some(overload) = forward.overload.as_deref().filter(|_| cluster.len() > 1) {
        how.push_str(in_force(overload));
    }
    if let Some(check) = model.health_check.as_deref().filter(|_| cluster.len() > 1) {
        how.push_str(&checks::in_words(check));
    }
    if let Some(constraint) = model.retry_constraint.as_deref() {
        how.push_str("; ");
        how.push_str(&constraint.in_words());
    }
    let addresses = || cluster.members().iter().map(|member| member.endpoint.address);
    let others = addresses().filter(|address| !first.contains(address)).collect();
    let is_tls = match model.encryption {
        Encryption::Never => false,
        Encryption::Always(_) => true,
        Encryption::AsClient(_) => admitted.conn.tls.is_some(),
    };
    let protocol = match (model.version, is_tls) {
        (AppProtocol::Http1, false) if forward.transfer.uses_http_1_0 => "HTTP/1.0",
        (AppProtocol::Http1, false) => "HTTP/1.1",
        (AppProtocol::Http1, true) => "HTTP/1.1 over TLS",
        (AppProtocol::Http2, false) => "HTTP/2",
        (AppProtocol::Http2, true) => "HTTP/2 over TLS",
        (AppProtocol::FastCgi, _) => "FastCGI",
    };
    let upstream = model.name.clone();
    Destination { upstream, choice, protocol, how, endpoints: first, others, head: head(admitted, forward) }
}

/// The endpoints for the bytes of a connection. Without a cluster it is closed.
pub(super) fn of_stream<'c>(
    clusters: impl Iterator<Item = (&'c str, &'c Cluster)>,
    protocol: &'static str,
) -> Destination {
    let clusters: Vec<_> = clusters.collect();
    let names: Vec<_> = clusters.iter().map(|(name, _)| *name).collect();
    let members = clusters.iter().flat_map(|(_, cluster)| cluster.members());
    let how = match clusters.as_slice() {
        [] => "there is no backend: the connection is closed",
        [(_, one)] => in_words(one),
        _ => "by chance, by the weights of the backends",
    };
    Destination {
        upstream: names.join(", "),
        choice: None,
        protocol,
        how: how.to_owned(),
        endpoints: members.map(|member| member.endpoint.address).collect(),
        others: Vec::new(),
        head: String::new(),
    }
}

/// Conditions beside the balancing that decide between endpoints, from one moment to the next.
fn in_force(overload: &Overload) -> &'static str {
    match (overload.mode, overload.ejection, overload.slow_start.is_zero()) {
        (Mode::Off | Mode::Watch, ..) | (_, false, true) => "",
        (_, true, true) => "; those that fail or are slower than the others are ejected",
        (_, true, false) => {
            "; those that fail or are slower than the others are ejected, those that are new have a smaller share"
        }
        (_, false, false) => "; those that are new have a smaller share",
    }
}

fn in_words(cluster: &Cluster) -> &'static str {
    match (cluster.len(), cluster.compares_times()) {
        (0, _) => "there is none",
        (1, _) => "there is one",
        (_, true) => "of two at random, the one with the better average response time",
        (_, false) => "one after the other",
    }
}

/// How an endpoint is picked for the request, with the candidates.
fn picked(
    admitted: &Admitted<'_>,
    forward: &Forward,
    cluster: &Cluster,
) -> (String, Vec<std::net::SocketAddr>) {
    let all = || cluster.members().iter().map(|member| member.endpoint.address).collect();
    match cluster.keyed() {
        None => (in_words(cluster).to_owned(), all()),
        Some(Keyed::Cookie(sticky)) => {
            let (what, name) = match &sticky.affinity.header {
                Some(name) => ("header", &**name),
                None => ("cookie", &*sticky.affinity.cookie.name),
            };
            match session(admitted, sticky).and_then(|value| cluster.of_cookie(sticky, &value)) {
                Some(member) => {
                    (format!("the one that the {what} {name} leads to"), vec![member.endpoint.address])
                }
                None if forward.sets_affinity_cookie => {
                    (format!("at random, and the client is given a {what} {name} for it"), all())
                }
                None => (format!("at random: the client has no {what} {name}"), all()),
            }
        }
        Some(Keyed::Hash(hashed)) => {
            let value = values::expand(admitted, &hashed.by.key);
            let found = cluster.all_of_hash(hashed, &value);
            let mut found: Vec<_> = found.into_iter().map(|member| member.endpoint.address).collect();
            found.sort_unstable();
            found.dedup();
            let set = if hashed.by.subset.is_some() { "at random among the set of" } else { "the one of" };
            (format!("{set} the hash of {:?}", String::from_utf8_lossy(&value)), found)
        }
    }
}

/// The head that an endpoint gets.
fn head(admitted: &Admitted<'_>, forward: &Forward) -> String {
    let awaits_length = outbound::awaits_length(admitted, forward, upstream_head::protocol(admitted));
    let head = upstream_head::write_head(admitted, forward, awaits_length);
    let mut head = String::from_utf8_lossy(head.data()).into_owned();
    if awaits_length {
        head.push_str("Content-Length: (that of the body, once it has come)\r\n\r\n");
    }
    if let Some(trace) = &admitted.trace {
        head = head.replace(&*String::from_utf8_lossy(&trace.traceparent), &trace.known());
    }
    match &admitted.id {
        RequestId::Own(id) => head.replace(&*String::from_utf8_lossy(id), "(made for each request)"),
        RequestId::Incoming(_) | RequestId::None => head,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_only_watched_is_not_said() {
        let watched = Overload { slow_start: Duration::from_secs(1), ..Overload::default() };
        assert_eq!(in_force(&watched), "");
        let enforced = Overload { mode: Mode::Enforce, ..Overload::default() };
        assert_eq!(in_force(&enforced), "; those that fail or are slower than the others are ejected");
        assert_eq!(in_force(&Overload { ejection: false, ..enforced }), "");
        let both = in_force(&Overload { mode: Mode::Enforce, ..watched });
        assert!(both.contains("ejected") && both.contains("smaller share"), "{both}");
    }
}
