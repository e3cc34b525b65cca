//! Translations in a form that can be compared: the numbers of clusters do not count.

use std::sync::Arc;

use control::Translation;
use model::{
    Action, Backend, BackendTarget, Backends, Cluster, ClusterId, Forward, Host, Listener, Model, Route,
    Split, Stream, TlsStream,
};

/// The translation with clusters in place of their ids.
pub(crate) fn canonical(translation: &Translation) -> impl PartialEq + use<> {
    let Translation {
        model,
        problems,
        skipped,
        origins,
        ingresses,
        configmap,
        names,
        missing_services,
        certificates,
        gateway,
        valid_until,
    } = translation.clone();
    let anonymous = ClusterId(0);
    let host = |host: &Arc<Host>| {
        let mut tls = (*host.tls).clone();
        let passthrough =
            tls.passthrough.as_mut().map(|id| cluster(&model, std::mem::replace(id, anonymous)));
        let stream = tls.stream.take().map(|stream| {
            let (backends, clusters) = anonymous_backends(&stream.backends, &model);
            (TlsStream { backends, ..(*stream).clone() }, clusters)
        });
        (
            host.name.clone(),
            host.wider.clone(),
            tls,
            passthrough,
            stream,
            host.routes.iter().map(|route| anonymous_route(route, &model)).collect::<Vec<_>>(),
        )
    };
    let listener = |one: &Listener| {
        let passing = |stream: &Stream| {
            let (backends, passed_to) = anonymous_backends(&stream.backends, &model);
            (Stream { backends, ..stream.clone() }, passed_to)
        };
        (one.id(), one.stream().map(passing))
    };
    let mut clusters: Vec<_> = model.clusters.iter().map(|(_, one)| format!("{one:?}")).collect();
    clusters.sort();
    let served = (
        model.hosts().map(host).collect::<Vec<_>>(),
        clusters,
        model.listeners.iter().map(listener).collect::<Vec<_>>(),
        model.settings.clone(),
    );
    (
        served,
        problems,
        skipped,
        origins,
        ingresses,
        (configmap, names, missing_services, certificates, gateway, valid_until),
    )
}

/// A route without the ids of clusters, and the clusters.
fn anonymous_route(route: &Route, model: &Model) -> (Route, Vec<Cluster>) {
    let anonymous = ClusterId(0);
    let mut route = route.clone();
    let named = |id: &mut ClusterId| cluster(model, std::mem::replace(id, anonymous));
    let clusters = match &mut route.action {
        Action::Forward(Forward { backends: Backends::One(id), .. }) => vec![named(id)],
        Action::Forward(Forward { backends: Backends::Canary(canary), .. }) => {
            vec![named(&mut canary.mainline), named(&mut canary.cluster)]
        }
        Action::Forward(Forward { backends, .. }) => {
            let (without, clusters) = anonymous_backends(backends, model);
            *backends = without;
            clusters
        }
        Action::Files(_) | Action::Respond(_) | Action::NotFound => Vec::new(),
    };
    let mirrors = match &mut route.action {
        Action::Forward(forward) => forward.transfer.mirrors.as_deref_mut(),
        Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
    };
    let mirror: Vec<_> = mirrors.unwrap_or_default().iter_mut().map(|it| named(&mut it.cluster)).collect();
    let of_errors: Vec<_> = route.error_pages.as_mut().map_or_else(Vec::new, |pages| {
        let pages = Arc::make_mut(pages);
        pages.backends.iter_mut().chain(&mut pages.fallback).map(named).collect()
    });
    let auth = route.access.as_mut().and_then(|access| access.external.as_mut());
    let auth: Vec<_> = auth.map(|it| named(&mut it.cluster)).into_iter().collect();
    (route, [clusters, mirror, of_errors, auth].concat())
}

/// Shares without the ids of clusters, and the clusters.
fn anonymous_backends(backends: &Backends, model: &Model) -> (Backends, Vec<Cluster>) {
    let clusters = backends.clusters().map(|id| cluster(model, id)).collect();
    let anonymous = |backend: &Backend| match backend.target {
        BackendTarget::Cluster(_) => {
            Backend { target: BackendTarget::Cluster(ClusterId(0)), ..backend.clone() }
        }
        BackendTarget::Invalid => backend.clone(),
    };
    let without = match backends {
        Backends::Split(split) => {
            let all = split.backends().iter().map(anonymous).collect();
            Backends::Split(Split::new(all).unwrap())
        }
        Backends::One(_) | Backends::Canary(_) => Backends::One(ClusterId(0)),
    };
    (without, clusters)
}

fn cluster(model: &Model, id: ClusterId) -> Cluster {
    model.cluster(id).clone()
}
