//! Texts of objects that are written into heads. None of them can end a line, begin another, or add an
//! attribute to a cookie.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;

/// A text that is invalid in that place of a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct InvalidHeadText {
    text: String,
    what: &'static str,
}

macro_rules! texts {
    ($($(#[doc = $doc:literal])* $name:ident, $what:literal, $is_allowed:expr;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, PartialEq, Eq, Hash, Serialize)]
            pub struct $name(Box<str>);

            impl $name {
                /// Checks a text.
                ///
                /// # Errors
                ///
                /// The text is empty or has a character that is not allowed.
                pub fn new(text: &str) -> Result<Self, InvalidHeadText> {
                    let is_allowed: fn(u8) -> bool = $is_allowed;
                    if text.is_empty() || !text.bytes().all(is_allowed) {
                        return Err(InvalidHeadText { text: text.to_owned(), what: $what });
                    }
                    Ok(Self(text.into()))
                }
            }

            impl Deref for $name {
                type Target = str;

                fn deref(&self) -> &str {
                    &self.0
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(self)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Debug::fmt(&**self, f)
                }
            }
        )*
    };
}

texts! {
    /// A value of a header, or a part of one (RFC 9110 section 5.5): no control characters.
    HeadText, "value that a header can have", |byte| byte == b'\t' || !byte.is_ascii_control();
    /// The name of a header (RFC 9110 section 5.1: a token).
    HeaderName, "name of a header", |byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    /// The name or an attribute of a cookie (RFC 6265 section 4.1.1): no control characters, and no
    /// semicolon.
    CookieText, "text that a cookie can have", |byte| !byte.is_ascii_control() && byte != b';';
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_a_line() {
        for text in ["", "a\rb", "a\nb", "a\0b", "a\r\nX-Injected: 1"] {
            assert!(HeadText::new(text).is_err() && CookieText::new(text).is_err(), "{text:?}");
            assert!(HeaderName::new(text).is_err(), "{text:?}");
        }
        assert!(CookieText::new("a; Domain=b").is_err() && HeaderName::new("a:b").is_err());
        assert_eq!(&*HeadText::new("a; b\t\u{e9}").unwrap(), "a; b\t\u{e9}");
        assert_eq!(CookieText::new("/a b").unwrap().to_string(), "/a b");
    }
}
