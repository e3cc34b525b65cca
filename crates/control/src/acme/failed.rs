//! Why an order fails, as the steps after it need to know.

use instant_acme::Error;

use super::http::Refusal;

/// Why there is no certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Failed {
    pub(super) why: String,
    /// The authority's wish, in seconds.
    pub(super) retry_after: Option<i64>,
    /// The authority is overloaded, whatever it is asked for.
    pub(super) is_busy: bool,
    /// The order cannot be taken up again.
    pub(super) ends_order: bool,
    /// The authority does not know the account, so that another one has to be made.
    pub(super) ends_account: bool,
    /// The authority did not accept a nonce, and does so with another one.
    pub(super) is_of_nonce: bool,
}

impl Failed {
    pub(super) fn of_store(why: &str) -> Self {
        Self { why: format!("nothing can be stored: {why}"), ..Self::default() }
    }

    pub(super) fn of_key(error: &rcgen::Error) -> Self {
        Self { why: format!("no key can be used: {error}"), ends_order: true, ..Self::default() }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => {
                let kind = problem.r#type.as_deref().unwrap_or_default();
                let kind = kind.rsplit(':').next().unwrap_or_default();
                let is_of_nonce = kind == "badNonce";
                let detail = problem.detail.clone().unwrap_or_else(|| kind.to_owned());
                let parts = problem.subproblems.iter().filter_map(|part| part.detail.as_deref());
                let why = std::iter::once(detail.as_str()).chain(parts).collect::<Vec<_>>().join("; ");
                let ends_account = kind == "accountDoesNotExist";
                Self { why, ends_order: !is_of_nonce, ends_account, is_of_nonce, ..Self::default() }
            }
            Error::Timeout(_) => {
                Self { why: "the authority has not finished in time".to_owned(), ..Self::default() }
            }
            Error::Other(other) => match other.downcast::<Refusal>() {
                Ok(refusal) => Self {
                    why: refusal.to_string(),
                    retry_after: refusal.retry_after,
                    is_busy: true,
                    ..Self::default()
                },
                Err(other) => Self { why: other.to_string(), ..Self::default() },
            },
            other => Self { why: other.to_string(), ..Self::default() },
        }
    }
}
