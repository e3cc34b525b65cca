//! What clients are told of a limit: the fields of draft-ietf-httpapi-ratelimit-headers-09.

use std::fmt::Write;

use super::Left;

/// The values of `RateLimit-Policy` and `RateLimit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) policy: String,
    pub(crate) left: String,
}

impl Told {
    /// Both fields are lists of strings with parameters (RFC 9651): a policy by its name, with its quota and window; what is left of it, and
    /// for how long.
    pub(crate) fn of(all: &[Left]) -> Self {
        let (mut policy, mut left) = (String::new(), String::new());
        for one in all {
            let (requests, seconds) = (one.window.requests, one.window.seconds);
            let separator = if policy.is_empty() { "" } else { ", " };
            let _ = write!(policy, "{separator}\"{requests}/{seconds}s\";q={requests};w={seconds}");
            let _ = write!(left, "{separator}\"{requests}/{seconds}s\";r={};t={}", one.requests, one.seconds);
        }
        Self { policy, left }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use model::QuotaWindow;

    use super::*;

    #[test]
    fn what_is_told_is_a_list_of_named_policies() {
        let left = |requests, seconds, rest, until| {
            let number = |number| NonZeroU32::new(number).unwrap();
            let window = QuotaWindow { requests: number(requests), seconds: number(seconds) };
            Left { window, requests: rest, seconds: until }
        };
        let told = Told::of(&[left(10, 1, 9, 1), left(100, 60, 0, 37)]);
        assert_eq!(told.policy, r#""10/1s";q=10;w=1, "100/60s";q=100;w=60"#);
        assert_eq!(told.left, r#""10/1s";r=9;t=1, "100/60s";r=0;t=37"#);
    }
}
