//! Ingresses that belong to other controllers, by class.
//!
//! Never in here: the decision which Ingresses are ours; see `translate::ingress::class`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::source::strict::is_near;
use crate::translate::ingress::class::{CLASS_ANNOTATION, is_ours};

/// The Ingresses of one class that is not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherClass {
    /// The name of the class; none for Ingresses without a class.
    pub class: Option<String>,
    /// The Ingresses, each with its file and line.
    pub ingresses: Vec<String>,
}

/// The most Ingresses of a class that a message names.
const NAMED_MAX: usize = 5;

/// The text is `2 Ingresses of class "traefik" are not judged: default/a (a.yaml:1), default/b (a.yaml:20)`.
impl fmt::Display for OtherClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.ingresses.len();
        let (ingresses, are) = if count == 1 { ("Ingress", "is") } else { ("Ingresses", "are") };
        match &self.class {
            Some(class) => write!(f, "{count} {ingresses} of class {class:?} {are} not judged: ")?,
            None => write!(f, "{count} {ingresses} without a class {are} not judged: ")?,
        }
        let named: Vec<_> = self.ingresses.iter().take(NAMED_MAX).map(String::as_str).collect();
        f.write_str(&named.join(", "))?;
        match count.saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            further => write!(f, " and {further} more"),
        }
    }
}

/// The Ingresses of other controllers, by class.
pub(crate) fn others(index: &Index, options: &Options) -> Vec<OtherClass> {
    let mut others: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for ingress in index.ingresses.iter().filter(|ingress| !is_ours(ingress, index, options)) {
        let class = class_of(ingress).map(str::to_owned);
        others.entry(class).or_default().push(place(ingress));
    }
    others.into_iter().map(|(class, ingresses)| OtherClass { class, ingresses }).collect()
}

/// Problems of Ingresses whose class resembles our class and has no `IngressClass`: probably a typing error,
/// after which no controller would serve the Ingress.
pub(crate) fn slips(index: &Index, options: &Options) -> Vec<Problem> {
    let is_slip = |class: &str| {
        let is_known = index.classes.iter().any(|known| known.name() == class);
        !is_known && !class.starts_with(&options.ingress_class) && is_near(class, &options.ingress_class)
    };
    let slips = index.ingresses.iter().filter_map(|ingress| {
        let class = class_of(ingress).filter(|class| is_slip(class))?;
        let message = format!(
            "spec.ingressClassName: no IngressClass is named {class:?}, so that no controller serves it; did you mean {}?",
            options.ingress_class
        );
        Some(Problem::of(Severity::Error, ingress, message).because(Reason::Missing))
    });
    slips.collect()
}

fn class_of(ingress: &Sourced<Ingress>) -> Option<&str> {
    let annotation = || ingress.metadata.annotations.get(CLASS_ANNOTATION).map(|class| class.value.as_str());
    ingress.spec.ingress_class_name.as_deref().or_else(annotation).filter(|class| !class.is_empty())
}

fn place(ingress: &Sourced<Ingress>) -> String {
    let SourceLocation { object, file, line, .. } = SourceLocation::of(ingress);
    match (file, line) {
        (Some(file), Some(line)) => {
            format!("{}/{} ({}:{line})", object.namespace, object.name, file.display())
        }
        _ => format!("{}/{}", object.namespace, object.name),
    }
}
