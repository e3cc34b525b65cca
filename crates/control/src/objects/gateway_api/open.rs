//! Values of which later versions of the Gateway API may have more. A value that is not known is no error of the object: it is kept, and
//! a condition says so.

/// Declares an enum of texts with a variant for all others. The first variant is the default.
macro_rules! open {
    ($($(#[$doc:meta])* $name:ident { $first:ident $(= $first_text:literal)?, $($variant:ident $(= $text:literal)?,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            #[doc = concat!("`", stringify!($first), "`, the default.")]
            #[default]
            $first,
            $(#[doc = concat!("`", stringify!($variant), "`.")] $variant,)*
            /// A value that is not known.
            Other(Box<str>),
        }

        impl $name {
            /// The value as it is written.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::$first => text!($first $($first_text)?),
                    $(Self::$variant => text!($variant $($text)?),)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                [Self::$first, $(Self::$variant,)*]
                    .into_iter()
                    .find(|known| known.as_str() == text)
                    .unwrap_or_else(|| Self::Other(text.into()))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
                let text = Option::<String>::deserialize(de)?;
                Ok(text.map_or_else(Self::default, |text| text.as_str().into()))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )*};
}

macro_rules! text {
    ($variant:ident) => {
        stringify!($variant)
    };
    ($variant:ident $text:literal) => {
        $text
    };
}

open! {
    /// What a listener speaks.
    Protocol { Http = "HTTP", Https = "HTTPS", Tls = "TLS", Tcp = "TCP", Udp = "UDP", }
    /// Who ends TLS.
    TlsMode { Terminate, Passthrough, }
    /// The namespaces that something is allowed for.
    FromNamespaces { Same, All, Selector, None, }
    /// How a path is compared.
    PathMatchType { PathPrefix, Exact, RegularExpression, }
    /// How a value is compared.
    ValueMatchType { Exact, RegularExpression, }
    /// What a filter does.
    FilterType {
        RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, RequestMirror, CORS = "CORS", ExternalAuth, ExtensionRef,
    }
    /// How a path is changed.
    PathModifierType { ReplaceFullPath, ReplacePrefixMatch, }
    /// How an address is written.
    AddressType { IPAddress, Hostname, NamedAddress, }
    /// Where a session is kept.
    SessionType { Cookie, Header, }
    /// How long a cookie lives.
    CookieLifetime { Session, Permanent, }
    /// What becomes of a client without a valid certificate.
    ValidationMode { AllowValidOnly, AllowInsecureFallback, }
    /// How labels are compared.
    SelectorOperator { In, NotIn, Exists, DoesNotExist, }
    /// What an alternative name of a certificate is.
    SubjectAltNameType { Hostname, Uri = "URI", }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_later_version_is_kept() {
        let read = |text: &str| serde_json::from_str::<Protocol>(text).unwrap();
        assert_eq!(read("\"HTTPS\""), Protocol::Https);
        assert_eq!(read("null"), Protocol::Http);
        assert_eq!(read("\"QUIC\""), Protocol::Other("QUIC".into()));
        assert_eq!(serde_json::to_string(&read("\"QUIC\"")).unwrap(), "\"QUIC\"");
    }
}
