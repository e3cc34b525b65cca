//! Properties that must hold for every expression and every text. The fuzz target and the smoke test call the
//! same function.

use model::{Expression, StepBudget, TooManySteps};

/// The first line of the input is an expression, the rest is what a client sends. No input causes a panic,
/// groups are within the text, and the search by prefix finds what the full search finds.
pub(crate) fn expression(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (expression, text) = (&input[..end], &input[(end + 1).min(input.len())..]);
    let Ok(expression) = std::str::from_utf8(expression) else { return };
    for made in
        [Expression::anywhere(expression), Expression::case_sensitive(expression)].into_iter().flatten()
    {
        check(&made, text);
    }
    let Ok(at_start) = Expression::at_start(expression) else { return };
    check(&at_start, text);
    let anywhere = Expression::anywhere(&format!("^{expression}")).expect("it is the same expression");
    // One of the two may take a few steps more.
    if let (Ok(one), Ok(other)) = (try_match(&at_start, text), try_match(&anywhere, text)) {
        assert_eq!(one, other, "{expression:?}");
    }
}

fn try_match(expression: &Expression, text: &[u8]) -> Result<bool, TooManySteps> {
    expression.try_match(text, &StepBudget::default())
}

fn check(expression: &Expression, text: &[u8]) {
    let Ok(captures) = expression.captures(text, &StepBudget::default()) else { return };
    assert_eq!(Ok(captures.is_some()), try_match(expression, text), "{:?}", expression.as_str());
    let found = captures.iter().flat_map(|captures| (0..=9).filter_map(|group| captures.get(group)));
    for range in found {
        assert!(text.get(range.clone()).is_some(), "{:?}: {range:?}", expression.as_str());
    }
}
