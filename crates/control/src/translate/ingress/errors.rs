//! Error responses from another backend, and the fallback for a backend without endpoints.

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::names::NsName;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::claim::{DraftRoute, ErrorsDraft};
use crate::translate::snippet::OwnErrors;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "custom-http-errors", Location, "", Supported(|s, v| s.errors.read_statuses(v)), IgnoresIngress,
        "Statuses whose responses come from the default backend.";
    "default-backend", Location, "", Supported(|s, v| set(&mut s.errors.default_backend, service_name(v).map(Some))), IgnoresIngress,
        "Service that serves when there are no endpoints, and for the statuses of `custom-http-errors`.";
    "disable-proxy-intercept-errors", Location, "false", Supported(|s, v| set(&mut s.errors.spares_endpoints, value::boolean(v))),
        "Passes endpoints' error responses on in spite of `custom-http-errors`.";
}

/// Settings of error responses.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// The statuses of the annotation.
    statuses: Option<Vec<u16>>,
    default_backend: Option<String>,
    spares_endpoints: bool,
    /// Answers of snippets in place of errors.
    pub(in crate::translate) own: OwnErrors,
    /// The statuses of the `ConfigMap`, for Ingresses without the annotation.
    pub(in crate::translate) global_statuses: Vec<u16>,
    pub(in crate::translate) global_spares_endpoints: bool,
}

impl Settings {
    /// Reads the statuses. ingress-nginx removes spaces before it checks the value, and parses the value with
    /// them.
    fn read_statuses(&mut self, text: &str) -> Applied {
        let packed: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut rest = packed.as_str();
        while let Some((code, after)) = rest.split_at_checked(3) {
            let is_status = code.parse().is_ok_and(|code: u16| (400..600).contains(&code));
            if !is_status {
                break;
            }
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        if !rest.is_empty() || packed.is_empty() {
            return Err(format!("{text:?} is no list of statuses from 400 to 599"));
        }
        let statuses: Result<Vec<u16>, _> = text.split(',').map(|code| code.trim().parse()).collect();
        match statuses {
            Ok(statuses) => {
                self.statuses = Some(statuses);
                Ok(None)
            }
            Err(_) => Ok(Some(format!(
                "{text:?} has statuses without a comma between them: it has no effect, as in ingress-nginx"
            ))),
        }
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Looks up the Service. "A default-backend that does not exist counts as not set."
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        const NAME: &str = "default-backend";
        let Context { asker, inputs, .. } = context;
        let name = self.default_backend.as_ref().map(|name| NsName::new(asker.namespace(), name));
        if let Some(name) = name
            && inputs.service(&name).is_none()
            && let Some(place) = asker.given(NAME)
        {
            self.default_backend = None;
            let message = format!("{}: Service {name} is missing; it has no effect", asker.called(NAME));
            let problem = Problem::in_place(Severity::Warning, &place, message);
            findings.problems.push(problem.because(Reason::Missing));
        }
    }
}

/// Applies the settings to a route. "The annotation replaces the global list. Which backend: for the
/// annotation's codes the annotation default-backend."
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let Settings {
        statuses,
        default_backend,
        spares_endpoints,
        own,
        global_statuses,
        global_spares_endpoints,
    } = settings;
    let namespace = &route.place.object.namespace;
    let default_backend = default_backend.as_ref().map(|name| NsName::new(namespace, name));
    let is_own = statuses.is_some();
    route.errors = ErrorsDraft {
        statuses: statuses.as_ref().unwrap_or(global_statuses).clone(),
        has_own_statuses: is_own,
        spares_endpoints: *spares_endpoints || (!is_own && *global_spares_endpoints),
        default_backend,
        own: own.clone(),
    };
}

/// The statuses of the `ConfigMap`, and a remark about invalid items.
pub(in crate::translate) fn global_statuses(text: &str) -> (Vec<u16>, Option<String>) {
    let (mut statuses, mut others) = (Vec::new(), Vec::new());
    for item in value::list(text) {
        match item.parse() {
            Ok(status) if (300..600).contains(&status) => statuses.push(status),
            _ => others.push(item),
        }
    }
    let remark =
        (!others.is_empty()).then(|| format!("ignored: {} (no status from 300 to 599)", others.join(", ")));
    (statuses, remark)
}

/// The name of a Service (RFC 1035 label).
pub(super) fn service_name(text: &str) -> Parsed<String> {
    let name = text.trim();
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = name.len() <= 63
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_inner)
        && !name.ends_with('-');
    if is_name { Ok(name.to_owned()) } else { Err(format!("{text:?} is no name of a Service")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_parted_by_commas() {
        let read = |text: &str| {
            let mut settings = Settings::default();
            settings.read_statuses(text).map(|remark| (settings.statuses, remark.is_some()))
        };
        assert_eq!(read("404,503"), Ok((Some(vec![404, 503]), false)));
        assert_eq!(read(" 404 , 503"), Ok((Some(vec![404, 503]), false)));
        for ignored in ["404 503", "404,", "404 503,500"] {
            assert_eq!(read(ignored), Ok((None, true)), "{ignored:?}");
        }
        for bad in ["", "404;503", "399", "600", "40", "404,,503", "4xx", "+40"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn global_statuses_begin_at_300_and_others_are_left_out() {
        let (statuses, remark) = global_statuses("302, 404,200,x,600");
        assert_eq!(statuses, [302, 404]);
        assert_eq!(remark.as_deref(), Some("ignored: 200, x, 600 (no status from 300 to 599)"));
        assert_eq!(global_statuses("503"), (vec![503], None));
    }

    #[test]
    fn names_of_services_are_labels() {
        assert_eq!(service_name(" web-1 "), Ok("web-1".to_owned()));
        for bad in ["1web", "Web", "web-", "a.b", "a/b", "", &"a".repeat(64)] {
            assert!(service_name(bad).is_err(), "{bad}");
        }
    }
}
