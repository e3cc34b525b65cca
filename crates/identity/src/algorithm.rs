//! The algorithms of signatures (RFC 7518 section 3.1, RFC 8037 section 3.1). `none` is not one of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// An algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// ECDSA with P-521 and SHA-512.
    Es512,
    /// Ed25519. RFC 9864 calls it `Ed25519`, and RFC 8037 `EdDSA`.
    EdDsa,
    /// HMAC with SHA-256, for a secret that issuer and verifier share.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

/// The kind of key that an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An RSA key.
    Rsa,
    /// A point on P-256.
    P256,
    /// A point on P-384.
    P384,
    /// A point on P-521.
    P521,
    /// A key of Ed25519.
    Ed25519,
    /// A secret of issuer and verifier.
    Secret,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::EdDsa,
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
    ];

    /// The algorithm of this name. Names are case-sensitive.
    pub fn parse(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        known.or((name == "Ed25519").then_some(Self::EdDsa))
    }

    /// Its name in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }

    /// The kind of key that it needs. No algorithm takes keys of two kinds, so that a public key is never
    /// taken for a secret.
    pub fn kind(self) -> Kind {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => Kind::Rsa,
            Self::Es256 => Kind::P256,
            Self::Es384 => Kind::P384,
            Self::Es512 => Kind::P521,
            Self::EdDsa => Kind::Ed25519,
            Self::Hs256 | Self::Hs384 | Self::Hs512 => Kind::Secret,
        }
    }

    /// Whether issuer and verifier share a secret.
    pub fn is_symmetric(self) -> bool {
        self.kind() == Kind::Secret
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Algorithms(u16);

impl Algorithms {
    /// All algorithms that have a public key.
    pub const ASYMMETRIC: Self = Self(0b11_1111_1111);

    /// Whether the set has this algorithm.
    pub fn contains(self, algorithm: Algorithm) -> bool {
        self.0 & (1 << algorithm as u8) != 0
    }

    /// The algorithms of the set.
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        Algorithm::ALL.into_iter().filter(move |&algorithm| self.contains(algorithm))
    }
}

impl FromIterator<Algorithm> for Algorithms {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        Self(algorithms.into_iter().fold(0, |bits, algorithm| bits | (1 << algorithm as u8)))
    }
}

impl Default for Algorithms {
    fn default() -> Self {
        Self::ASYMMETRIC
    }
}

impl Serialize for Algorithms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Algorithm::name))
    }
}

impl fmt::Debug for Algorithms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter().map(Algorithm::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::parse(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::parse("Ed25519"), Some(Algorithm::EdDsa));
        for unknown in ["none", "None", "NONE", "", "rs256", "HS256 ", "ES256K", "RSA-OAEP", "HS1"] {
            assert_eq!(Algorithm::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn no_secret_is_allowed_by_default() {
        let default = Algorithms::default();
        assert_eq!(default.iter().count(), 10);
        assert!(Algorithm::ALL.iter().all(|&one| default.contains(one) != one.is_symmetric()));
        let some: Algorithms = [Algorithm::Es256, Algorithm::Hs512].into_iter().collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), [Algorithm::Es256, Algorithm::Hs512]);
    }
}
