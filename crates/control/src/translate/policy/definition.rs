//! The definition of the kind for the API server: the `CustomResourceDefinition`, made from the table of
//! fields.
//!
//! Its rules (CEL) refuse values that are wrong in every configuration; a policy's status reports the faults
//! that only the readers of annotations find.

use identity::Algorithm;
use serde_json::{Map, Value, json};

use super::fields::{self, Field};
use super::kinds::FieldKind;
use super::sections::SECTIONS;
use crate::firewalls::{EXCLUSION_ITEMS_MAX, EXCLUSION_TEXT_MAX, EXCLUSIONS_MAX};
use crate::objects::gateway_api::GROUP as GATEWAY_GROUP;
use crate::objects::{ForebayPolicy, Resource, forebay_policy};
use crate::translate::ingress::jwt::issuers::{
    ISSUERS_MAX, ITEMS_MAX as ISSUER_ITEMS_MAX, TEXT_MAX as ISSUER_TEXT_MAX,
};

/// The most targets of a policy: an object's status has no place for more ancestors.
const TARGETS_MAX: u32 = 16;

/// The most items of a list, and the most characters of a text: bounds let the API server estimate the cost
/// of rules.
const ITEMS_MAX: u32 = 256;
const TEXT_MAX: u32 = 4096;

/// The most characters of a text of several lines, and of a firewall's own rules.
const RULES_MAX: u32 = 65_536;

/// The name of a Kubernetes object (RFC 1123 subdomain), and of its namespace with it.
const NAME: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
const FULL_NAME: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// The rules of sections: the section, the rule, and the message.
const RULES: &[(&str, &str, &str)] = &[
    ("auth", "has(self.type) == has(self.secret)", "type and secret belong together"),
    (
        "responses",
        "has(self.redirectFrom) == has(self.redirectTo)",
        "redirectFrom and redirectTo belong together",
    ),
    (
        "limits",
        "!has(self.burstMultiplier) || has(self.rps) || has(self.rpm)",
        "burstMultiplier needs rps or rpm",
    ),
];

/// The `CustomResourceDefinition` as JSON.
pub fn definition() -> Value {
    let plural = "forebaypolicies";
    let name = ForebayPolicy::KIND;
    let version = json!({
        "name": forebay_policy::VERSION,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
        "schema": {"openAPIV3Schema": schema()},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{}", forebay_policy::GROUP),
            // A policy of a Gateway applies to its routes too (GEP-713).
            "labels": {"gateway.networking.k8s.io/policy": "Inherited"},
        },
        "spec": {
            "group": forebay_policy::GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": name,
                "listKind": format!("{name}List"),
                "plural": plural,
                "singular": name.to_lowercase(),
                "categories": ["gateway-api"],
            },
            "versions": [version],
        },
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Settings for Gateways and their routes, for which the Gateway API has none.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec(),
            "status": status(),
        },
    })
}

fn spec() -> Value {
    let mut properties = Map::new();
    properties.insert("targetRefs".to_owned(), targets());
    for section in SECTIONS {
        let fields = fields::all().iter().filter(|field| field.section.name == section.name);
        let fields: Map<_, _> = fields.map(|field| (field.name.clone(), of_field(field))).collect();
        let mut of_section = json!({
            "type": "object",
            "description": section.doc,
            "minProperties": 1,
            "properties": fields,
        });
        let rules = RULES.iter().filter(|(name, ..)| *name == section.name);
        let rules: Vec<_> = rules.map(|(_, rule, message)| of_rule(rule, message)).collect();
        if !rules.is_empty() {
            of_section["x-kubernetes-validations"] = rules.into();
        }
        properties.insert(section.name.to_owned(), of_section);
    }
    let has: Vec<_> = SECTIONS.iter().map(|section| format!("has(self.{})", section.name)).collect();
    json!({
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [of_rule(&has.join(" || "), "a policy has at least one section of settings")],
    })
}

fn targets() -> Value {
    let one_kind =
        format!("self.group == '{GATEWAY_GROUP}' && self.kind in ['Gateway', 'HTTPRoute', 'GRPCRoute']");
    let same = "a.kind == b.kind && a.name == b.name";
    let distinct = format!(
        "self.all(a, self.exists_one(b, {same} && has(a.sectionName) == has(b.sectionName) && \
         (!has(a.sectionName) || a.sectionName == b.sectionName)))"
    );
    let whole = format!("self.all(a, has(a.sectionName) || !self.exists(b, {same} && has(b.sectionName)))");
    json!({
        "type": "array",
        "description": "Gateways and routes of the policy's namespace. What it says of a Gateway holds for all routes below it. A policy that filters of rules name needs none.",
        "minItems": 1,
        "maxItems": TARGETS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["group", "kind", "name"],
            "properties": {
                "group": {"type": "string", "maxLength": 253},
                "kind": {"type": "string", "maxLength": 63},
                "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": NAME},
                "sectionName": {
                    "type": "string",
                    "description": "A listener of the Gateway, or a rule of the route; without, it is the whole object.",
                    "minLength": 1,
                    "maxLength": 253,
                    "pattern": NAME,
                },
            },
            "x-kubernetes-validations": [of_rule(&one_kind, "policies are for Gateways, HTTPRoutes and GRPCRoutes")],
        },
        "x-kubernetes-validations": [
            of_rule(&distinct, "targets are distinct"),
            of_rule(&whole, "an object is named as a whole, or by its sections"),
        ],
    })
}

fn of_rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

fn of_field(field: &Field) -> Value {
    let mut schema = match field.kind {
        FieldKind::Boolean | FieldKind::Switch => json!({"type": "boolean"}),
        FieldKind::Integer(min, max) => integer(min, max),
        FieldKind::Word(words) => json!({"type": "string", "enum": words}),
        FieldKind::Duration => text("^([0-9]+(ms|s|m|h|d|w)?)( ?[0-9]+(ms|s|m|h|d|w))*$"),
        FieldKind::Size => text("^[0-9]+[kKmMgG]?$"),
        FieldKind::Pattern(pattern) => text(pattern),
        FieldKind::Text => json!({"type": "string", "minLength": 1, "maxLength": TEXT_MAX}),
        FieldKind::Lines | FieldKind::Rules => {
            json!({"type": "string", "minLength": 1, "maxLength": RULES_MAX})
        }
        FieldKind::Exclusions => exclusions(),
        FieldKind::Issuers => issuers(),
        FieldKind::List => list(&text("^[^,]+$")),
        FieldKind::Integers(min, max) => list(&integer(min, max)),
        FieldKind::Secret | FieldKind::ConfigMap => text(FULL_NAME),
    };
    schema["description"] = description(field).into();
    schema
}

fn integer(min: i64, max: i64) -> Value {
    json!({"type": "integer", "format": "int64", "minimum": min, "maximum": max})
}

fn text(pattern: &str) -> Value {
    json!({"type": "string", "maxLength": TEXT_MAX, "pattern": pattern})
}

fn list(items: &Value) -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": ITEMS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": items,
    })
}

fn exclusions() -> Value {
    let texts = |doc: &str| {
        json!({
            "type": "array",
            "description": doc,
            "maxItems": EXCLUSION_ITEMS_MAX,
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "string", "minLength": 1, "maxLength": EXCLUSION_TEXT_MAX},
        })
    };
    let mut rules =
        texts("Ids of rules, and ranges such as 942100-942199. Without rules and tags, all rules are meant.");
    rules["items"] = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+( *- *[0-9]+)?$",
        "x-kubernetes-int-or-string": true,
    });
    let path = json!({
        "type": "object",
        "description": "The path on which it holds, as in an HTTPRoute; without, it holds on all.",
        "required": ["value"],
        "properties": {
            "type": {
                "type": "string",
                "enum": ["PathPrefix", "Exact", "RegularExpression"],
                "default": "PathPrefix",
            },
            "value": {"type": "string", "minLength": 1, "maxLength": EXCLUSION_TEXT_MAX},
        },
    });
    json!({
        "type": "array",
        "maxItems": EXCLUSIONS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "minProperties": 1,
            "properties": {
                "rules": rules,
                "tags": texts("Tags of rules, such as attack-sqli."),
                "targets": texts("What the rules do not look at, such as ARGS:comment. Without, they are left out as a whole."),
                "path": path,
            },
        },
    })
}

fn issuers() -> Value {
    let text = |doc: &str| json!({"type": "string", "description": doc, "minLength": 1, "maxLength": ISSUER_TEXT_MAX});
    let texts = |doc: &str, items: Value| {
        json!({
            "type": "array",
            "description": doc,
            "maxItems": ISSUER_ITEMS_MAX,
            "x-kubernetes-list-type": "atomic",
            "items": items,
        })
    };
    let plain = || json!({"type": "string", "minLength": 1, "maxLength": ISSUER_TEXT_MAX});
    let algorithms: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
    let properties = json!({
        "issuer": text("The issuer, exactly as tokens have it in iss."),
        "jwks": text("URL of the issuer's keys."),
        "ca": text("Secret, and its key after a slash, with the authorities of that URL as PEM: ca.crt if it names no key."),
        "secret": text("Secret, and its key after a slash, with the keys: a JWK Set, or the secret of HMAC."),
        "configMap": text("ConfigMap, and its key after a slash, with the keys: a JWK Set."),
        "audiences": texts("The token is for one of them (aud).", plain()),
        "algorithms": texts(
            "Algorithms of signatures; all that have public keys if none are named.",
            json!({"type": "string", "enum": algorithms}),
        ),
        "leeway": text("By how much the issuer's clock may be off: 1m if it is not given."),
        "requiredClaims": texts("Conditions about claims, which all have to hold.", plain()),
    });
    let places = "(has(self.jwks) ? 1 : 0) + (has(self.secret) ? 1 : 0) + (has(self.configMap) ? 1 : 0) == 1";
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": ISSUERS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["issuer"],
            "properties": properties,
            "x-kubernetes-validations": [
                of_rule(places, "an issuer has one of jwks, secret and configMap"),
                of_rule("!has(self.ca) || has(self.jwks)", "ca is for the URL in jwks"),
            ],
        },
    })
}

/// The purpose of the annotation, and its name.
fn description(field: &Field) -> String {
    format!("{} As annotation {}.", field.annotation.doc, field.annotation_key())
}

/// The schema of the status: `PolicyStatus` of GEP-713.
fn status() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
            "message": {"type": "string", "maxLength": 32768},
        },
    });
    let reference = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "group": {"type": "string", "maxLength": 253},
            "kind": {"type": "string", "maxLength": 63},
            "namespace": {"type": "string", "maxLength": 63},
            "name": {"type": "string", "maxLength": 253},
            "sectionName": {"type": "string", "maxLength": 253},
        },
    });
    let ancestor = json!({
        "type": "object",
        "required": ["ancestorRef", "controllerName"],
        "properties": {
            "ancestorRef": reference,
            "controllerName": {"type": "string", "minLength": 1, "maxLength": 253},
            "conditions": {
                "type": "array",
                "maxItems": 8,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition,
            },
        },
    });
    json!({
        "type": "object",
        "description": "What has become of the policy, for each of its targets.",
        "properties": {
            "ancestors": {
                "type": "array",
                "maxItems": TARGETS_MAX,
                "x-kubernetes-list-type": "atomic",
                "items": ancestor,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_typed_and_says_what_it_is_for() {
        let definition = definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for field in fields::all() {
            let of_field =
                &schema["properties"]["spec"]["properties"][field.section.name]["properties"][&field.name];
            assert!(of_field["type"].is_string(), "{}", field.path());
            assert!(of_field["description"].as_str().unwrap().contains(field.annotation.name));
        }
        for (section, ..) in RULES {
            assert!(SECTIONS.iter().any(|known| known.name == *section), "{section}");
        }
    }
}
