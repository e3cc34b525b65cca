use crate::Expression;

/// Clients that get nothing at all, whatever they ask for: the answer is 403.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedHeaders {
    /// By `User-Agent` (`block-user-agents`).
    pub user_agents: Vec<BlockedValue>,
    /// By `Referer` (`block-referers`).
    pub referers: Vec<BlockedValue>,
}

/// A value of a header that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedValue {
    /// The whole value, whatever its letter case.
    Exact(String),
    /// A value in which the expression is found. Where that takes too many steps, it counts as found.
    Pattern(Expression),
}

impl BlockedValue {
    /// Whether a client with this value is refused. A header that is missing is empty.
    pub fn blocks(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes().eq_ignore_ascii_case(value),
            Self::Pattern(expression) => expression.try_match(value).unwrap_or(true),
        }
    }
}
