//! Header fields as positions in the buffer that they arrived in.

use std::ops::Range;

/// A header field: where its line, name and value stand in the head's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte of the line, which is the first of the name.
    pub start: u32,
    /// Byte after the line's CRLF.
    pub end: u32,
    /// Bytes of the name.
    pub name_len: u16,
    /// Which field it is, if it is one that a proxy has to know.
    pub known: Known,
    /// Whether the name consists of letters, digits and dashes only.
    pub plain_name: bool,
    /// First byte of the value, white space around it left out.
    pub value_start: u32,
    /// Byte after the value.
    pub value_end: u32,
}

impl Field {
    /// Name, as it was sent.
    pub fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.start as usize..self.start as usize + usize::from(self.name_len)]
    }

    /// Value, without the white space around it.
    pub fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.value_start as usize..self.value_end as usize]
    }

    /// The whole line with its CRLF.
    pub fn line(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether the line says a number in just one way: a space before it, no zeros in front, nothing behind. Of any other form
    /// two readers may make two things.
    pub fn is_plain_number(&self, head: &[u8]) -> bool {
        let before = self.start as usize + usize::from(self.name_len)..self.value_start as usize;
        let is_short = self.value_end + 2 == self.end;
        is_short && &head[before] == b": " && matches!(self.value(head), [b'0'] | [b'1'..=b'9', ..])
    }
}

/// The bytes of a text of this length.
const fn array_of<const LEN: usize>(text: &str) -> [u8; LEN] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("the text is shorter"),
    }
}

/// Whether a token is `lower`, which has letters in lower case and dashes. The bit of the letter case tells no two bytes of a token
/// apart but letters. Words are compared, of which the last two may overlap.
fn is_in_any_case<const LEN: usize>(token: &[u8], lower: &[u8; LEN]) -> bool {
    const WORD: usize = size_of::<u64>();
    let differ = |at: usize| match (token[at..].first_chunk(), lower[at..].first_chunk()) {
        (Some(token), Some(lower)) => {
            (u64::from_le_bytes(*token) | 0x2020_2020_2020_2020) ^ u64::from_le_bytes(*lower)
        }
        _ => 1,
    };
    if token.len() != LEN {
        return false;
    }
    if LEN < WORD {
        return token.eq_ignore_ascii_case(lower);
    }
    let all = (0..LEN - WORD).step_by(WORD).fold(differ(LEN - WORD), |all, at| all | differ(at));
    all == 0
}

/// Names with their variants: one entry per field that a proxy looks at.
macro_rules! known {
    ($($variant:ident = $name:literal,)*) => {
        /// Fields that a proxy has to know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Known {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// Any other field.
            Other,
        }

        impl Known {
            /// How many there are, without [`Other`](Self::Other).
            pub const COUNT: usize = Self::Other as usize;

            const ALL: [(Self, &'static str); Self::COUNT] = [$((Self::$variant, $name),)*];

            /// Recognises a name, which must be a token (RFC 9110 section 5.6.2), whatever its letter case.
            pub fn of(name: &[u8]) -> Self {
                // The length rules out nearly all candidates before a byte is compared.
                match name.len() {
                    $(len if len == $name.len() && {
                        const LOWER: [u8; $name.len()] = array_of($name);
                        is_in_any_case(name, &LOWER)
                    } => Self::$variant,)*
                    _ => Self::Other,
                }
            }

            /// Recognises the field that a program may take a name for that is spelled with other signs than
            /// dashes; see [`is_alike`].
            #[cold]
            pub fn alike(name: &[u8]) -> Self {
                let mut all = Self::ALL.into_iter();
                all.find(|(_, known)| is_alike(name, known.as_bytes())).map_or(Self::Other, |(known, _)| known)
            }
        }
    };
}

known! {
    Host = "host",
    Connection = "connection",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    Proxy = "proxy",
    Te = "te",
    Trailer = "trailer",
    TransferEncoding = "transfer-encoding",
    ContentLength = "content-length",
    Upgrade = "upgrade",
    Expect = "expect",
    Date = "date",
    Server = "server",
    XRequestId = "x-request-id",
    XRealIp = "x-real-ip",
    XForwardedFor = "x-forwarded-for",
    XForwardedHost = "x-forwarded-host",
    XForwardedPort = "x-forwarded-port",
    XForwardedProto = "x-forwarded-proto",
    XForwardedScheme = "x-forwarded-scheme",
    XScheme = "x-scheme",
    XOriginalUri = "x-original-uri",
    XOriginalForwardedFor = "x-original-forwarded-for",
    XOriginalForwardedHost = "x-original-forwarded-host",
    SslClientVerify = "ssl-client-verify",
    SslClientSubjectDn = "ssl-client-subject-dn",
    SslClientIssuerDn = "ssl-client-issuer-dn",
    SslClientCert = "ssl-client-cert",
    StrictTransportSecurity = "strict-transport-security",
}

/// Whether programs may take two names for the same one. CGI (RFC 3875 section 4.1.18), WSGI and Rack give a
/// header to an application as a variable of its environment: letter case is lost, and an underscore or
/// another sign stands where there was a dash.
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' };
    one.len() == other.len() && one.iter().zip(other).all(|(&one, &other)| plain(one) == plain(other))
}

/// The elements of a comma-separated list (RFC 9110 section 5.6.1), empty ones left out.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_in_any_case() {
        assert_eq!(Known::of(b"HOST"), Known::Host);
        assert_eq!(Known::of(b"Transfer-Encoding"), Known::TransferEncoding);
        assert_eq!(Known::of(b"x-other"), Known::Other);
        assert_eq!(Known::of(b""), Known::Other);
    }

    #[test]
    fn every_name_is_found_and_nothing_near_it() {
        for (known, name) in Known::ALL {
            assert_eq!(Known::of(name.to_ascii_uppercase().as_bytes()), known);
            assert_eq!(Known::alike(name.to_ascii_uppercase().replace('-', "_").as_bytes()), known);
            for other in [name[1..].to_owned(), format!("{name}x"), format!("_{name}")] {
                assert_eq!(Known::of(other.as_bytes()), Known::Other, "{other}");
                assert_eq!(Known::alike(other.as_bytes()), Known::Other, "{other}");
            }
        }
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        let elements: Vec<&[u8]> = list(b" close , ,x-a,").collect();
        assert_eq!(elements, [&b"close"[..], b"x-a"]);
    }
}
