//! The sources of objects.
//!
//! A source holds its objects in order, with the problems of reading them. It does not know their meaning.

pub mod cluster;
pub(crate) mod file_source;
pub mod files;
mod manifest;
pub(crate) mod strict;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::path::Path;

use crate::objects::Object;

/// Numbers of skipped objects, by description: unsupported kinds, and Ingresses of other classes.
pub type Skipped = BTreeMap<String, usize>;

/// Parses the text of a manifest that is not in a file.
///
/// # Errors
///
/// When the text is not YAML, or an object in it cannot be deserialized. The message begins with the line.
pub fn objects_in(text: &str) -> Result<Vec<Object>, String> {
    let file = Path::new("manifest.yaml").into();
    let manifest = manifest::Manifest::parse(&file, text);
    manifest
        .map(|manifest| manifest.objects)
        .map_err(|broken| format!("line {}: {}", broken.line, broken.message))
}
