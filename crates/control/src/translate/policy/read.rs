//! The contents of a policy: its fields as the texts of annotations, and its faults.
//!
//! Never in here: the targets of the policy.

use super::fields::{self, Field};
use super::kinds::FieldKind;
use super::sections::SECTIONS;
use crate::firewalls::Wanted;
use crate::names::NsName;
use crate::objects::{At, ConfigMap, ForebayPolicy, Resource, Secret, Service, Sourced};
use crate::problem::{Problem, Reason, Severity, SourceLocation};
use crate::translate::ingress::Settings;
use crate::translate::ingress::fallback::{self, Named};
use crate::translate::ingress::jwt::issuers::Names;
use crate::translate::ingress::oidc;
use crate::translate::ingress::partial;
use crate::translate::inputs::Inputs;
use crate::translate::table::suggestion;
use serde_json::Value;

/// A field with its value.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Given {
    pub(in crate::translate) field: &'static Field,
    /// The value as the text of the annotation. Names of Secrets and `ConfigMap`s have a namespace.
    pub(in crate::translate) text: String,
    /// The policy, and the line of the field.
    pub(in crate::translate) place: SourceLocation,
}

/// The contents of a policy.
#[derive(Debug, Default)]
pub(in crate::translate) struct Read {
    /// The readable fields.
    pub(in crate::translate) given: Vec<Given>,
    /// The faults of the policy. A policy with faults is not accepted.
    pub(in crate::translate) faults: Vec<Problem>,
    /// Remarks about fields without effect.
    pub(in crate::translate) remarks: Vec<Problem>,
    /// The reason for refusing requests: the policy protects them, and cannot be applied.
    pub(in crate::translate) denial: Option<String>,
}

/// The Secrets and `ConfigMap`s that a policy names, as far as the names can be read.
pub(crate) fn names(policy: &Sourced<ForebayPolicy>) -> Vec<(FieldKind, NsName)> {
    let sections = policy.spec.sections.iter();
    let values = sections
        .flat_map(|(section, fields)| fields.value.0.iter().map(move |(name, value)| (section, name, value)));
    let mut named = Vec::new();
    for (section, name, value) in values {
        let Some(field) = fields::named(section, name) else { continue };
        match (field.kind, &value.value) {
            (kind @ (FieldKind::Secret | FieldKind::ConfigMap), Value::String(text)) => {
                named.extend(full_name(text, policy.namespace()).ok().map(|key| (kind, key)));
            }
            (FieldKind::Issuers, issuers) => {
                let Names { secrets, configmaps } = Names::of(issuers);
                let key = |name: String| NsName::new(policy.namespace(), name);
                named.extend(secrets.into_iter().map(|name| (FieldKind::Secret, key(name))));
                named.extend(configmaps.into_iter().map(|name| (FieldKind::ConfigMap, key(name))));
            }
            (_, Value::String(text)) if field.annotation.name == oidc::CLIENT_SECRET => {
                let key = oidc::client_secret_name(text).map(|name| NsName::new(policy.namespace(), name));
                named.extend(key.map(|key| (FieldKind::Secret, key)));
            }
            _ => {}
        }
    }
    named
}

/// Reads a policy. `base` has the settings of the `ConfigMap`; `allows` decides whether a grant lets the
/// policy name an object of a kind in another namespace.
pub(in crate::translate) fn read(
    policy: &Sourced<ForebayPolicy>,
    base: &Settings,
    inputs: &Inputs<'_>,
    allows: &dyn Fn(&str, &NsName) -> bool,
) -> Read {
    let mut reader = Reader { policy, scratch: base.clone(), inputs, allows, read: Read::default() };
    for (section, fields) in policy.spec.sections.iter() {
        let Some(known) = SECTIONS.iter().find(|known| known.name == section) else {
            let hint = suggestion(section, SECTIONS.iter().map(|known| known.name));
            reader.fault(fields, Reason::Invalid, format!("section {section} is unknown{hint}"));
            continue;
        };
        for (name, value) in fields.value.0.iter() {
            reader.take(known.name, known.guards, name, value);
        }
    }
    // A reader may depend on values of other readers, in the order of annotations.
    reader.read.given.sort_by_key(|given| given.field.annotation.name);
    reader.check_values();
    reader.read
}

impl Read {
    /// Whether the policy has a field of a section.
    pub(in crate::translate) fn has_section(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.field.section.name == name)
    }
}

struct Reader<'r, 'a> {
    policy: &'r Sourced<ForebayPolicy>,
    scratch: Settings,
    inputs: &'r Inputs<'a>,
    allows: &'r dyn Fn(&str, &NsName) -> bool,
    read: Read,
}

impl Reader<'_, '_> {
    fn fault<T>(&mut self, at: &At<T>, reason: Reason, message: String) {
        self.fault_at(&SourceLocation::at(self.policy, at), reason, message);
    }

    fn fault_at(&mut self, place: &SourceLocation, reason: Reason, message: String) {
        self.read.faults.push(Problem::in_place(Severity::Error, place, message).because(reason));
    }

    fn deny(&mut self, path: &str) {
        let what = || format!("field {path} of {} cannot be obeyed", self.policy.reference());
        self.read.denial.get_or_insert_with(what);
    }

    fn take(&mut self, section: &'static str, guards: bool, name: &str, value: &At<Value>) {
        let path = format!("{section}.{name}");
        let Some(field) = fields::named(section, name) else {
            let of_section = fields::all().iter().filter(|field| field.section.name == section);
            let hint = suggestion(name, of_section.map(|field| field.name.as_str()));
            self.fault(value, Reason::Invalid, format!("field {path} is unknown{hint}"));
            if guards {
                self.deny(&path);
            }
            return;
        };
        let is_strict = guards || field.annotation.is_strict();
        match self.text(field, &value.value) {
            Ok((text, missing)) => {
                // The value is used although the object is missing, because the object may appear later.
                // Until then the reader of the annotation closes the routes.
                if let Some(why) = missing {
                    self.fault(value, Reason::Missing, format!("field {path}: {why}"));
                }
                self.read.given.push(Given { field, text, place: SourceLocation::at(self.policy, value) });
            }
            Err((reason, why)) => {
                self.fault(value, reason, format!("field {path}: {why}"));
                if is_strict {
                    self.deny(&path);
                }
            }
        }
    }

    /// The text for the reader of the annotation, and a message about the named object if it is missing.
    fn text(&self, field: &Field, value: &Value) -> Result<(String, Option<String>), (Reason, String)> {
        let text = field.kind.text_of(value).map_err(|why| (Reason::Invalid, why))?;
        if field.annotation.name == fallback::NAME {
            return Ok((self.services(&text)?, None));
        }
        let kind = match field.kind {
            FieldKind::Secret => Secret::KIND,
            FieldKind::ConfigMap => ConfigMap::KIND,
            _ => return Ok((text, None)),
        };
        let key = full_name(&text, self.policy.namespace()).map_err(|why| (Reason::Invalid, why))?;
        if key.namespace != self.policy.namespace() && !(self.allows)(kind, &key) {
            return Err((Reason::Forbidden, format!("no ReferenceGrant allows to name {kind} {key}")));
        }
        let is_there = match field.kind {
            FieldKind::Secret => self.inputs.secret(&key).is_some(),
            _ => self.inputs.configmap(&key).is_some(),
        };
        Ok((key.to_string(), (!is_there).then(|| format!("{kind} {key} is missing"))))
    }

    /// The Services of a list with their namespaces, which are the policy's own unless a grant allows others.
    fn services(&self, text: &str) -> Result<String, (Reason, String)> {
        let named = fallback::services(text).map_err(|why| (Reason::Invalid, why))?;
        let own = self.policy.namespace();
        let full = |named: Named| {
            let key = NsName::new(named.namespace.as_deref().unwrap_or(own), named.name);
            if key.namespace != own && !(self.allows)(Service::KIND, &key) {
                return Err((Reason::Forbidden, format!("no ReferenceGrant allows to name Service {key}")));
            }
            let port = named.port.map(|port| format!(":{port}")).unwrap_or_default();
            Ok(format!("{key}{port}"))
        };
        Ok(named.into_iter().map(full).collect::<Result<Vec<_>, _>>()?.join(","))
    }

    /// Compiles a policy's own rules of the firewall, so that their faults are those of the policy.
    fn check_rules(&self, given: &Given) -> Result<(), String> {
        if given.field.kind != FieldKind::Rules {
            return Ok(());
        }
        let wanted = Wanted { snippet: Some(given.text.as_str().into()), ..Wanted::default() };
        self.inputs.options.firewalls.set(&wanted).map(|_| ()).map_err(|fault| fault.to_string())
    }

    /// Passes all values to the readers of the annotations; removes the values that they refuse.
    fn check_values(&mut self) {
        let mut given = std::mem::take(&mut self.read.given);
        given.retain(|given| {
            let annotation = given.field.annotation;
            let path = given.field.path();
            let checked = partial::check(&mut self.scratch, annotation, &given.text);
            match checked.and_then(|remark| self.check_rules(given).map(|()| remark)) {
                Ok(remark) => {
                    self.read.remarks.extend(remark.map(|remark| {
                        let message = format!("field {path}: {remark}");
                        Problem::in_place(Severity::Warning, &given.place, message).because(Reason::NoEffect)
                    }));
                    true
                }
                Err(why) => {
                    self.fault_at(&given.place, Reason::Invalid, format!("field {path}: {why}"));
                    if given.field.section.guards || annotation.is_strict() {
                        self.deny(&path);
                    }
                    false
                }
            }
        });
        self.read.given = given;
    }
}

/// Parses `namespace/name`, or `name`, which belongs to the given namespace.
fn full_name(text: &str, namespace: &str) -> Result<NsName, String> {
    let text = text.trim();
    if text.contains('/') {
        text.parse::<NsName>().map_err(|error| error.to_string())
    } else if text.is_empty() {
        Err("the name is empty".to_owned())
    } else {
        Ok(NsName::new(namespace, text))
    }
}
