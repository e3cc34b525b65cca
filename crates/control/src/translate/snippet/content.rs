//! Replacements of texts in the content of responses: `sub_filter` and the directives beside it.

use model::{Replacement, Replacements};

use super::parse::Directive;
use super::{Fault, Reader};

/// The most texts that one snippet replaces.
const TEXTS_MAX: usize = 32;

/// Whether [`Reader::replacement`] reads a directive.
pub(super) fn is_about_content(name: &str) -> bool {
    matches!(name, "sub_filter" | "sub_filter_last_modified" | "sub_filter_once" | "sub_filter_types")
}

impl Reader<'_> {
    /// Adds a directive about the content of responses.
    pub(super) fn replacement(&self, directive: &Directive) -> Result<(), Fault> {
        let harmless = |fault| Fault { is_harmless: true, ..fault };
        self.add_replacement(directive).map_err(harmless)
    }

    fn add_replacement(&self, directive: &Directive) -> Result<(), Fault> {
        match directive.name.as_str() {
            "sub_filter" => {
                let [from, to] = directive.arguments()?;
                if from.is_empty() || from.contains('$') {
                    return Err(directive.fault("looks for nothing, or for a text with variables"));
                }
                let to = self.template(directive, to)?;
                let mut replacements = self.replacements.borrow_mut();
                if replacements.texts.len() >= TEXTS_MAX {
                    return Err(directive.fault(format!("is one of more than {TEXTS_MAX}")));
                }
                replacements.texts.push(Replacement { from: from.clone(), to });
            }
            "sub_filter_types" => {
                // nginx: "in addition to text/html".
                let types = directive.words.iter().map(|word| word.to_ascii_lowercase());
                self.replacements.borrow_mut().media_types.extend(types);
            }
            name => {
                let is_on = match directive.arguments::<1>()?[0].as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(directive.fault("is neither \"on\" nor \"off\"")),
                };
                let mut replacements = self.replacements.borrow_mut();
                if name == "sub_filter_once" {
                    replacements.once = is_on;
                } else {
                    replacements.keeps_last_modified = is_on;
                }
            }
        }
        Ok(())
    }

    /// The replacements of the snippet; none if it replaces nothing.
    pub(super) fn replacements(&self) -> Option<Replacements> {
        Some(self.replacements.take()).filter(|replacements| !replacements.texts.is_empty())
    }
}
