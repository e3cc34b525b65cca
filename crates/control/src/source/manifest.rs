//! Parses the text of a manifest file into objects: all objects, or none.
//!
//! Never in here: the filesystem.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Skipped;
use super::strict::{Fault, Tree};
use crate::objects::{At, Kind, Object, Origin};
use crate::old_version::{Assumed, OldVersion};

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    /// Objects of the supported kinds, in order.
    pub(super) objects: Vec<Object>,
    /// Numbers of objects of other kinds.
    pub(super) skipped: Skipped,
    /// The version of ingress-nginx whose controller, or whose Helm values, are in the file.
    pub(super) old: Option<Assumed>,
}

/// The reason why a file cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Line in the file, from 1.
    pub(super) line: u32,
    /// The error at that line.
    pub(super) message: String,
}

/// The message about a file that has to be rendered first.
const TEMPLATE: &str = "is a Helm template: render it first, `helm template CHART | forebay check -`";

/// Shortest text, in bytes, that several threads parse together.
const PARALLEL_BYTES_MIN: usize = 1 << 20;

impl Manifest {
    /// Parses the text of a file.
    pub(super) fn parse(file: &Arc<Path>, text: &str) -> Result<Self, Broken> {
        let documents = documents(text);
        let threads = if text.len() < PARALLEL_BYTES_MIN { 1 } else { available_parallelism() };
        let share = documents.len().div_ceil(threads).max(1);
        let mut parts = documents.chunks(share);
        let first = parts.next().unwrap_or_default();
        std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(move || Self::read_all(file, part))).collect();
            let mut manifest = Self::read_all(file, first)?;
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                manifest.objects.extend(other.objects);
                manifest.old = manifest.old.take().or(other.old);
                for (kind, count) in other.skipped {
                    *manifest.skipped.entry(kind).or_default() += count;
                }
            }
            Ok(manifest)
        })
    }

    /// Parses each document of a file by itself, and examines it as the API server would: the manifest has
    /// the readable objects, and the faults have their lines in the file.
    pub(super) fn parse_each(file: &Arc<Path>, text: &str) -> (Self, Vec<Fault>) {
        let (mut manifest, mut faults, mut is_template) = (Self::default(), Vec::new(), false);
        for document in documents(text) {
            let tree = document.parse_as::<Tree>();
            if document.is_template(tree.is_err()) {
                is_template = true;
                continue;
            }
            let mut found = tree.as_ref().map(Tree::faults).unwrap_or_default();
            let read = manifest.read(file, &document);
            let is_nameless = tree.is_ok_and(|tree| tree.is_object())
                && document.has_no_kind()
                && OldVersion::of_values(document.text).is_none();
            found.extend(is_nameless.then(|| Fault::new(1, "kind: required, and missing")));
            for fault in &mut found {
                fault.line = document.absolute(fault.line);
            }
            if let (Err(broken), true) = (read, found.is_empty()) {
                found.push(Fault::new(broken.line, broken.message));
            }
            faults.append(&mut found);
        }
        if is_template {
            faults.insert(0, Fault::new(1, TEMPLATE));
        }
        (manifest, faults)
    }

    fn read_all(file: &Arc<Path>, documents: &[Document<'_>]) -> Result<Self, Broken> {
        let mut manifest = Self::default();
        for document in documents {
            manifest.read(file, document)?;
        }
        manifest.objects.shrink_to_fit();
        Ok(manifest)
    }

    fn read(&mut self, file: &Arc<Path>, document: &Document<'_>) -> Result<(), Broken> {
        let head = match document.head_at_a_glance() {
            Some(head) => Some(head),
            None => document.parse_as::<Option<At<TypeMeta>>>()?,
        };
        let Some(head) = head else { return Ok(()) };
        if head.value.is_list() {
            let heads = document.parse_as::<ListHead>()?.items.unwrap_or_default();
            let slots = heads.iter().map(|head| self.slot(file, document, head)).collect();
            self.objects.extend(document.parse(ListSeed(slots))?);
        } else if let Some(slot) = self.slot(file, document, &head) {
            self.objects.push(document.parse(slot)?);
        }
        Ok(())
    }

    /// The seed for deserializing an object; none if its kind is not supported, in which case the object is
    /// counted.
    fn slot(&mut self, file: &Arc<Path>, document: &Document<'_>, head: &At<TypeMeta>) -> Option<Slot> {
        let Some(kind) = head.value.kind() else {
            if self.old.is_none() {
                self.old = document.old_version(file, &head.value);
            }
            *self.skipped.entry(head.value.name()).or_default() += 1;
            return None;
        };
        let line = document.absolute(head.line);
        let origin = Origin { file: Some(Arc::clone(file)), line, document_line: document.line };
        Some(Slot { kind, origin })
    }
}

fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

// === impl Document ===

/// One YAML document of a file.
struct Document<'a> {
    /// Number of its first line in the file, from 1.
    line: u32,
    text: &'a str,
}

/// Splits a file at its `---` lines. YAML allows such a line nowhere else (YAML 1.2, production
/// `c-forbidden`), so the end of a document is found without parsing it.
fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let (mut at, mut line) = (0, 1);
    for full_line in text.split_inclusive('\n') {
        let has_content = !text[start..at].trim().is_empty();
        if is_marker(full_line) && has_content {
            documents.push(Document { line: first_line, text: &text[start..at] });
            (start, first_line) = (at, line);
        }
        at += full_line.len();
        line += 1;
    }
    documents.push(Document { line: first_line, text: &text[start..] });
    documents
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

impl Document<'_> {
    /// The `apiVersion` and `kind` of the document, if plain lines hold them; reading these lines costs a
    /// tenth of parsing the YAML. A line without indentation is a key of the outermost mapping in every
    /// document that is an object.
    fn head_at_a_glance(&self) -> Option<At<TypeMeta>> {
        let mut head = At { value: TypeMeta { api_version: String::new(), kind: String::new() }, line: 0 };
        for (number, line) in (1..).zip(self.text.lines()) {
            let line = line.trim_end();
            match line.as_bytes().first() {
                None | Some(b'#' | b' ') => continue,
                Some(b'-') if head.line == 0 && line == "---" => continue,
                Some(byte) if byte.is_ascii_alphabetic() => {}
                Some(b'-' | b'}' | b']') if head.line > 0 => continue,
                Some(_) => return None,
            }
            let (name, value) = line.split_once(':')?;
            head.line = if head.line == 0 { number } else { head.line };
            let field = match name {
                "apiVersion" => &mut head.value.api_version,
                "kind" => &mut head.value.kind,
                _ => continue,
            };
            let value = value.strip_prefix(' ')?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
            if !field.is_empty() || !value.bytes().all(is_plain) {
                return None;
            }
            value.clone_into(field);
        }
        (!head.value.kind.is_empty() && !head.value.api_version.is_empty()).then_some(head)
    }

    /// Whether the document is a template of a Helm chart: a broken document with actions, or one that names
    /// values of a chart. Configuration of other programs may contain templates of its own.
    fn is_template(&self, is_broken: bool) -> bool {
        let mut actions =
            self.text.split("{{").skip(1).map(|action| action.trim_start_matches(['-', ' ', '$']));
        let of_charts = [".Values", ".Release", ".Chart", "include "];
        actions.any(|action| is_broken || of_charts.iter().any(|name| action.starts_with(name)))
    }

    fn has_no_kind(&self) -> bool {
        let head = self.parse_as::<Option<At<TypeMeta>>>();
        head.is_ok_and(|head| head.is_some_and(|head| head.value.kind.is_empty()))
    }

    /// The version of ingress-nginx whose controller, or whose Helm values, the document is.
    fn old_version(&self, file: &Path, head: &TypeMeta) -> Option<Assumed> {
        let place = file.display();
        match head.kind.as_str() {
            "Deployment" | "DaemonSet" => {
                let (version, image) = OldVersion::of_image(self.text)?;
                let kind = &head.kind;
                Some(Assumed { version, why: format!("the {kind} in {place} has the image {image}") })
            }
            "" => {
                let (version, tag) = OldVersion::of_values(self.text)?;
                Some(Assumed { version, why: format!("controller.image.tag in {place} is {tag}") })
            }
            _ => None,
        }
    }

    fn parse_as<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Broken> {
        self.parse(std::marker::PhantomData)
    }

    fn parse<S: for<'de> DeserializeSeed<'de, Value = T>, T>(&self, seed: S) -> Result<T, Broken> {
        // A `List` may hold all objects of a cluster: files belong to the operator, so their size is no
        // attack. The limits on aliases and depth stay.
        let budget = serde_saphyr::budget! { max_events: 50_000_000, max_nodes: 20_000_000 };
        let options = serde_saphyr::options! { budget: budget, with_snippet: false };
        serde_saphyr::with_deserializer_from_str_with_options(self.text, options, |de| seed.deserialize(de))
            .map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &serde_saphyr::Error) -> Broken {
        let line = error.location().map_or(1, |location| location.line().max(1));
        let message = plain(&error.render_with_formatter(&serde_saphyr::UserMessageFormatter));
        let source = usize::try_from(line - 1).ok().and_then(|index| self.text.lines().nth(index));
        let message = match source.and_then(key) {
            Some(key) => format!("{key}: {message}"),
            None => message,
        };
        Broken { line: self.absolute(u32::try_from(line).unwrap_or_default()), message }
    }

    fn absolute(&self, line: u32) -> u32 {
        self.line + line.saturating_sub(1)
    }
}

/// The parser's message without names of Rust types, and without its line, which the problem states itself.
fn plain(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    let message = message[..end].trim_end_matches([':', ',']);
    if message.starts_with("duplicate mapping key") {
        return "the key occurs twice".to_owned();
    }
    if message.starts_with("tabs disallowed") {
        return "there is a tab in the indentation, where YAML allows only spaces".to_owned();
    }
    message.replace("invalid u16", "not a whole number up to 65535")
}

/// The key on a line. The value is not shown, because it may be secret.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.trim_start_matches([' ', '-']).split_once(':')?;
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    (!key.is_empty() && key.bytes().all(is_key)).then_some(key)
}

// === impl TypeMeta ===

/// The `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

impl TypeMeta {
    fn kind(&self) -> Option<Kind> {
        Kind::of(&self.api_version, &self.kind)
    }

    /// Whether the object is a `List`, or a typed list such as `ServiceList`.
    fn is_list(&self) -> bool {
        let of = self.kind.strip_suffix("List");
        of.is_some_and(|kind| {
            kind.is_empty() && self.api_version == "v1" || Kind::of(&self.api_version, kind).is_some()
        })
    }

    /// The name under which a skipped object is counted.
    fn name(&self) -> String {
        let group = self.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        match (self.kind.as_str(), group) {
            ("", _) => "document without a kind".to_owned(),
            (kind, "") => kind.to_owned(),
            (kind, group) => format!("{kind}.{group}"),
        }
    }
}

#[derive(Deserialize)]
struct ListHead {
    #[serde(default)]
    items: Option<Vec<At<TypeMeta>>>,
}

// === seeds: a kind that is known decides how the object is read ===

/// The seed for deserializing one object.
struct Slot {
    kind: Kind,
    origin: Origin,
}

impl<'de> DeserializeSeed<'de> for Slot {
    type Value = Object;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Object, D::Error> {
        self.kind.read(de, self.origin)
    }
}

/// The seeds for the items of a list; none for items that are skipped.
struct ListSeed(Vec<Option<Slot>>);

impl<'de> DeserializeSeed<'de> for ListSeed {
    type Value = Vec<Object>;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Self::Value, D::Error> {
        de.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListSeed {
    type Value = Vec<Object>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                objects = map.next_value_seed(Items(std::mem::take(&mut self.0)))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(objects)
    }
}

struct Items(Vec<Option<Slot>>);

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<Object>;

    fn deserialize<D: Deserializer<'de>>(self, de: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return IgnoredAny::deserialize(de).map(|_| Vec::new());
        }
        de.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Object>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        for slot in self.0 {
            match slot {
                Some(slot) => objects.extend(items.next_element_seed(slot)?),
                None => drop(items.next_element::<IgnoredAny>()?),
            }
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, Broken> {
        Manifest::parse(&Arc::from(Path::new("a.yaml")), text)
    }

    fn places(text: &str) -> Vec<(String, u32)> {
        let describe = |object: &Object| match object {
            Object::Service(it) => (it.reference().to_string(), it.origin.line),
            Object::Secret(it) => (it.reference().to_string(), it.origin.line),
            Object::ConfigMap(it) => {
                let values = it.object.data.values().filter_map(|value| it.origin.line_of(value));
                (it.reference().to_string(), values.max().unwrap_or(it.origin.line))
            }
            other => panic!("{other:?}"),
        };
        parse(text).unwrap().objects.iter().map(describe).collect()
    }

    #[test]
    fn documents_keep_their_lines() {
        let text = "# a comment\n---\nkind: Service\napiVersion: v1\nmetadata: {name: a}\n\n---\n# nothing\n---\n\
                    apiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n  namespace: ns\n--- # c\n\
                    kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata:\n  k: v\n";
        let expected = [("Service default/a", 3), ("Secret ns/b", 10), ("ConfigMap default/c", 20)];
        assert_eq!(places(text), expected.map(|(name, line)| (name.to_owned(), line)));
    }

    #[test]
    fn a_large_file_is_read_in_order_and_told_of_like_a_small_one() {
        let service = |n: u32| {
            let filler = "x".repeat(1000);
            format!("---\n# {filler}\nkind: Service\napiVersion: v1\nmetadata: {{name: s{n}}}\n")
        };
        let text: String = (0..2000).map(service).collect();
        assert!(text.len() > PARALLEL_BYTES_MIN);
        let expected: Vec<_> = (0..2000).map(|n| (format!("Service default/s{n}"), 5 * n + 3)).collect();
        assert_eq!(places(&text), expected);
        let broken = text.replace("name: s1500}", "name: [}").replace("name: s900}", "name: [}");
        assert_eq!(parse(&broken).unwrap_err().line, 900 * 5 + 5);
        assert_eq!(parse(&(text + "---\nkind: Pod\napiVersion: v1\n")).unwrap().skipped.len(), 1);
    }

    /// The look at single lines may find nothing, but must not find anything that the YAML parser does not
    /// find.
    #[test]
    fn a_glance_is_not_mistaken() {
        for (text, is_seen) in [
            ("kind: Service\napiVersion: v1\nmetadata: {name: a}\n", true),
            ("---\n\n# comment\napiVersion: v1\nkind: Service\nspec:\n  kind: x\nlist:\n- kind: y\n", true),
            ("kind: \"Service\"\napiVersion: v1\n", false),
            ("kind: Service # comment\napiVersion: v1\n", false),
            ("kind: Service\nkind: Service\napiVersion: v1\n", false),
            ("{kind: Service, apiVersion: v1}\n", false),
            ("\"kind\": Service\napiVersion: v1\n", false),
            ("--- # comment\nkind: Service\napiVersion: v1\n", false),
            ("&anchor\nkind: Service\napiVersion: v1\n", false),
            ("kind: Service\n", false),
        ] {
            let document = Document { line: 1, text };
            let seen = document.head_at_a_glance();
            assert_eq!(seen.is_some(), is_seen, "{text:?}");
            if let (Some(seen), Ok(Some(read))) = (seen, document.parse_as::<Option<At<TypeMeta>>>()) {
                assert_eq!((seen.line, seen.value.kind), (read.line, read.value.kind), "{text:?}");
            }
        }
    }

    #[test]
    fn lists_are_unrolled_whichever_field_comes_first() {
        let text = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n\
                    - apiVersion: apps/v1\n  kind: Deployment\n  spec: [1]\n\
                    - kind: Secret\n  apiVersion: v1\n  metadata: {name: b}\nkind: List\n";
        let expected = [("Service default/a", 3), ("Secret default/b", 9)];
        assert_eq!(places(text), expected.map(|(name, line)| (name.to_owned(), line)));
        assert_eq!(parse(text).unwrap().skipped, Skipped::from([("Deployment.apps".to_owned(), 1)]));
        assert!(places("apiVersion: v1\nkind: ServiceList\nitems: []\n").is_empty());
        assert!(places("apiVersion: v1\nkind: List\nitems: null\n").is_empty());
    }

    #[test]
    fn json_is_read_too() {
        let text =
            "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Service\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n";
        assert_eq!(places(text), [("Service default/a".to_owned(), 1)]);
    }

    #[test]
    fn empty_files_hold_nothing() {
        for text in ["", "\n", "---\n", "# comment\n", "---\n---\n", "\u{feff}# byte order mark\n"] {
            assert!(parse(text).unwrap().objects.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn other_kinds_are_counted() {
        let text = "kind: Pod\napiVersion: v1\n---\nkind: Pod\napiVersion: v1\n---\nreplicas: 2\n";
        let counts = [("Pod".to_owned(), 2), ("document without a kind".to_owned(), 1)];
        assert_eq!(parse(text).unwrap().skipped, Skipped::from(counts));
    }

    #[test]
    fn what_is_broken_is_told_with_its_line() {
        let broken = |text: &str| parse(text).map(|_| ()).unwrap_err();
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
        let wrong_type = broken(&format!("{service}---\n{service}spec:\n  ports:\n  - port: http\n"));
        assert_eq!(wrong_type.line, 10, "{wrong_type:?}");
        assert_eq!(broken(&format!("{service}spec: [\n")).line, 4);
        assert_eq!(broken("apiVersion: v1\nkind: Service\nkind: Service\n").line, 3);
        assert_eq!(broken("- a\n").line, 1);
        assert_eq!(broken("apiVersion: v1\nkind: Service\nmetadata: {}\n").line, 3);
    }

    #[test]
    fn null_is_as_good_as_absent() {
        let text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: null, labels: }\ndata:\n";
        assert_eq!(places(text).len(), 1);
    }
}
