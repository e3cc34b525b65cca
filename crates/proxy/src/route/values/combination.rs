//! Values of a key's variables that a request has several times: one combination of them at a time.

use model::template::Variable;

/// A variable of a key, and the values that it may have.
pub(crate) struct Choice<'k> {
    pub(crate) variable: &'k Variable,
    /// No two are the same, and there is at most one more than a key may have texts.
    pub(crate) values: Vec<Vec<u8>>,
}

/// One value for each variable that may have several: `number` counts through them, the first choice fastest.
#[derive(Clone, Copy)]
pub(crate) struct Combination<'c> {
    pub(crate) choices: &'c [Choice<'c>],
    pub(crate) number: usize,
}

impl<'c> Combination<'c> {
    pub(crate) fn header(self, name: &str) -> Option<&'c [u8]> {
        self.value(|variable| matches!(variable, Variable::RequestHeader(own) if own == name))
    }

    pub(crate) fn cookie(self, name: &str) -> Option<&'c [u8]> {
        self.value(|variable| matches!(variable, Variable::Cookie(own) if own == name))
    }

    pub(crate) fn argument(self, name: &str) -> Option<&'c [u8]> {
        self.value(|variable| matches!(variable, Variable::Argument(own) if own == name))
    }

    fn value(self, is: impl Fn(&Variable) -> bool) -> Option<&'c [u8]> {
        let mut number = self.number;
        for choice in self.choices {
            let len = choice.values.len().max(1);
            if is(choice.variable) {
                return choice.values.get(number % len).map(Vec::as_slice);
            }
            number /= len;
        }
        None
    }
}
