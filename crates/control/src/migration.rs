//! A report for users who migrate from ingress-nginx: the effect of each annotation and key that is in use,
//! and the Ingresses that need a look.
//!
//! Never in here: what is served. A report repeats the result of the translation and adds no judgement of its
//! own.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

use model::{Action, RequestFilter, Route};
use serde::Serialize;

use crate::classes::{self, OtherClass};
use crate::index::Index;
use crate::legible;
use crate::objects::{Ingress, Sourced};
use crate::old_version::{Assumed, OldVersion};
use crate::options::{OldDefaults, Options};
use crate::outcome::Outcome;
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::Resolved;
use crate::translate::ingress::class::is_ours;
use crate::translate::{Translation, configmap, judge, translate, value};

/// An annotation or a key that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Use {
    /// The annotation, without its prefix, or the key.
    pub name: &'static str,
    /// The effect of the annotation or key in Forebay.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The number of Ingresses that carry the annotation with this outcome; 1 for a key.
    pub count: usize,
}

/// An Ingress whose behaviour differs from ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Look {
    /// The Ingress, with its file and line.
    pub ingress: String,
    /// The namespace of the Ingress.
    pub namespace: String,
    /// The differences, each with its remedy.
    pub why: Vec<String>,
}

/// The numbers of a report for one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InNamespace {
    /// Name of the namespace.
    pub namespace: String,
    /// The number of Ingresses of our class.
    pub ingresses: usize,
    /// The number of Ingresses that need a look.
    pub need_a_look: usize,
    /// The number of Ingresses without a served route, here and in ingress-nginx.
    pub not_served: usize,
}

/// A setting whose default ingress-nginx 1.12 changed, and on which Ingresses depend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToSet {
    /// The setting: a key of the `ConfigMap` with its value, or a flag.
    pub setting: &'static str,
    /// The number of Ingresses whose behaviour changes without this setting.
    pub ingresses: usize,
}

/// The facts that a user needs before replacing ingress-nginx.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of ingress-nginx that the report compares with; none if there is no Ingress.
    pub from: Option<Assumed>,
    /// The settings with which Ingresses are served as that version serves them.
    pub to_set: Vec<ToSet>,
    /// The number of Ingresses of our class.
    pub ingresses: usize,
    /// The annotations of these Ingresses, by name.
    pub annotations: Vec<Use>,
    /// The keys of the `ConfigMap`, by name.
    pub keys: Vec<Use>,
    /// The Ingresses that need a look.
    pub need_a_look: Vec<Look>,
    /// The Ingresses without a served route, here and in ingress-nginx.
    pub not_served: Vec<Look>,
    /// The numbers of each namespace; namespaces with the most Ingresses that need a look come first.
    pub namespaces: Vec<InNamespace>,
    /// Ingresses, or parts of them, that ingress-nginx does not serve either.
    pub left_out_before: Vec<String>,
    /// Ingresses of other classes, which are not judged.
    pub other_classes: Vec<OtherClass>,
    /// The number of judged objects: Ingresses, Gateways and routes, and the `ConfigMap` with the settings.
    pub judged: usize,
}

impl Report {
    /// Makes the report of a translation. `found` is the version of ingress-nginx that the source names.
    pub fn new(
        index: &Index,
        options: &Options,
        translation: &Translation,
        found: Option<Assumed>,
        now: SystemTime,
    ) -> Self {
        let ours: Vec<_> = index.ingresses.iter().filter(|one| is_ours(one, index, options)).collect();
        let ours = || ours.iter().copied();
        let from = assumed(index, options, found);
        let before = if from.version.is_lenient() { with_all_old_defaults(options) } else { options.clone() };
        let mut report = Self { ingresses: ours().count(), ..Self::default() };
        let mut used: BTreeMap<(&'static str, Outcome), usize> = BTreeMap::new();
        for one in judge(ours(), index, options, &before) {
            *used.entry(one).or_default() += 1;
        }
        report.annotations = listed(used);
        report.keys = listed(configmap::judge(index, options).map(|one| (one, 1)));
        let then = from.version.is_lenient().then(|| translate(index, &before, &Resolved::new(), now));
        let lost = then.as_ref().map(|then| lost(translation, then)).unwrap_or_default();
        if !lost.is_empty() {
            report.to_set = to_set(index, options, translation, now);
        }
        let differs = |problem: &&Problem| makes_a_difference(problem) || lost.contains(problem);
        // A missing setting may hide further problems, such as those of a snippet that is not read yet.
        let known: HashSet<_> = translation.problems.iter().collect();
        let later = then.iter().flat_map(|then| &then.problems);
        let later = later.filter(|problem| makes_a_difference(problem) && !known.contains(problem));
        report.need_a_look = looks(translation.problems.iter().filter(differs).chain(later));
        let is_left_out = |problem: &&Problem| {
            problem.reason == Reason::Annotation
                && problem.severity == Severity::Error
                && !lost.contains(problem)
        };
        let left_out = translation.problems.iter().filter(is_left_out);
        report.left_out_before = left_out.map(ToString::to_string).collect();
        report.not_served = not_served(ours(), translation, options, &report.need_a_look);
        report.namespaces = by_namespace(ours(), &report);
        report.from = (report.ingresses > 0).then_some(from);
        report.other_classes = classes::others(index, options);
        report.judged = report.ingresses
            + index.gateway.asking()
            + usize::from(translation.configmap.is_some())
            + translation.model.hosts().count();
        report
    }

    /// Writes the report as text.
    ///
    /// # Errors
    ///
    /// When writing to `out` fails.
    pub fn write(&self, out: &mut impl Write) -> fmt::Result {
        table(out, "ANNOTATION", &self.annotations)?;
        table(out, "CONFIGMAP KEY", &self.keys)?;
        for look in &self.need_a_look {
            writeln!(out, "{} needs a look", legible::line(&look.ingress))?;
            look.why.iter().try_for_each(|why| writeln!(out, "    {}", legible::line(why)))?;
        }
        for look in &self.not_served {
            writeln!(out, "{} serves nothing, as before", legible::line(&look.ingress))?;
            look.why.iter().try_for_each(|why| writeln!(out, "    {}", legible::line(why)))?;
        }
        self.other_classes
            .iter()
            .try_for_each(|class| writeln!(out, "{}", legible::line(&class.to_string())))?;
        self.advice().iter().try_for_each(|line| writeln!(out, "{}", legible::line(line)))?;
        writeln!(out, "{}", self.verdict())
    }

    /// The number of Ingresses that behave as in ingress-nginx.
    pub fn as_before(&self) -> usize {
        self.ingresses.saturating_sub(self.need_a_look.len() + self.not_served.len())
    }

    /// The version that the report compares with, the reason for it, and the settings to change.
    pub fn advice(&self) -> Vec<String> {
        let Some(from) = &self.from else { return Vec::new() };
        let mut lines = vec![format!("compared with ingress-nginx {}: {}", from.version, from.why)];
        lines.extend(self.to_set.iter().map(|ToSet { setting, ingresses }| {
            let those =
                if *ingresses == 1 { "1 Ingress".to_owned() } else { format!("{ingresses} Ingresses") };
            format!("set {setting}: {those} relied on this default of ingress-nginx before 1.12")
        }));
        lines
    }

    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        let (looks, nothing) = (self.need_a_look.len(), self.not_served.len());
        let as_before = self.as_before();
        let mut verdict = match (self.ingresses, as_before) {
            (1, _) => format!("{as_before} of 1 Ingress behaves as before"),
            (all, 1) => format!("1 of {all} Ingresses behaves as before"),
            (all, as_before) => format!("{as_before} of {all} Ingresses behave as before"),
        };
        match nothing {
            0 => {}
            1 => verdict += "; 1 serves nothing, as before",
            nothing => verdict = format!("{verdict}; {nothing} serve nothing, as before"),
        }
        match looks {
            0 => {}
            1 => verdict += "; 1 needs a look",
            looks => verdict = format!("{verdict}; {looks} need a look"),
        }
        verdict
    }
}

/// The version of ingress-nginx to compare with: the user's choice, or that of the source, or the one that
/// the settings suggest.
fn assumed(index: &Index, options: &Options, found: Option<Assumed>) -> Assumed {
    if let Some(version) = options.from {
        return Assumed { version, why: "--from says so".to_owned() };
    }
    if let Some(found) = found {
        return found;
    }
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.get(name));
    let allows = settings.and_then(|settings| settings.data.get("allow-snippet-annotations"));
    let allows = allows.is_some_and(|value| value::boolean(&value.value).unwrap_or_default());
    let has_level = settings.is_some_and(|settings| settings.data.contains_key("annotations-risk-level"));
    if allows && !has_level {
        let why = "allow-snippet-annotations is true without annotations-risk-level, which had an effect before 1.12 alone \
                   (--from names another version)";
        return Assumed { version: OldVersion { minor: 11, ..OldVersion::LAST }, why: why.to_owned() };
    }
    let why = "nothing among the objects says which version there was (--from names another one)";
    Assumed { version: OldVersion::LAST, why: why.to_owned() }
}

/// The options with every default that ingress-nginx had before 1.12.
fn with_all_old_defaults(options: &Options) -> Options {
    OLD_DEFAULTS.iter().fold(options.clone(), |options, (_, set)| set(options))
}

type Setter = fn(Options) -> Options;

/// The settings that ingress-nginx 1.12 changed, each with a function that restores the old default.
const OLD_DEFAULTS: &[(&str, Setter)] = &[
    ("annotations-risk-level: Critical in the ConfigMap", |options| {
        let defaults = OldDefaults { all_risks: true, ..options.defaults };
        Options { defaults, ..options }
    }),
    ("allow-cross-namespace-resources: \"true\" in the ConfigMap", |options| {
        let defaults = OldDefaults { crosses_namespaces: true, ..options.defaults };
        Options { defaults, ..options }
    }),
    ("--enable-annotation-validation=false", |options| Options { validates_annotations: false, ..options }),
];

/// The problems of Ingresses that do not exist with the other defaults.
fn lost<'t>(translation: &'t Translation, then: &Translation) -> Vec<&'t Problem> {
    let known: HashSet<_> = then.problems.iter().collect();
    let is_of_ingress =
        |problem: &&Problem| problem.object.as_ref().is_some_and(|object| object.kind == "Ingress");
    let problems = translation.problems.iter().filter(is_of_ingress);
    problems.filter(|one| one.severity != Severity::Notice && !known.contains(one)).collect()
}

/// The settings whose old default changes how Ingresses are served.
fn to_set(index: &Index, options: &Options, translation: &Translation, now: SystemTime) -> Vec<ToSet> {
    let of_setting = |(setting, set): &(&'static str, Setter)| {
        let then = translate(index, &set(options.clone()), &Resolved::new(), now);
        let lost = lost(translation, &then);
        let ingresses: HashSet<_> = lost.iter().filter_map(|problem| problem.object.as_ref()).collect();
        (!ingresses.is_empty()).then_some(ToSet { setting, ingresses: ingresses.len() })
    };
    OLD_DEFAULTS.iter().filter_map(of_setting).collect()
}

/// The Ingresses without a served route, except those among the `looks`.
fn not_served<'i>(
    ours: impl Iterator<Item = &'i Arc<Sourced<Ingress>>>,
    translation: &Translation,
    options: &Options,
    looks: &[Look],
) -> Vec<Look> {
    let hosts = translation.model.hosts().zip(translation.origins.iter());
    let routes = hosts.flat_map(|(host, origins)| host.routes.iter().zip(origins.iter()));
    let served: HashSet<_> =
        routes.filter(|(route, _)| is_served(route)).map(|(_, origin)| origin.object()).collect();
    let canary = format!("{}/canary", options.annotations_prefix);
    // A canary has no routes of its own: it receives a share of another Ingress's requests.
    let has_routes = |ingress: &Sourced<Ingress>| ingress.metadata.annotations.get(&canary).is_none();
    let unserved = ours.filter(|one| has_routes(one) && !served.contains(&one.reference()));
    let look = |ingress: &Arc<Sourced<Ingress>>| {
        let object = ingress.reference();
        let problems = translation.problems.iter().filter(|one| one.object.as_ref() == Some(&object));
        let why: Vec<_> =
            problems.filter(|one| one.severity != Severity::Notice).map(|one| one.message.clone()).collect();
        let why = if why.is_empty() { vec!["it declares no path with a backend".to_owned()] } else { why };
        let place = ingress.origin.file.as_ref().map(|file| format!(" ({})", file.display()));
        let ingress = format!("{object}{}", place.unwrap_or_default());
        Look { ingress, namespace: object.namespace, why }
    };
    let known: HashSet<_> = looks.iter().map(|look| look.ingress.as_str()).collect();
    unserved.map(look).filter(|look| !known.contains(look.ingress.as_str())).collect()
}

/// The numbers of a report, by namespace.
fn by_namespace<'i>(
    ingresses: impl Iterator<Item = &'i Arc<Sourced<Ingress>>>,
    report: &Report,
) -> Vec<InNamespace> {
    let mut counts: BTreeMap<String, InNamespace> = BTreeMap::new();
    let mut count = |namespace: &str, part: fn(&mut InNamespace) -> &mut usize| {
        let of = counts.entry(namespace.to_owned()).or_default();
        *part(of) += 1;
    };
    ingresses.for_each(|one| count(&one.reference().namespace, |of| &mut of.ingresses));
    report.need_a_look.iter().for_each(|look| count(&look.namespace, |of| &mut of.need_a_look));
    report.not_served.iter().for_each(|look| count(&look.namespace, |of| &mut of.not_served));
    let named = counts.into_iter().map(|(namespace, of)| InNamespace { namespace, ..of });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|of| std::cmp::Reverse((of.need_a_look, of.not_served)));
    all
}

/// Whether requests of a route get any response but 404 or a refusal.
fn is_served(route: &Route) -> bool {
    let is_closed =
        route.access.as_ref().is_some_and(|it| it.unavailable.is_some() || it.forbidden.is_some());
    let redirects = |filter: &RequestFilter| {
        matches!(
            filter,
            RequestFilter::Redirect(_) | RequestFilter::AppRoot(_) | RequestFilter::RequestRedirect(_)
        )
    };
    let answers = route.action != Action::NotFound
        || route.script.is_some()
        || route.request_filters.as_slice().iter().any(redirects);
    !is_closed && answers
}

fn listed(used: impl IntoIterator<Item = ((&'static str, Outcome), usize)>) -> Vec<Use> {
    used.into_iter().map(|((name, outcome), count)| Use { name, outcome, count }).collect()
}

/// Whether a problem says that an Ingress behaves in another way than in ingress-nginx.
fn makes_a_difference(problem: &Problem) -> bool {
    let is_of_ingress = problem.object.as_ref().is_some_and(|object| object.kind == "Ingress");
    let is_ours_alone = matches!(problem.reason, Reason::Unsupported | Reason::NotOwner | Reason::Forbidden);
    is_of_ingress && is_ours_alone && problem.severity != Severity::Notice
}

fn looks<'p>(problems: impl Iterator<Item = &'p Problem>) -> Vec<Look> {
    let mut looks: BTreeMap<String, Look> = BTreeMap::new();
    for problem in problems {
        let object = problem.object.as_ref().map(ToString::to_string).unwrap_or_default();
        let look = looks.entry(object.clone()).or_insert_with(|| {
            let place = problem.file.as_ref().map(|file| format!(" ({})", file.display()));
            let namespace = problem.object.as_ref().map(|object| object.namespace.clone());
            Look {
                ingress: format!("{object}{}", place.unwrap_or_default()),
                namespace: namespace.unwrap_or_default(),
                why: Vec::new(),
            }
        });
        let line = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        look.why.push(format!("{line}{}", problem.message));
    }
    looks.into_values().collect()
}

fn table(out: &mut impl Write, heading: &str, uses: &[Use]) -> fmt::Result {
    if uses.is_empty() {
        return Ok(());
    }
    let width = uses.iter().map(|one| one.name.len()).chain([heading.len()]).max().unwrap_or(0);
    writeln!(out, "{heading:<width$}  USED  HERE")?;
    for Use { name, outcome, count } in uses {
        writeln!(out, "{name:<width$}  {count:>4}  {}", legible::line(&outcome.to_string()))?;
    }
    writeln!(out)
}
