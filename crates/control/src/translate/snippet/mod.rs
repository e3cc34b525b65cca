//! nginx's configuration in snippets: parsed, and made into typed steps, changes to heads and tables. What is not understood is a fault
//! with its line; nothing is ever inserted into a text.
//!
//! `parse` makes directives of a text; `server` and `location` read those of a host and of its locations, of which `block` reads what
//! both may hold; `headers`, `rewrite` and `condition` read single directives; `map` and `auth` read the other places for snippets.

mod auth;
mod block;
mod condition;
mod headers;
mod map;
mod parse;
mod rewrite;
mod server;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::template::{Template, Variable};
use model::{AddressRule, Block, Expression, HostScript, ValueMap};

use parse::Directive;

pub(super) use auth::read as auth_headers;

/// What is wrong with a snippet, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line of the snippet, from 1.
    line: u32,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// The variables that snippets make, beside those that every request has.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    maps: BTreeMap<String, Arc<ValueMap>>,
    /// Those of `set`.
    set: BTreeSet<String>,
}

/// What a snippet says of a location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfLocation {
    pub(super) block: Block,
    pub(super) rules: Vec<AddressRule>,
}

/// What a snippet says of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OfHost {
    pub(super) script: HostScript,
    pub(super) rules: Vec<AddressRule>,
}

impl OfLocation {
    /// What this one and another say, which stands behind it.
    pub(super) fn then(mut self, other: &Self) -> Self {
        let (own, others) = (&mut self.block, &other.block);
        own.steps.extend_from_slice(&others.steps);
        own.headers.extend(&others.headers);
        self.rules.extend_from_slice(&other.rules);
        self
    }
}

/// Reads a snippet for a location.
pub(super) fn location(text: &str, names: &Names) -> Result<OfLocation, Fault> {
    let directives = parse::parse(text)?;
    let reader = Reader::new(names);
    let contents = reader.contents(&directives, block::Context::Location)?;
    Ok(OfLocation { block: contents.block, rules: contents.rules })
}

/// Reads a snippet for a host.
pub(super) fn server(text: &str, names: &Names) -> Result<OfHost, Fault> {
    let directives = parse::parse(text)?;
    Reader::new(names).server(&directives)
}

/// Reads a snippet for all of HTTP: the tables that it makes.
pub(super) fn http(text: &str) -> Result<Names, Fault> {
    map::read(&parse::parse(text)?)
}

/// Variables that one template may take from tables, each of which is a look-up.
const MAPS_IN_TEMPLATE_MAX: usize = 8;

/// Regular expressions of one snippet. Each may take a megabyte.
const EXPRESSIONS_MAX: usize = 100;

impl Names {
    /// Adds the variables that a snippet sets. Nothing is said of what cannot be read: that is found when it is read.
    pub(super) fn add_set_by(&mut self, text: &str) {
        fn add(directives: &[Directive], names: &mut BTreeSet<String>) {
            for directive in directives {
                let name = directive.words.first().and_then(|word| word.strip_prefix('$'));
                names.extend(name.filter(|_| directive.name == "set").map(str::to_owned));
                add(directive.block.as_deref().unwrap_or_default(), names);
            }
        }
        add(&parse::parse(text).unwrap_or_default(), &mut self.set);
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        let of_map = || self.maps.get(name).map(|map| Variable::Mapped(Arc::clone(map)));
        of_map().or_else(|| self.set.contains(name).then(|| Variable::Set(name.into())))
    }
}

/// Reads the directives of one snippet.
struct Reader<'n> {
    names: &'n Names,
    /// Regular expressions so far.
    expressions: Cell<usize>,
    expressions_max: usize,
}

impl<'n> Reader<'n> {
    fn new(names: &'n Names) -> Self {
        Self { names, expressions: Cell::new(0), expressions_max: EXPRESSIONS_MAX }
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

    /// A text with variables that becomes the value of a header.
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

/// Whether a name is one that a snippet may give a value to.
fn is_new_name(name: &str) -> bool {
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word && Template::parse(&format!("${{{name}}}")).is_err()
}

/// Whether a value is known only when all is over.
fn is_of_the_end(variable: &Variable) -> bool {
    use Variable::{BodyBytesSent, BytesSent, RequestLength, ResponseHeader, Status};
    matches!(variable, BodyBytesSent | BytesSent | RequestLength | ResponseHeader(_) | Status)
}

impl Directive {
    /// A fault: nothing here does what it asks for.
    fn unknown(&self) -> Fault {
        self.fault("is not understood here")
    }

    /// A fault: it is not allowed where it stands.
    fn misplaced(&self) -> Fault {
        self.fault("has no place here")
    }
}

#[cfg(test)]
mod tests;
