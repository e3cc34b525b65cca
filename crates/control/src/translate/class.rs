//! Which Ingresses are ours.

use std::sync::Arc;

use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::options::{NsName, Options};
use crate::problem::{Problem, Reason, Severity};
use crate::source::PassedOver;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The Ingresses of our class, in order of appearance; the others are counted.
pub(super) fn select<'a>(
    index: &'a Index,
    options: &Options,
    passed_over: &mut PassedOver,
    problems: &mut Vec<Problem>,
) -> Vec<&'a Arc<Sourced<Ingress>>> {
    let mut selected = Vec::new();
    for ingress in index.ingresses.iter() {
        if !is_ours(ingress, index, options) {
            *passed_over.entry("Ingress of another class".to_owned()).or_default() += 1;
        } else if options.disable_catch_all && is_catch_all(ingress) {
            let message = "would take requests for every host, which --disable-catch-all forbids; left out";
            problems.push(Problem::of(Severity::Warning, ingress, message).because(Reason::Forbidden));
        } else {
            selected.push(ingress);
        }
    }
    selected
}

/// "`spec.ingressClassName` → `IngressClass` whose `spec.controller` = `--controller-class`; by class name too with
/// `--ingress-class-by-name`. Else annotation `kubernetes.io/ingress.class` = `--ingress-class`. Else taken only with
/// `--watch-ingress-without-class`."
pub(crate) fn is_ours(ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> bool {
    if index.namespaces.as_ref().is_some_and(|selected| !selected.contains(ingress.namespace())) {
        return false;
    }
    if let Some(class) = &ingress.spec.ingress_class_name {
        return is_our_class(class, index, options);
    }
    match ingress.metadata.annotations.get(CLASS_ANNOTATION) {
        Some(class) if !class.value.is_empty() => class.value == options.ingress_class,
        _ => options.watch_ingress_without_class,
    }
}

fn is_our_class(name: &str, index: &Index, options: &Options) -> bool {
    let has_our_name = name == options.ingress_class;
    match index.classes.get(&NsName::new("", name)) {
        Some(class) if class.spec.controller.as_ref() == Some(&options.controller_class) => true,
        Some(_) => options.ingress_class_by_name && has_our_name,
        None => options.class_may_be_missing && has_our_name,
    }
}

fn is_catch_all(ingress: &Ingress) -> bool {
    let takes_every_host = |host: Option<&str>| host.is_none_or(str::is_empty);
    let rules = &ingress.spec.rules;
    rules.is_empty() && ingress.spec.default_backend.is_some()
        || rules.iter().any(|rule| takes_every_host(rule.value.host.as_ref().map(|host| host.value.as_str())))
}
