//! Lists of values in the form of nginx's `map`.

use model::{Expression, InvalidPattern, ListedValue};

use super::value;

/// Parses values in the form of nginx's `map`: whole values, and expressions after `~` or, without
/// distinction of letter case, `~*`.
pub(super) fn listed_values(text: &str) -> value::Parsed<Vec<ListedValue>> {
    let pattern = |made: Result<Expression, InvalidPattern>, item: &str| {
        made.map(ListedValue::Pattern)
            .map_err(|why| format!("{item:?} is no regular expression that can be used: {why}"))
    };
    let listed = |item: &str| match item.strip_prefix('~').map(|rest| (rest, rest.strip_prefix('*'))) {
        Some((_, Some(either))) => pattern(Expression::anywhere(either), item),
        Some((as_written, None)) => pattern(Expression::case_sensitive(as_written), item),
        None => Ok(ListedValue::Exact(item.to_owned())),
    };
    value::list(text).iter().map(|item| listed(unquoted(item))).collect()
}

/// A value without the quotes that nginx needs around spaces.
fn unquoted(item: &str) -> &str {
    let within = |quote: char| item.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(item)
}
