//! Missing rights: the API server's refusals, and the right that each needs.

use std::error::Error;

use http::StatusCode;

/// Something that a user asks the API server for.
pub(super) struct Right<'a> {
    /// As in `list`.
    pub(super) verbs: &'a str,
    /// As in `pods/log`.
    pub(super) resource: &'a str,
    /// None for all namespaces.
    pub(super) namespace: Option<&'a str>,
    /// The alternative without the right.
    pub(super) instead: &'a str,
}

impl Right<'_> {
    /// Why the API server at a URL did not do it, in one line.
    pub(super) fn refusal(&self, error: &kube::Error, url: &str) -> anyhow::Error {
        let kube::Error::Api(status) = error else {
            return anyhow::anyhow!("cannot ask the API server at {url}: {}", causes(error));
        };
        let code = StatusCode::from_u16(status.code).unwrap_or_default();
        let said = status.message.trim_end();
        match code {
            StatusCode::UNAUTHORIZED => {
                anyhow::anyhow!("{url} does not know the user of this kubeconfig: {said}")
            }
            StatusCode::FORBIDDEN => anyhow::anyhow!("{url} refuses: {said}; {}", self.needed()),
            _ => anyhow::anyhow!("{url} says {}: {said}", status.code),
        }
    }

    /// The Role or `ClusterRole` that would permit it.
    fn needed(&self) -> String {
        let Self { verbs, resource, namespace, instead } = self;
        match namespace {
            Some(namespace) => {
                format!("it takes a Role in namespace {namespace} with {verbs} on {resource}; {instead}")
            }
            None => format!("it takes a ClusterRole with {verbs} on {resource}; {instead}"),
        }
    }
}

/// An error with its causes, except for those that its text contains already.
fn causes(error: &kube::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_told = cause.to_string();
        if !told.contains(&cause_told) {
            told = format!("{told}: {cause_told}");
        }
        next = cause.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn the_right_that_is_missing_is_named() {
        let refused = |code: u16, namespace| {
            let status = Status { code, message: "said".to_owned(), ..Status::default() };
            let right =
                Right { verbs: "get", resource: "pods/log", namespace, instead: "status needs no logs" };
            right.refusal(&kube::Error::Api(Box::new(status)), "https://a.test").to_string()
        };
        assert_eq!(
            refused(403, Some("shop")),
            "https://a.test refuses: said; it takes a Role in namespace shop with get on pods/log; status needs no logs"
        );
        assert!(refused(403, None).contains("it takes a ClusterRole with get on pods/log"));
        assert!(refused(401, None).contains("does not know the user"));
        assert_eq!(refused(500, None), "https://a.test says 500: said");
    }
}
