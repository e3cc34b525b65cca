//! nginx's configuration in snippets: parsed, and converted to typed steps, changes to heads and tables. A
//! directive that is not understood is a fault with its line; no text is ever inserted into a configuration.
//!
//! `parse` makes directives of a text; `server` and `location` read those of a host and of its locations, and
//! `block` reads those that both may contain; `headers`, `expires`, `rewrite`, `condition`, `content`,
//! `error_page`, `limit`, `pass` and `referer` read single directives; `map` and `auth` read the other places
//! for snippets. `table` has all other directives: those
//! without effect, those with the meaning of an annotation, and replacements for the rest.

mod auth;
mod block;
mod caching;
mod condition;
mod content;
mod error_page;
mod expires;
mod headers;
mod limit;
mod map;
mod parse;
mod pass;
mod referer;
mod rewrite;
mod server;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::template::{Template, Variable};
use model::{AddressRule, AuthScript, Block, Expression, HostScript, Replacements, ValueMap};

use error_page::ErrorBlocks;
pub(super) use error_page::OwnErrors;
pub(super) use limit::OwnLimits;
use limit::Zones;
use parse::Directive;
pub(super) use table::Target;
use table::{Class, Loss};

use super::claim::AuthService;

/// The fault of a line of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line of the snippet, from 1.
    line: u32,
    what: String,
    /// Without the line, no client is served that the snippet refuses.
    is_harmless: bool,
}

/// All faults of a snippet, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Faults(Vec<Fault>);

/// A line that is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    fault: Fault,
    pub(super) kind: RemarkKind,
}

/// The reason for ignoring a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemarkKind {
    /// The line has no effect, here or in nginx, so nothing is lost.
    NoEffect,
    /// The setting has one value for all hosts, in a key of the `ConfigMap`.
    ForAll,
    /// The line is not understood, but restricts no client, and `--snippets-unenforced=serve` ignores it.
    Unenforced,
}

/// A line with the meaning of an annotation, or of a key of the `ConfigMap` for some locations only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SettingLine {
    line: u32,
    pub(super) directive: String,
    pub(super) target: Target,
    /// The value in the form of the annotation or the key.
    pub(super) value: String,
}

/// A variable that gets its value from the response of an auth service (nginx: `auth_request_set`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthVariable {
    pub(super) name: Arc<str>,
    /// The header in the form of nginx's variables: in lower case, with underscores.
    pub(super) header: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{fault}")?;
        }
        Ok(())
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl SettingLine {
    /// A fault: the annotation or key does not accept the value.
    pub(super) fn fault(&self, why: &str) -> Fault {
        let Self { line, directive, .. } = self;
        Fault { line: *line, what: format!("{directive:?}: {why}"), is_harmless: false }
    }

    /// A remark: the line has no effect.
    pub(super) fn remark(&self, why: &str) -> Remark {
        let what = format!("{:?} has no effect: {why}", self.directive);
        Remark { fault: Fault { line: self.line, what, is_harmless: true }, kind: RemarkKind::NoEffect }
    }
}

/// The variables that snippets define, in addition to those of every request.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    maps: BTreeMap<String, Arc<ValueMap>>,
    /// The variables of `set` and `auth_request_set`.
    set: BTreeSet<String>,
    /// The zones of limits.
    zones: Zones,
    /// Locations of the host that answer in place of errors.
    error_blocks: ErrorBlocks,
    /// Lines are ignored that are not understood and restrict no client.
    pub(super) passes_unenforced: bool,
}

/// A destination of `proxy_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PassDraft {
    /// Scheme, host and port, as [`Pass::to`](model::Pass::to) has them.
    pub(super) to: Arc<str>,
    pub(super) service: AuthService,
    /// The host that endpoints are asked for.
    pub(super) host: String,
    /// Locations of the snippet itself forward there; otherwise conditions in locations of an Ingress.
    pub(super) is_of_place: bool,
}

/// The contents of a snippet for a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfLocation {
    pub(super) block: Block,
    pub(super) rules: Vec<AddressRule>,
    /// Settings that annotations have too.
    pub(super) asks: Vec<SettingLine>,
    pub(super) auth_variables: Vec<AuthVariable>,
    pub(super) replacements: Option<Arc<Replacements>>,
    pub(super) errors: OwnErrors,
    pub(super) limits: OwnLimits,
    pub(super) passes: Vec<PassDraft>,
}

/// The contents of a snippet for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfHost {
    pub(super) script: HostScript,
    pub(super) rules: Vec<AddressRule>,
    /// Settings that annotations have too.
    pub(super) asks: Vec<SettingLine>,
    pub(super) replacements: Option<Arc<Replacements>>,
    pub(super) errors: OwnErrors,
    pub(super) limits: OwnLimits,
    pub(super) passes: Vec<PassDraft>,
    /// Its locations that answer in place of errors.
    error_blocks: ErrorBlocks,
}

impl OfLocation {
    /// The contents of this snippet, followed by those of another.
    pub(super) fn then(mut self, other: &Self) -> Self {
        let (own, others) = (&mut self.block, &other.block);
        own.steps.extend_from_slice(&others.steps);
        own.headers.extend(&others.headers);
        self.rules.extend_from_slice(&other.rules);
        self.auth_variables.extend_from_slice(&other.auth_variables);
        let news = other.passes.iter().filter(|pass| !self.passes.contains(pass)).cloned();
        self.passes.extend(news.collect::<Vec<_>>());
        self
    }
}

/// Reads a snippet for a location. Returns also the ignored lines.
pub(super) fn location(text: &str, names: &Names) -> Result<(OfLocation, Vec<Remark>), Faults> {
    let directives = parse::parse(text)?;
    let reader = Reader::new(names);
    let block::Contents { block, rules, .. } = reader.contents(&directives, block::Context::Location);
    let read = OfLocation {
        block,
        rules,
        asks: reader.asks.take(),
        auth_variables: reader.auth_variables.take(),
        replacements: reader.replacements().map(Arc::new),
        errors: reader.own_errors(&ErrorBlocks::new()),
        limits: reader.limits.take(),
        passes: reader.passes.take(),
    };
    reader.finish(read)
}

/// Reads a snippet for a host. Returns also the ignored lines.
pub(super) fn server(text: &str, names: &Names) -> Result<(OfHost, Vec<Remark>), Faults> {
    let directives = parse::parse(text)?;
    let reader = Reader { is_of_host: true, ..Reader::new(names) };
    let mut of_host = reader.server(&directives);
    of_host.asks = reader.asks.take();
    of_host.replacements = reader.replacements().map(Arc::new);
    of_host.errors = reader.own_errors(&of_host.error_blocks);
    of_host.limits = reader.limits.take();
    of_host.passes = reader.passes.take();
    reader.finish(of_host)
}

/// Reads a snippet for requests to an auth service. Returns also the ignored lines.
pub(super) fn auth(text: &str, names: &Names) -> Result<(AuthScript, Vec<Remark>), Faults> {
    let directives = parse::parse(text)?;
    let mut names = names.clone();
    names.add_set_by(text);
    let reader = Reader::new(&names);
    let script = reader.auth(&directives);
    reader.finish(script)
}

/// Reads a snippet for all of HTTP, and makes its tables. Returns also the ignored lines.
pub(super) fn http(text: &str, passes_unenforced: bool) -> Result<(Names, Vec<Remark>), Faults> {
    map::read(&parse::parse(text)?, passes_unenforced)
}

/// The most table variables of a template; each one is a look-up.
const MAPS_IN_TEMPLATE_MAX: usize = 8;

/// The most regular expressions of one snippet. Each may need a megabyte.
const EXPRESSIONS_MAX: usize = 100;

impl Names {
    /// Adds the variables that a snippet sets. Faults are not reported here, but when the snippet is read.
    pub(super) fn add_set_by(&mut self, text: &str) {
        fn add(directives: &[Directive], names: &mut BTreeSet<String>) {
            for directive in directives {
                let name = directive.words.first().and_then(|word| word.strip_prefix('$'));
                let name = name.filter(|name| {
                    is_new_name(name) && matches!(directive.name.as_str(), "set" | "auth_request_set")
                });
                names.extend(name.map(str::to_owned));
                match directive.name.as_str() {
                    "valid_referers" => names.extend(["invalid_referer".to_owned()]),
                    "if" => names.extend(condition::group_names(&directive.words).map(str::to_owned)),
                    _ => {}
                }
                add(directive.block.as_deref().unwrap_or_default(), names);
            }
        }
        add(&parse::parse(text).unwrap_or_default(), &mut self.set);
    }

    /// Adds the locations of a host that answer in place of errors.
    pub(super) fn add_error_blocks(&mut self, of: &OfHost) {
        self.error_blocks
            .extend(of.error_blocks.iter().map(|(name, block)| (name.clone(), Arc::clone(block))));
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        let of_map = || self.maps.get(name).map(|map| Variable::Mapped(Arc::clone(map)));
        of_map().or_else(|| self.set.contains(name).then(|| Variable::Set(name.into())))
    }
}

/// Reads the directives of one snippet.
struct Reader<'n> {
    names: &'n Names,
    /// The number of regular expressions so far.
    expressions: Cell<usize>,
    expressions_max: usize,
    remarks: RefCell<Vec<Remark>>,
    faults: RefCell<Vec<Fault>>,
    asks: RefCell<Vec<SettingLine>>,
    auth_variables: RefCell<Vec<AuthVariable>>,
    /// The snippet is for a host.
    is_of_host: bool,
    replacements: RefCell<Replacements>,
    /// The lines of `error_page`, which are read once all locations are known.
    error_pages: RefCell<Vec<Directive>>,
    /// Errors of endpoints are replaced too.
    intercepts: Cell<bool>,
    limits: RefCell<OwnLimits>,
    passes: RefCell<Vec<PassDraft>>,
}

impl<'n> Reader<'n> {
    fn new(names: &'n Names) -> Self {
        Self {
            names,
            expressions: Cell::new(0),
            expressions_max: EXPRESSIONS_MAX,
            remarks: RefCell::default(),
            faults: RefCell::default(),
            asks: RefCell::default(),
            auth_variables: RefCell::default(),
            is_of_host: false,
            replacements: RefCell::default(),
            error_pages: RefCell::default(),
            intercepts: Cell::default(),
            limits: RefCell::default(),
            passes: RefCell::default(),
        }
    }

    /// The result, unless the snippet has faults.
    fn finish<T>(self, read: T) -> Result<(T, Vec<Remark>), Faults> {
        let faults = self.faults.into_inner();
        if faults.is_empty() { Ok((read, self.remarks.into_inner())) } else { Err(Faults(faults)) }
    }

    /// Records a fault, or a remark if the line may be ignored.
    fn note(&self, fault: Fault) {
        if fault.is_harmless && self.names.passes_unenforced {
            self.remark(RemarkKind::Unenforced, fault);
        } else {
            self.faults.borrow_mut().push(fault);
        }
    }

    fn remark(&self, kind: RemarkKind, fault: Fault) {
        self.remarks.borrow_mut().push(Remark { fault, kind });
    }

    /// Handles a directive of the table.
    fn setting(&self, directive: &Directive, may_ask: bool) -> Result<(), Fault> {
        match table::class(&directive.name, &directive.words) {
            _ if directive.block.is_some() => return Err(directive.unknown()),
            Class::Nothing(why) => {
                self.remark(RemarkKind::NoEffect, directive.fault(format!("has no effect here: {why}")));
            }
            Class::ForAll(key) => {
                let what = format!("has no effect here: set the key {key} of the ConfigMap, for all hosts");
                self.remark(RemarkKind::ForAll, directive.fault(what));
            }
            Class::Same(_) if !may_ask && directive.name.starts_with("proxy_cache_") => {
                let what = "has no effect here: it has its place beside proxy_cache";
                self.remark(RemarkKind::NoEffect, directive.fault(what));
            }
            Class::Same(asked) if may_ask => {
                let asked = asked(&directive.words).map_err(|why| directive.fault(why))?;
                if directive.name == "proxy_intercept_errors" {
                    self.intercepts.set(directive.words.first().is_some_and(|word| word == "on"));
                }
                if asked.is_empty() && directive.name.contains("cache") {
                    let what =
                        "has no effect here, and needs none: the cache does so by itself, where there is one";
                    self.remark(RemarkKind::NoEffect, directive.fault(what));
                }
                for (target, value) in asked {
                    self.ask(directive, target, value);
                }
            }
            _ => return Err(directive.unknown()),
        }
        Ok(())
    }

    /// Records a setting. Lines that add to one setting are joined.
    fn ask(&self, directive: &Directive, target: Target, value: String) {
        let mut asks = self.asks.borrow_mut();
        // Of several times of the cache the first one counts, which is that of what is found.
        let may_repeat = matches!(target, Target::Own(_));
        let known = asks.iter_mut().find(|known| known.target == target && may_repeat);
        if let Some(known) = known {
            if target.is_list() {
                known.value = format!("{},{value}", known.value);
            }
            return;
        }
        asks.push(SettingLine { line: directive.line, directive: directive.name.clone(), target, value });
    }

    /// A text with variables.
    fn template(&self, directive: &Directive, text: &str) -> Result<Template, Fault> {
        let template = Template::parse_with(text, &|name| self.names.variable(name));
        let template = template.map_err(|error| directive.fault(format!("cannot be read: {error}")))?;
        let tables = template.variables().filter(|variable| matches!(variable, Variable::Mapped(_))).count();
        if tables > MAPS_IN_TEMPLATE_MAX {
            let what = format!("takes more than {MAPS_IN_TEMPLATE_MAX} variables of maps");
            return Err(directive.fault(what));
        }
        if template.variables().any(is_of_the_end) {
            return Err(
                directive.fault("needs a variable that is not known before the response has been sent")
            );
        }
        Ok(template)
    }

    /// A text with variables for the value of a header.
    fn value(&self, directive: &Directive, text: &str) -> Result<Template, Fault> {
        if text.chars().any(|char| char.is_control() && char != '\t') {
            return Err(
                directive.fault("has a line break or another control character in the value of a header")
            );
        }
        self.template(directive, text)
    }

    fn expression(&self, directive: &Directive, text: &str, ignores_case: bool) -> Result<Expression, Fault> {
        let expressions = self.expressions.get() + 1;
        if expressions > self.expressions_max {
            let max = self.expressions_max;
            return Err(directive.fault(format!("is one of more than {max} regular expressions")));
        }
        self.expressions.set(expressions);
        let parsed = if ignores_case { Expression::anywhere(text) } else { Expression::case_sensitive(text) };
        parsed.map_err(|error| directive.fault(format!("has the regular expression {text:?}: {error}")))
    }
}

/// Variables of ingress-nginx's own configuration that a snippet may change: nginx gets them from `map` and
/// `set` itself.
const CHANGEABLE: &[&str] = &[
    "best_http_host",
    "connection_upgrade",
    "full_x_forwarded_for",
    "pass_access_scheme",
    "pass_port",
    "pass_server_port",
    "redirect_to_https",
];

/// Whether a snippet may define a variable of this name.
fn is_new_name(name: &str) -> bool {
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word && (CHANGEABLE.contains(&name) || Template::parse(&format!("${{{name}}}")).is_err())
}

/// Whether a variable has its value only at the end of the request.
fn is_of_the_end(variable: &Variable) -> bool {
    use Variable::{BodyBytesSent, BytesSent, RequestLength, ResponseHeader, Status};
    matches!(variable, BodyBytesSent | BytesSent | RequestLength | ResponseHeader(_) | Status)
}

impl Directive {
    /// A fault: no code implements the directive.
    fn unknown(&self) -> Fault {
        let (instead, is_harmless) = match table::class(&self.name, &self.words) {
            Class::Closes(instead, loss) => (instead.words(), loss == Loss::Harmless),
            Class::Same(asked) => {
                let asked = asked(&self.words).unwrap_or_default();
                let is_harmless = !asked.is_empty() && asked.iter().all(|(target, _)| !target.restricts());
                (asked.first().map(|(target, _)| format!("use {target}")), is_harmless)
            }
            _ => (None, false),
        };
        let fault = match instead {
            Some(instead) => self.fault(format!("is not understood here; {instead}")),
            None => self.fault("is not understood here"),
        };
        Fault { is_harmless, ..fault }
    }

    /// A fault: the directive is not allowed in this place.
    fn misplaced(&self) -> Fault {
        self.fault("has no place here")
    }
}

#[cfg(test)]
mod tests;
