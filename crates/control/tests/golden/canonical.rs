//! Translations in a form that can be compared: the numbers of clusters do not count.

use std::sync::Arc;

use control::Translation;
use model::{Action, Backends, Cluster, ClusterId, Forward, Host, Listener, Model, Route, Stream};

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
        valid_until,
    } = translation.clone();
    let anonymous = ClusterId(0);
    let host = |host: &Arc<Host>| {
        let mut tls = (*host.tls).clone();
        let passthrough =
            tls.passthrough.as_mut().map(|id| cluster(&model, std::mem::replace(id, anonymous)));
        let route = |route: &Arc<Route>| {
            let mut route = Route::clone(route);
            let named = |id: &mut ClusterId| cluster(&model, std::mem::replace(id, anonymous));
            let clusters = match &mut route.action {
                Action::Forward(Forward { backends: Backends::One(id), .. }) => vec![named(id)],
                Action::Forward(Forward { backends: Backends::Canary(canary), .. }) => {
                    vec![named(&mut canary.mainline), named(&mut canary.cluster)]
                }
                Action::Forward(_) | Action::Files(_) | Action::Respond(_) | Action::NotFound => Vec::new(),
            };
            let mirror = match &mut route.action {
                Action::Forward(forward) => forward.transfer.mirror.as_deref_mut(),
                Action::Files(_) | Action::Respond(_) | Action::NotFound => None,
            };
            let mirror: Vec<_> = mirror.map(|it| named(&mut it.cluster)).into_iter().collect();
            let of_errors: Vec<_> = route.error_pages.as_mut().map_or_else(Vec::new, |pages| {
                let pages = Arc::make_mut(pages);
                pages.backends.iter_mut().chain(&mut pages.fallback).map(named).collect()
            });
            let auth = route.access.as_mut().and_then(|access| access.external.as_mut());
            let auth: Vec<_> = auth.map(|it| named(&mut it.cluster)).into_iter().collect();
            (route, [clusters, mirror, of_errors, auth].concat())
        };
        (host.name.clone(), tls, passthrough, host.routes.iter().map(route).collect::<Vec<_>>())
    };
    let listener = |one: &Listener| {
        let passing = |stream: &Stream| {
            (Stream { cluster: anonymous, ..stream.clone() }, cluster(&model, stream.cluster))
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
        (configmap, names, missing_services, certificates, valid_until),
    )
}

fn cluster(model: &Model, id: ClusterId) -> Cluster {
    model.cluster(id).clone()
}
