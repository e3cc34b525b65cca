//! Values to which later versions of the Gateway API may add more. An unknown value is no error of the
//! object: the value is stored, and a condition reports it.

/// Declares an enum of texts with a variant for all other texts. The first variant is the default.
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
            /// The text of the value in the API.
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
    /// The protocol of a listener.
    Protocol { Http = "HTTP", Https = "HTTPS", Tls = "TLS", Tcp = "TCP", Udp = "UDP", }
    /// The place where TLS ends: at the Gateway or at the backend.
    TlsMode { Terminate, Passthrough, }
    /// The namespaces for which a listener allows routes, or a Gateway allows listeners.
    FromNamespaces { Same, All, Selector, None, }
    /// The comparison of a path.
    PathMatchType { PathPrefix, Exact, RegularExpression, }
    /// The comparison of a header or a parameter.
    ValueMatchType { Exact, RegularExpression, }
    /// The type of a filter.
    FilterType {
        RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, RequestMirror, CORS = "CORS", ExternalAuth, DirectResponse, ExtensionRef,
    }
    /// The kind of a path's change.
    PathModifierType { ReplaceFullPath, ReplacePrefixMatch, }
    /// The form of an address.
    AddressType { IPAddress, Hostname, NamedAddress, }
    /// The place where a client keeps its session.
    SessionType { Cookie, Header, }
    /// The lifetime of a cookie.
    CookieLifetime { Session, Permanent, }
    /// The handling of a client without a valid certificate.
    ValidationMode { AllowValidOnly, AllowInsecureFallback, }
    /// The comparison of a label.
    SelectorOperator { In, NotIn, Exists, DoesNotExist, }
    /// The kind of an alternative name of a certificate.
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
