//! Names of routes and streams in metrics and logs. Must not be in here: how they are recorded.

use std::fmt;

use serde::{Serialize, Serializer};

/// The labels of a route in metrics, in the access log and on the configuration page.
///
/// There may be 100,000 of them: the texts are one allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels {
    /// The texts in the order of [`LabelTexts`], without anything between them.
    text: Box<str>,
    /// The ends of all texts but the last one.
    ends: [u32; 6],
}

/// The texts that [`Labels`] are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LabelTexts {
    /// Namespace of the object that defines the route.
    pub namespace: String,
    /// Name of the object that defines the route.
    pub object: String,
    /// Service that the route forwards to, or empty.
    pub service: String,
    /// Port of that Service, as the object names it, or empty.
    pub service_port: String,
    /// The path as written.
    pub path: String,
    /// The host as written, or `_`.
    pub host: String,
    /// Name of the rule within the object, or empty: Ingresses have none.
    pub rule: String,
}

impl Labels {
    /// Namespace of the object that defines the route.
    #[inline]
    pub fn namespace(&self) -> &str {
        &self.text[..self.end(0)]
    }

    /// Name of the object that defines the route.
    #[inline]
    pub fn object(&self) -> &str {
        &self.text[self.end(0)..self.end(1)]
    }

    /// Service that the route forwards to, or empty.
    #[inline]
    pub fn service(&self) -> &str {
        &self.text[self.end(1)..self.end(2)]
    }

    /// Port of that Service, as the object names it, or empty.
    #[inline]
    pub fn service_port(&self) -> &str {
        &self.text[self.end(2)..self.end(3)]
    }

    /// The path as written.
    #[inline]
    pub fn path(&self) -> &str {
        &self.text[self.end(3)..self.end(4)]
    }

    /// The host as written, or `_`.
    #[inline]
    pub fn host(&self) -> &str {
        &self.text[self.end(4)..self.end(5)]
    }

    /// Name of the rule within the object, or empty: Ingresses have none.
    #[inline]
    pub fn rule(&self) -> &str {
        &self.text[self.end(5)..]
    }

    /// All texts, to be changed or to be moved elsewhere.
    pub fn texts(&self) -> LabelTexts {
        LabelTexts {
            namespace: self.namespace().to_owned(),
            object: self.object().to_owned(),
            service: self.service().to_owned(),
            service_port: self.service_port().to_owned(),
            path: self.path().to_owned(),
            host: self.host().to_owned(),
            rule: self.rule().to_owned(),
        }
    }

    #[inline]
    fn end(&self, text: usize) -> usize {
        self.ends[text] as usize
    }
}

impl From<LabelTexts> for Labels {
    fn from(texts: LabelTexts) -> Self {
        let LabelTexts { namespace, object, service, service_port, path, host, rule } = &texts;
        let mut end = 0;
        let ends = [namespace, object, service, service_port, path, host].map(|text| {
            end += text.len() as u32;
            end
        });
        Self {
            text: [namespace, object, service, service_port, path, host, rule]
                .map(|text| &**text)
                .concat()
                .into(),
            ends,
        }
    }
}

impl Default for Labels {
    fn default() -> Self {
        LabelTexts::default().into()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().fmt(f)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.texts().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_found_again() {
        let text = |text: &str| text.to_owned();
        let texts = LabelTexts {
            namespace: text("shop"),
            object: text("web"),
            service: String::new(),
            service_port: text("80"),
            path: text("/straße"),
            host: text("a.test"),
            rule: text("first"),
        };
        let labels = Labels::from(texts.clone());
        assert_eq!(labels.texts(), texts);
        assert_eq!((labels.service(), labels.path(), labels.rule()), ("", "/straße", "first"));
        assert_eq!(Labels::default().texts(), LabelTexts::default());
        let moved = LabelTexts { service: text("80"), service_port: String::new(), ..texts };
        assert_ne!(labels, Labels::from(moved), "the same characters in another label");
    }
}
