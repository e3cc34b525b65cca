//! Values of an object that the API server would refuse or drop: unknown fields, values of the wrong type,
//! missing fields.
//!
//! A proxy is lenient with such objects, because it serves as much as possible; a check before they are
//! applied is not. Never in here: the meaning of the fields.

mod near;
mod node;
mod shape;

use std::fmt::Write;

use node::{Entry, Node};
use shape::{Field, Shape};

use crate::names::ObjectRef;
use crate::objects::{At, Kind};

pub(crate) use near::{kind as near_kind, word as is_near};

/// One value that the API server would refuse or drop.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The object; none if it has no name.
    pub(super) object: Option<ObjectRef>,
    /// Line in the document, from 1.
    pub(super) line: u32,
    /// The path of the value as kubectl writes it, and the fault.
    pub(super) message: String,
}

impl Fault {
    /// A fault of a document as a whole.
    pub(super) fn new(line: u32, message: impl Into<String>) -> Self {
        Self { object: None, line, message: message.into() }
    }
}

/// A document with the types and lines of its values.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub(super) struct Tree(At<Node>);

impl Tree {
    /// The faults of the document's object, or of each object of its list.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let root = &self.0;
        let kind = root.value.get("kind").and_then(|kind| kind.value.text()).unwrap_or_default();
        let items = root.value.get("items").map(|items| items.value.items());
        match items.filter(|_| kind.ends_with("List")) {
            Some(items) => items.iter().flat_map(examine).collect(),
            None => examine(root),
        }
    }

    /// Whether the document resembles an object: it has metadata or a spec.
    pub(super) fn is_object(&self) -> bool {
        ["metadata", "spec"].iter().any(|key| self.0.value.get(key).is_some())
    }
}

/// Examines one object. An unsupported kind has no faults, unless it resembles a supported kind.
fn examine(object: &At<Node>) -> Vec<Fault> {
    let text = |key| object.value.get(key).and_then(|value| value.value.text()).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(known) = Kind::of(api_version, kind) else {
        let line = object.value.get("kind").map_or(object.line, |kind| kind.line);
        let near = near_kind(api_version, kind);
        return near.map(|message| Fault::new(line, message)).into_iter().collect();
    };
    let mut examination =
        Examination { object: reference(object, known), path: String::new(), faults: Vec::new() };
    examination.value(object, shape::of(api_version, kind));
    if known == Kind::Ingress {
        examination.ingress(object);
    }
    examination.faults
}

fn reference(object: &At<Node>, kind: Kind) -> Option<ObjectRef> {
    let metadata = &object.value.get("metadata")?.value;
    let text = |key| metadata.get(key).and_then(|value| value.value.text());
    let namespace = text("namespace").unwrap_or("default").to_owned();
    Some(ObjectRef { kind: kind.name(), namespace, name: text("name")?.to_owned() })
}

struct Examination {
    object: Option<ObjectRef>,
    /// The path of the value that is being examined.
    path: String,
    faults: Vec<Fault>,
}

impl Examination {
    fn add(&mut self, line: u32, wrong: &str) {
        let message = if self.path.is_empty() { wrong.to_owned() } else { format!("{}: {wrong}", self.path) };
        self.faults.push(Fault { object: self.object.clone(), line, message });
    }

    /// Examines a value with `end` appended to the path.
    fn below(&mut self, end: &str, examine: impl FnOnce(&mut Self)) {
        let before = self.path.len();
        if before > 0 && !end.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(end);
        examine(self);
        self.path.truncate(before);
    }

    fn value(&mut self, value: &At<Node>, shape: Shape) {
        if value.value.is_null() {
            return;
        }
        match (shape, &value.value) {
            (Shape::Any, _)
            | (Shape::Text | Shape::TextOrWhole, Node::Text(_))
            | (Shape::Whole | Shape::TextOrWhole, Node::Whole) => {}
            (Shape::List(shape), Node::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(&format!("[{index}]"), |this| this.value(item, *shape));
                }
            }
            (Shape::Texts, Node::Map(entries)) => {
                for Entry { key, value } in entries {
                    self.below(&format!("[{}]", key.value), |this| this.value(value, Shape::Text));
                }
            }
            (Shape::Fields(fields), Node::Map(entries)) => {
                self.fields(entries, fields, true);
                self.required(value, fields);
            }
            (Shape::Some(fields), Node::Map(entries)) => self.fields(entries, fields, false),
            (wanted, found) => self.add(value.line, &mismatch(wanted, found)),
        }
    }

    fn fields(&mut self, entries: &[Entry], fields: &'static [Field], is_all: bool) {
        let has = |name: &str| entries.iter().any(|entry| entry.key.value == name);
        for Entry { key, value } in entries {
            let known = fields.iter().find(|field| field.name == key.value);
            if known.is_none() && key.value == "servicePort" && has("serviceName") {
                continue;
            }
            self.below(&key.value, |this| match known {
                Some(field) => this.value(value, field.shape),
                None if is_all => this.add(key.line, &unknown(&key.value, fields)),
                None => {}
            });
        }
    }

    /// Reports missing fields, except those for which a misspelled field has been reported.
    fn required(&mut self, value: &At<Node>, fields: &'static [Field]) {
        let Node::Map(entries) = &value.value else { return };
        let is_meant = |field: &Field| {
            let near = |entry: &Entry| is_near(&entry.key.value, field.name);
            entries
                .iter()
                .any(|entry| near(entry) && fields.iter().all(|known| known.name != entry.key.value))
        };
        for field in fields.iter().filter(|field| field.is_required && !is_meant(field)) {
            if value.value.get(field.name).is_none_or(|value| value.value.is_null()) {
                self.below(field.name, |this| this.add(value.line, "required, and missing"));
            }
        }
    }

    /// Checks the rules of an Ingress that a type cannot express.
    fn ingress(&mut self, object: &At<Node>) {
        let Some(spec) = object.value.get("spec") else { return };
        let has = |key| spec.value.get(key).is_some_and(|value| !value.value.is_null());
        if !has("rules") && !has("defaultBackend") && !has("backend") && matches!(spec.value, Node::Map(_)) {
            self.below("spec", |this| {
                this.add(spec.line, "rules or defaultBackend is required: nothing is served");
            });
        }
        self.each_backend(spec);
    }

    fn each_backend(&mut self, spec: &At<Node>) {
        if let Some(backend) = spec.value.get("defaultBackend") {
            self.below("spec.defaultBackend", |this| this.backend(backend));
        }
        let rules = spec.value.get("rules").map_or(&[][..], |rules| rules.value.items());
        for (rule_index, rule) in rules.iter().enumerate() {
            let paths = rule.value.get("http").and_then(|http| http.value.get("paths"));
            for (index, path) in paths.map_or(&[][..], |paths| paths.value.items()).iter().enumerate() {
                let Some(backend) = path.value.get("backend") else { continue };
                let at = format!("spec.rules[{rule_index}].http.paths[{index}].backend");
                self.below(&at, |this| this.backend(backend));
            }
        }
    }

    /// Checks a backend, which names a resource or the port of a Service by number or name.
    fn backend(&mut self, backend: &At<Node>) {
        let port = backend.value.get("service").and_then(|service| service.value.get("port"));
        let Some(port) = port.filter(|port| matches!(port.value, Node::Map(_))) else { return };
        let wrong = match (port.value.get("name").is_some(), port.value.get("number").is_some()) {
            (true, true) => "name and number exclude each other",
            (false, false) => "name or number is required",
            _ => return,
        };
        self.below("service.port", |this| this.add(port.line, wrong));
    }
}

fn mismatch(wanted: Shape, found: &Node) -> String {
    let name = found.name();
    match (wanted, found) {
        (Shape::Text, Node::Bool | Node::Whole | Node::Fraction) => {
            format!("is {name} where the API server accepts only text: put it in quotes")
        }
        (Shape::Text | Shape::TextOrWhole, _) => format!("is {name} where text is needed"),
        (Shape::Whole, Node::Text(text)) if text.parse::<u32>().is_ok() => {
            "is text where a whole number is needed: remove the quotes".to_owned()
        }
        (Shape::Whole, _) => format!("is {name} where a whole number is needed"),
        (Shape::List(_), _) => format!("is {name} where a list is needed"),
        _ => format!("is {name} where a mapping is needed"),
    }
}

/// Fields of older API versions, and their present names.
const RENAMED: &[(&str, &str)] = &[
    ("serviceName", "service.name, and that of servicePort is service.port.number or service.port.name"),
    ("servicePort", "service.port.number or service.port.name"),
    ("backend", "defaultBackend"),
];

fn unknown(name: &str, fields: &'static [Field]) -> String {
    let mut wrong = "unknown field: kubectl refuses it, and the API server drops it".to_owned();
    let renamed = RENAMED.iter().find(|(old, new)| {
        let first = new.split('.').next().unwrap_or_default();
        *old == name && fields.iter().any(|field| field.name == first)
    });
    let near = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name) || is_near(name, field.name));
    let _ = match (renamed, near, inside(name, fields)) {
        (Some((_, new)), ..) => write!(wrong, "; its name today is {new}"),
        (None, Some(field), _) => write!(wrong, "; did you mean {}?", field.name),
        (None, None, Some(path)) => write!(wrong, "; it belongs to {path}"),
        _ => Ok(()),
    };
    wrong
}

/// The path of a nested field with this name; none if no field has it.
fn inside(name: &str, fields: &'static [Field]) -> Option<String> {
    fields.iter().find_map(|field| {
        let (inner, mark) = match field.shape {
            Shape::Fields(inner) => (inner, ""),
            Shape::List(Shape::Fields(inner)) => (*inner, "[]"),
            _ => return None,
        };
        let is_here = inner.iter().any(|field| field.name == name);
        let further = if is_here { Some(name.to_owned()) } else { inside(name, inner) };
        further.map(|further| format!("{}{mark}.{further}", field.name))
    })
}
