//! Values of actions and directives: numbers, and texts with macros.
//!
//! Never in here: the action that has the value.

use crate::tables::Names;
use crate::template::Template;

/// A text with macros.
pub(super) fn template(text: &str, names: &mut Names) -> Result<Template, String> {
    Template::parse(text, names).map_err(|(_, message)| message)
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number in range"))
}
