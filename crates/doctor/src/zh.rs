//! The Chinese texts of the checks.

/// English patterns and their translations, sorted by the former.
pub(crate) const CATALOGUE: &[(&str, &str)] = &[];
