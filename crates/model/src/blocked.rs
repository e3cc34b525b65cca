use crate::{Expression, StepBudget, TooManySteps};

/// Clients that get nothing at all, whatever they ask for: the answer is 403.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedHeaders {
    /// By `User-Agent` (`block-user-agents`).
    pub user_agents: Vec<ListedValue>,
    /// By `Referer` (`block-referers`).
    pub referers: Vec<ListedValue>,
}

/// A value of a request in a list, as nginx's `map` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedValue {
    /// The whole value, whatever its letter case.
    Exact(String),
    /// Values in which the expression is found.
    Pattern(Expression),
}

impl ListedValue {
    /// Whether it is this value. A header that is missing is empty.
    ///
    /// # Errors
    /// It takes too many steps to find out.
    pub fn takes(&self, value: &[u8], budget: &StepBudget) -> Result<bool, TooManySteps> {
        match self {
            Self::Exact(text) => Ok(text.as_bytes().eq_ignore_ascii_case(value)),
            Self::Pattern(expression) => expression.try_match(value, budget),
        }
    }
}
