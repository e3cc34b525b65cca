//! Where objects come from.
//!
//! A source keeps its objects, in order, and what is wrong with how they are written. It never says what they mean.

pub mod cluster;
pub(crate) mod file_source;
pub mod files;
mod manifest;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::path::Path;

use crate::objects::Object;

/// Numbers of things that were passed over, by what they are: kinds that are not understood, Ingresses of other classes.
pub type Skipped = BTreeMap<String, usize>;

/// The objects in a manifest's text, or what is wrong with it: for those who have no file.
///
/// # Errors
///
/// When the text is no YAML, or an object in it cannot be read. The message begins with the line.
pub fn objects_in(text: &str) -> Result<Vec<Object>, String> {
    let file = Path::new("manifest.yaml").into();
    let manifest = manifest::Manifest::parse(&file, text);
    manifest
        .map(|manifest| manifest.objects)
        .map_err(|broken| format!("line {}: {}", broken.line, broken.message))
}
