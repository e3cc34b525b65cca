//! The fields of policies. Each stands for an annotation, whose reader parses its value and whose
//! documentation it uses.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::kinds::FieldKind;
use super::sections::{Entry, LEFT_OUT, SECTIONS, Section};
use crate::translate::ingress::annotation::Annotation;
use crate::translate::ingress::{annotations, own};

/// The prefix of the annotations that ingress-nginx knows, unless `--annotations-prefix` changes it.
const USUAL_PREFIX: &str = "nginx.ingress.kubernetes.io";

/// A field of a policy.
#[derive(Debug)]
pub struct Field {
    /// The annotation that the field stands for.
    pub annotation: &'static Annotation,
    /// The section of `spec` that contains the field.
    pub section: &'static Section,
    /// Name of the field: that of the annotation in camel case, without the parts that the section's name
    /// implies.
    pub name: String,
    /// The form of the field's value.
    pub kind: FieldKind,
}

impl Field {
    /// The path of the field in `spec`: `cache.defaultTtl`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section.name, self.name)
    }

    /// The annotation with the usual prefix: `nginx.ingress.kubernetes.io/auth-url`, `forebay.io/cache`.
    pub fn annotation_key(&self) -> String {
        let name = self.annotation.name;
        let prefix = if own::named(name).is_some() { own::PREFIX } else { USUAL_PREFIX };
        format!("{prefix}/{name}")
    }
}

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let of_section = |section: &'static Section| {
        section.entries.iter().filter_map(move |entry| {
            let annotation = own::named(entry.annotation).or_else(|| annotations::named(entry.annotation))?;
            Some(Field { annotation, section, name: name_of(section, entry), kind: entry.kind })
        })
    };
    SECTIONS.iter().flat_map(of_section).collect()
});

static BY_ANNOTATION: LazyLock<HashMap<&'static str, &'static Field>> =
    LazyLock::new(|| FIELDS.iter().map(|field| (field.annotation.name, field)).collect());

/// All fields, by section.
pub fn all() -> &'static [Field] {
    &FIELDS
}

/// The field of an annotation, which is named without its prefix; none for an annotation without a field.
pub fn of_annotation(name: &str) -> Option<&'static Field> {
    let known = || Some(*BY_ANNOTATION.get(annotations::named(name)?.name)?);
    BY_ANNOTATION.get(name).copied().or_else(known)
}

/// The field of a section.
pub fn named(section: &str, name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.section.name == section && field.name == name)
}

/// The replacement of a missing field for an annotation, which is named without its prefix; none if the
/// annotation has a field, or no replacement is known.
pub fn instead(name: &str) -> Option<&'static str> {
    LEFT_OUT.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

fn name_of(section: &Section, entry: &Entry) -> String {
    if let Some(name) = entry.name {
        return name.to_owned();
    }
    let name = entry.annotation;
    let name = section.prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    camel(name.strip_suffix(section.suffix).unwrap_or(name))
}

/// Converts `default-ttl` to `defaultTtl`.
fn camel(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &first.into_iter().chain(letters).collect::<String>()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_entry_is_a_field_of_its_own() {
        let entries: usize = SECTIONS.iter().map(|section| section.entries.len()).sum();
        assert_eq!(all().len(), entries, "each names an annotation");
        assert_eq!(BY_ANNOTATION.len(), entries, "no annotation has two");
        assert!(all().iter().all(|field| field.annotation.is_supported()));
        let paths: HashSet<_> = all().iter().map(Field::path).collect();
        assert_eq!(paths.len(), entries);
        assert!(SECTIONS.is_sorted_by_key(|section| section.name));
    }

    #[test]
    fn names_are_those_of_annotations_in_short() {
        for (annotation, path) in [
            ("proxy-read-timeout", "timeouts.read"),
            ("cache", "cache.enabled"),
            ("cache-stale-while-revalidate", "cache.staleWhileRevalidate"),
            ("limit-rps", "limits.rps"),
            ("whitelist-source-range", "access.allowlistSourceRange"),
            ("client-body-buffer-size", "bodies.bufferSize"),
            ("overload", "overload.mode"),
            ("enable-global-auth", "auth.globalAuth"),
        ] {
            assert_eq!(of_annotation(annotation).unwrap().path(), path);
        }
        assert_eq!(named("timeouts", "read").unwrap().annotation.name, "proxy-read-timeout");
        assert!(of_annotation("rewrite-target").is_none() && named("cache", "none").is_none());
    }

    /// The conversion of Ingresses needs a result for every annotation.
    #[test]
    fn every_annotation_has_a_field_or_something_instead() {
        for annotation in annotations::ANNOTATIONS.iter().copied().chain(own::annotations()) {
            let has_field = of_annotation(annotation.name).is_some();
            let has_other = instead(annotation.name).is_some();
            assert!(!(has_field && has_other), "{}", annotation.name);
            assert!(has_field || has_other || !annotation.is_supported(), "{}", annotation.name);
        }
    }
}
