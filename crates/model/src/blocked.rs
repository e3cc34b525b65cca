use serde::Serialize;

use crate::{Expression, StepBudget, TooManySteps};

/// Clients that are refused whatever they request: the answer is 403.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockedHeaders {
    /// By `User-Agent` (`block-user-agents`).
    pub user_agents: Vec<ListedValue>,
    /// By `Referer` (`block-referers`).
    pub referers: Vec<ListedValue>,
}

/// A value of a request in a list, as nginx's `map` has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ListedValue {
    /// The whole value, whatever its letter case.
    Exact(String),
    /// Values in which the expression matches.
    Pattern(Expression),
}

impl ListedValue {
    /// Whether the value matches. A missing header counts as empty.
    ///
    /// # Errors
    ///
    /// The expression exceeds its budget of steps.
    pub fn takes(&self, value: &[u8], budget: &StepBudget) -> Result<bool, TooManySteps> {
        match self {
            Self::Exact(text) => Ok(text.as_bytes().eq_ignore_ascii_case(value)),
            Self::Pattern(expression) => expression.try_match(value, budget),
        }
    }
}
