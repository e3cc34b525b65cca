//! Changes to headers (Gateway API: `RequestHeaderModifier`, `ResponseHeaderModifier`).

use model::HeaderChanges;

use crate::request::head::HeadEdits;

/// Applies the changes to headers whose names `counts` accepts.
pub(crate) fn apply<'e>(
    changes: &'e HeaderChanges,
    counts: impl Fn(&str) -> bool,
    edits: &mut HeadEdits<'e>,
) {
    for (name, value) in changes.set().iter().filter(|(name, _)| counts(name)) {
        edits.forget_additions(name);
        edits.set(name, value.as_bytes());
    }
    for (name, value) in changes.add() {
        edits.add(name, value.as_bytes());
    }
    for name in changes.remove() {
        edits.forget_additions(name);
        edits.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_changes_count_for_earlier_ones_too() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let first =
            HeaderChanges::new(vec![pair("a", "1")], vec![pair("b", "1"), pair("c", "1")], Vec::new());
        let second = HeaderChanges::new(vec![pair("B", "2")], vec![pair("a", "2")], vec!["C".to_owned()]);
        let (first, second) = (first.unwrap(), second.unwrap());
        let mut edits = HeadEdits::default();
        apply(&first, |_| true, &mut edits);
        apply(&second, |_| true, &mut edits);
        assert_eq!(edits.lines(), ["a: 1", "B: 2", "a: 2", "C"]);
    }
}
