//! The filters of rules and backends.
//!
//! Never in here: the requests that pass them.

use std::sync::Arc;

use model::{
    Allowed, BackendAnswer, BackendFilters, CrossOrigin, DirectResponse, HeadText, HeaderChanges, HostName,
    Mirror, OriginPattern, PathChange, PathKind, PathMatch, RequestFilter, RequestRedirect, ResponseFilter,
    Scheme, Share, UrlRewrite,
};

use super::backends::BackendFinder;
use super::conditions::Fault;
use super::ext_authz::{self, Authz};
use super::extension;
use crate::names::NsName;
use crate::objects::At;
use crate::objects::gateway_api::{
    self, Filter, FilterType, HeaderModifier, PathModifier, PathModifierType, RequestMirror,
};
use crate::translate::ingress::direct_response::answer;

/// The effects of filters, in the form of the model.
#[derive(Default)]
pub(super) struct FilterSet {
    request_headers: Option<HeaderChanges>,
    response_headers: Option<HeaderChanges>,
    redirect: Option<RequestRedirect>,
    rewrite: Option<UrlRewrite>,
    cross_origin: Option<CrossOrigin>,
    mirrors: Vec<Mirror>,
    authz: Option<Authz>,
    response: Option<DirectResponse>,
    policies: Vec<NsName>,
}

/// Reads filters. "If a filter cannot be obeyed, requests that it is for MUST be answered with an error."
pub(super) fn read(
    filters: &[At<Filter>],
    path: &PathMatch,
    finder: &mut BackendFinder<'_, '_, '_>,
) -> Result<FilterSet, Fault> {
    let mut set = FilterSet::default();
    for filter in filters.iter().map(|filter| &filter.value) {
        set.add(filter, path, finder)?;
    }
    if set.redirect.is_some() && set.rewrite.is_some() {
        let message = "filters RequestRedirect and URLRewrite cannot be used together";
        return Err(Fault::new("IncompatibleFilters", message));
    }
    if set.redirect.is_some() && set.response.is_some() {
        let message = "filters RequestRedirect and DirectResponse cannot be used together";
        return Err(Fault::new("IncompatibleFilters", message));
    }
    Ok(set)
}

fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new("UnsupportedValue", message)
}

/// Stores the value of a filter, of which only one is allowed.
fn put<T>(place: &mut Option<T>, filter: &Filter, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(unsupported(format!("filter {} occurs twice", filter.kind.as_str()))),
    }
}

impl FilterSet {
    fn add(
        &mut self,
        filter: &Filter,
        path: &PathMatch,
        finder: &mut BackendFinder<'_, '_, '_>,
    ) -> Result<(), Fault> {
        let lacking = || unsupported(format!("filter {} has no settings", filter.kind.as_str()));
        match &filter.kind {
            FilterType::RequestHeaderModifier => {
                let changes = filter.request_header_modifier.as_deref().ok_or_else(lacking)?;
                put(&mut self.request_headers, filter, header_changes(changes)?)
            }
            FilterType::ResponseHeaderModifier => {
                let changes = filter.response_header_modifier.as_deref().ok_or_else(lacking)?;
                put(&mut self.response_headers, filter, header_changes(changes)?)
            }
            FilterType::RequestRedirect => {
                let redirect = filter.request_redirect.as_deref().ok_or_else(lacking)?;
                put(&mut self.redirect, filter, request_redirect(redirect, path)?)
            }
            FilterType::URLRewrite => {
                let rewrite = filter.url_rewrite.as_deref().ok_or_else(lacking)?;
                let host = rewrite.hostname.as_deref().map(hostname).transpose()?;
                let path = rewrite.path.as_ref().map(|change| path_change(change, path)).transpose()?;
                put(&mut self.rewrite, filter, UrlRewrite { host, path })
            }
            FilterType::CORS => {
                let cors = filter.cors.as_deref().ok_or_else(lacking)?;
                put(&mut self.cross_origin, filter, cross_origin(cors)?)
            }
            FilterType::RequestMirror => {
                let mirror = filter.request_mirror.as_deref().ok_or_else(lacking)?;
                let cluster = finder.unchecked_cluster(&mirror.backend_ref);
                self.mirrors.extend(cluster.map(|cluster| Mirror {
                    cluster,
                    copy: None,
                    share: share(mirror),
                }));
                Ok(())
            }
            FilterType::ExternalAuth => {
                let auth = filter.external_auth.as_deref().ok_or_else(lacking)?;
                put(&mut self.authz, filter, ext_authz::read(auth, finder)?)
            }
            FilterType::DirectResponse => {
                let response = filter.direct_response.as_deref().ok_or_else(lacking)?;
                put(&mut self.response, filter, direct_response(response)?)
            }
            FilterType::ExtensionRef => {
                let name = extension::policy(filter, finder).ok_or_else(lacking)??;
                self.policies.push(name);
                Ok(())
            }
            FilterType::Other(_) => {
                Err(unsupported(format!("filter {} is not supported", filter.kind.as_str())))
            }
        }
    }

    /// The answer in place of a backend's, if there is one.
    pub(super) fn take_response(&mut self) -> Option<DirectResponse> {
        self.response.take()
    }

    /// Whether the response is a redirect.
    pub(super) fn redirects(&self) -> bool {
        self.redirect.is_some()
    }

    /// Takes the authorization service out.
    pub(super) fn take_authz(&mut self) -> Option<Authz> {
        self.authz.take()
    }

    /// The result for a route: its filters, and the targets of mirrored requests.
    pub(super) fn of_route(self) -> (Vec<RequestFilter>, Vec<ResponseFilter>, Vec<Mirror>) {
        let redirect = self.redirect.map(|it| RequestFilter::RequestRedirect(Box::new(it)));
        let rewrite = self.rewrite.map(|it| RequestFilter::UrlRewrite(Arc::new(it)));
        let headers = self.request_headers.map(|it| RequestFilter::Headers(Arc::new(it)));
        let cross_origin = self.cross_origin.map(|it| ResponseFilter::CrossOrigin(Arc::new(it)));
        let of_response = self.response_headers.map(|it| ResponseFilter::Headers(Arc::new(it)));
        (
            redirect.into_iter().chain(rewrite).chain(headers).collect(),
            cross_origin.into_iter().chain(of_response).collect(),
            self.mirrors,
        )
    }

    /// The result for one backend of several.
    pub(super) fn of_backend(self, finder: &BackendFinder<'_, '_, '_>) -> Result<BackendFilters, Fault> {
        if self.authz.is_some() {
            return Err(unsupported("filter ExternalAuth is not supported for a backend alone"));
        }
        let of_policy = self.policies.iter().map(|name| extension::response(name, finder));
        let of_policy = of_policy.collect::<Result<Vec<_>, _>>()?.into_iter().next();
        let respond = self.response.or(of_policy).map(BackendAnswer::Respond);
        let answer = self.redirect.map(BackendAnswer::Redirect).or(respond);
        Ok(BackendFilters {
            cross_origin: self.cross_origin.map(Arc::new),
            answer: answer.map(Arc::new),
            rewrite: self.rewrite.map(Box::new),
            request_headers: self.request_headers.map(Arc::new),
            response_headers: self.response_headers.map(Arc::new),
            mirrors: self.mirrors.into(),
        })
    }
}

fn direct_response(response: &gateway_api::DirectResponse) -> Result<DirectResponse, Fault> {
    let status = response.status_code;
    if !(200..=599).contains(&status) {
        return Err(unsupported(format!("answers with status {status} are not supported")));
    }
    let body = response.body.as_ref().map(|body| body.string.to_string()).unwrap_or_default();
    Ok(answer(status, body, None, &[]))
}

fn header_changes(changes: &HeaderModifier) -> Result<HeaderChanges, Fault> {
    let pairs = |headers: &[gateway_api::Header]| {
        headers.iter().map(|header| (header.name.to_string(), header.value.to_string())).collect()
    };
    let remove = changes.remove.iter().map(ToString::to_string).collect();
    HeaderChanges::new(pairs(&changes.set), pairs(&changes.add), remove)
        .map_err(|why| unsupported(why.to_string()))
}

fn request_redirect(
    redirect: &gateway_api::RequestRedirect,
    path: &PathMatch,
) -> Result<RequestRedirect, Fault> {
    let status = redirect.status_code.unwrap_or(302);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(unsupported(format!("redirects with status {status} are not supported")));
    }
    let scheme = match redirect.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => return Err(unsupported(format!("redirects to scheme {other} are not supported"))),
    };
    Ok(RequestRedirect {
        status,
        scheme,
        host: redirect.hostname.as_deref().map(hostname).transpose()?,
        port: redirect.port,
        // The port of the listener is set when the route is attached.
        listener_port: 0,
        path: redirect.path.as_ref().map(|change| path_change(change, path)).transpose()?,
    })
}

fn path_change(change: &PathModifier, path: &PathMatch) -> Result<PathChange, Fault> {
    let lacking = || unsupported(format!("path of type {} has no value", change.kind.as_str()));
    match &change.kind {
        PathModifierType::ReplaceFullPath => {
            change.replace_full_path.as_deref().map(|to| PathChange::Full(to.to_owned())).ok_or_else(lacking)
        }
        PathModifierType::ReplacePrefixMatch if path.kind() == PathKind::Prefix => {
            let to = change.replace_prefix_match.as_deref().ok_or_else(lacking)?;
            Ok(PathChange::Prefix { from: path.path().to_owned(), to: to.to_owned() })
        }
        PathModifierType::ReplacePrefixMatch => {
            Err(unsupported("ReplacePrefixMatch needs matches of type PathPrefix"))
        }
        PathModifierType::Other(kind) => {
            Err(unsupported(format!("path changes of type {kind} are not supported")))
        }
    }
}

fn cross_origin(cors: &gateway_api::Cors) -> Result<CrossOrigin, Fault> {
    let origins = cors.allow_origins.iter().map(|origin| OriginPattern::parse(origin));
    Ok(CrossOrigin {
        origins: origins.collect::<Result<_, _>>().map_err(|why| unsupported(why.to_string()))?,
        credentials: cors.allow_credentials.unwrap_or_default(),
        methods: allowed(&cors.allow_methods)?,
        headers: allowed(&cors.allow_headers)?,
        expose: allowed(&cors.expose_headers)?,
        // The specification's default: "The default value is 5 (seconds)."
        max_age: cors.max_age.unwrap_or(5),
    })
}

fn allowed<T: AsRef<str>>(list: &[T]) -> Result<Allowed, Fault> {
    Allowed::of(list).map_err(|why| unsupported(why.to_string()))
}

/// A host for the `Host` header or a redirect.
fn hostname(text: &str) -> Result<HeadText, Fault> {
    let invalid = || unsupported(format!("{text:?} is no hostname"));
    match HostName::parse(text) {
        Ok(HostName::Exact(_)) => HeadText::new(text).map_err(|_| invalid()),
        _ => Err(invalid()),
    }
}

fn share(mirror: &RequestMirror) -> Share {
    match (mirror.percent, mirror.fraction) {
        (Some(percent), _) => Share::new(percent, 100),
        (None, Some(fraction)) => Share::new(fraction.numerator, fraction.denominator.unwrap_or(100)),
        (None, None) => Share::ALL,
    }
}
