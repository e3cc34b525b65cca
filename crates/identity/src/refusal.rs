//! The reasons why a token is not accepted.

/// Why a token does not let its client in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// It is no signed token in the compact form, or says one thing twice.
    Malformed,
    /// It is longer than [`TOKEN_BYTES_MAX`](crate::limits::TOKEN_BYTES_MAX).
    TooLong,
    /// Its algorithm is unknown or not allowed.
    Algorithm,
    /// Nobody trusts its issuer here.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// It has expired, or does not say when it does.
    Expired,
    /// It is not valid yet, or was issued in the future.
    Early,
    /// Its claims do not satisfy the conditions of its issuer.
    Claims,
    /// The issuer has no such key, as far as is known.
    Key,
    /// Its signature is not the issuer's.
    Signature,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::TooLong,
        Self::Algorithm,
        Self::Issuer,
        Self::Audience,
        Self::Expired,
        Self::Early,
        Self::Claims,
        Self::Key,
        Self::Signature,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Algorithm => "algorithm",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::Early => "early",
            Self::Claims => "claims",
            Self::Key => "key",
            Self::Signature => "signature",
        }
    }

    /// The reason as its client is told (RFC 6750 section 3). Whether a key or a signature is wrong is
    /// nobody's business.
    pub fn description(self) -> &'static str {
        match self {
            Self::Malformed => "The token is malformed",
            Self::TooLong => "The token is too long",
            Self::Algorithm => "The algorithm of the token is not allowed",
            Self::Issuer => "The issuer of the token is not trusted",
            Self::Audience => "The token is for another audience",
            Self::Expired => "The token has expired",
            Self::Early => "The token is not valid yet",
            Self::Claims => "The claims of the token do not suffice",
            Self::Key | Self::Signature => "The signature of the token cannot be verified",
        }
    }
}
