//! Decides which Ingresses Forebay serves, by class and namespace.

use crate::index::Index;
use crate::names::NsName;
use crate::objects::{Ingress, IngressClass, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::inputs::Inputs;

/// The annotation with the class, from before `IngressClass`es existed.
pub(crate) const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Whether Forebay serves an Ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::translate) enum Class {
    /// Forebay serves the Ingress.
    Ours,
    /// The class of the Ingress is ours, but it is left out.
    Refused,
    /// The class of the Ingress is ours, and an annotation excludes it. The last accepted version stays in
    /// force.
    NotAccepted,
    /// Another controller serves the Ingress.
    Other,
}

/// Decides whether an Ingress is served.
pub(super) fn of(ingress: &Sourced<Ingress>, inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Class {
    let options = inputs.options;
    if !inputs.serves(ingress.namespace()) || !is_of_our_class(ingress, options, |name| inputs.class(name)) {
        return Class::Other;
    }
    if options.disable_catch_all && is_catch_all(ingress) {
        let message = "has a spec.defaultBackend, which --disable-catch-all forbids; ignored";
        problems.push(Problem::of(Severity::Warning, ingress, message).because(Reason::Forbidden));
        return Class::Refused;
    }
    Class::Ours
}

/// Whether an Ingress is served, by the classes and namespaces of an index.
pub(crate) fn is_ours(ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> bool {
    index.namespaces.as_ref().is_none_or(|selected| selected.contains(ingress.namespace()))
        && options.watch_namespace.as_ref().is_none_or(|only| only == ingress.namespace())
        && is_of_our_class(ingress, options, |name| index.classes.get(&NsName::new("", name)))
}

/// Whether the class of an Ingress is ours. "`spec.ingressClassName` → `IngressClass` whose `spec.controller`
/// = `--controller-class`; by class name too with `--ingress-class-by-name`. Else annotation
/// `kubernetes.io/ingress.class` = `--ingress-class`. Else taken only with `--watch-ingress-without-class`."
fn is_of_our_class<'a>(
    ingress: &Ingress,
    options: &Options,
    class: impl FnOnce(&str) -> Option<&'a Sourced<IngressClass>>,
) -> bool {
    if let Some(name) = &ingress.spec.ingress_class_name {
        let has_our_name = **name == *options.ingress_class;
        return match class(name) {
            Some(class) if class.spec.controller.as_ref() == Some(&options.controller_class) => true,
            Some(_) => options.ingress_class_by_name && has_our_name,
            None => options.class_may_be_missing && has_our_name,
        };
    }
    match ingress.metadata.annotations.get(CLASS_ANNOTATION) {
        Some(class) if !class.value.is_empty() => class.value == options.ingress_class,
        _ => options.watch_ingress_without_class,
    }
}

/// Whether an Ingress is a catch-all. "`--disable-catch-all` ignores every Ingress that has
/// `spec.defaultBackend`, with rules or without; rules without host stay."
fn is_catch_all(ingress: &Ingress) -> bool {
    ingress.spec.default_backend.is_some()
}
