//! Content codings of responses: by the keys of ingress-nginx for all responses, or by Forebay's own key and
//! annotation, which replace them.

use std::sync::Arc;

use model::{CodingOffer, Compression, ContentCoding, Expression};

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{self, Parsed, set};

annotations! {
    "compression", Location, "", Supported(|s, v| set(&mut s.compression.own, own(v).map(Some))),
        "Codings in order of preference, such as `zstd:3, br:4, gzip`; `off` for none. Replaces `use-gzip` and `enable-brotli`.";
    "decompression", Location, "false", Supported(|s, v| set(&mut s.compression.decodes, value::boolean(v))),
        "Decodes gzip, brotli and zstd in responses for clients that do not accept the endpoint's choice.";
}

/// Settings of content codings.
#[derive(Clone, Debug)]
pub(in crate::translate) struct Settings {
    /// The key `use-gzip` and the keys that belong to it.
    pub(in crate::translate) gzip: OfNginx,
    /// User agents that get no gzip.
    pub(in crate::translate) gzip_disabled: Option<Expression>,
    /// The key `enable-brotli` and the keys that belong to it.
    pub(in crate::translate) brotli: OfNginx,
    /// The codings that replace both, the best first.
    pub(in crate::translate) own: Option<Vec<(ContentCoding, u8)>>,
    pub(in crate::translate) own_types: Arc<[String]>,
    pub(in crate::translate) own_bytes_min: u64,
    pub(in crate::translate) decodes: bool,
}

/// A content coding by the keys of ingress-nginx.
#[derive(Clone, Debug)]
pub(in crate::translate) struct OfNginx {
    pub(in crate::translate) is_on: bool,
    pub(in crate::translate) level: u8,
    pub(in crate::translate) media_types: Arc<[String]>,
    pub(in crate::translate) bytes_min: u64,
}

/// The default media types of ingress-nginx. Its list for brotli begins with another type.
pub(in crate::translate) const TYPES: &str = "application/atom+xml application/javascript application/x-javascript \
    application/json application/rss+xml application/vnd.ms-fontobject application/x-font-ttf \
    application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype image/svg+xml \
    image/x-icon text/css text/javascript text/plain text/x-component";

impl Default for Settings {
    fn default() -> Self {
        let of_nginx = |level, types: &str, bytes_min| OfNginx {
            is_on: false,
            level,
            media_types: split_types(types),
            bytes_min,
        };
        Self {
            gzip: of_nginx(1, TYPES, 256),
            gzip_disabled: None,
            brotli: of_nginx(4, &format!("application/xml+rss {TYPES}"), 20),
            own: None,
            own_types: split_types(TYPES),
            own_bytes_min: 256,
            decodes: false,
        }
    }
}

impl Settings {
    fn compression(&self) -> Compression {
        let offer = |coding, level, media_types: &Arc<[String]>, bytes_min| CodingOffer {
            coding,
            level,
            media_types: Arc::clone(media_types),
            bytes_min,
            is_for_http_1_1: false,
            excluded_agents: None,
        };
        let offers = if let Some(own) = &self.own {
            let (types, bytes_min) = (&self.own_types, self.own_bytes_min);
            own.iter().map(|&(coding, level)| offer(coding, level, types, bytes_min)).collect()
        } else {
            let of_nginx = |coding, of: &OfNginx| offer(coding, of.level, &of.media_types, of.bytes_min);
            let gzip = CodingOffer {
                // The template of ingress-nginx contains "gzip_http_version 1.1".
                is_for_http_1_1: true,
                excluded_agents: self.gzip_disabled.clone(),
                ..of_nginx(ContentCoding::Gzip, &self.gzip)
            };
            // If a client accepts both, brotli takes precedence, as with nginx's module.
            let both =
                [(self.brotli.is_on, of_nginx(ContentCoding::Brotli, &self.brotli)), (self.gzip.is_on, gzip)];
            both.into_iter().filter_map(|(is_on, offer)| is_on.then_some(offer)).collect()
        };
        Compression { offers, decodes: self.decodes }
    }
}

pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let compression = settings.compression();
    if compression != Compression::default() {
        let policy = route.transfer.response.get_or_insert_default();
        policy.compression = Some(Arc::new(compression));
    }
}

/// Parses `off`, or codings with their levels.
pub(in crate::translate) fn own(text: &str) -> Parsed<Vec<(ContentCoding, u8)>> {
    if text.trim() == "off" {
        return Ok(Vec::new());
    }
    let mut taken: Vec<(ContentCoding, u8)> = Vec::new();
    for item in value::list(text) {
        let (name, given) = item.split_once(':').map_or((&*item, None), |(name, level)| (name, Some(level)));
        let (coding, usual, levels) = match name.trim_end() {
            "gzip" => (ContentCoding::Gzip, 5, GZIP_LEVELS),
            "br" => (ContentCoding::Brotli, 4, BROTLI_LEVELS),
            "zstd" => (ContentCoding::Zstd, 3, 1..=19),
            _ => return Err(format!("{item:?} is none of gzip, br and zstd")),
        };
        if taken.iter().any(|&(other, _)| other == coding) {
            return Err(format!("{name} is named twice"));
        }
        taken.push((coding, given.map_or(Ok(usual), |given| level(given.trim_start(), levels))?));
    }
    if taken.is_empty() { Err(format!("{text:?} names no coding; \"off\" is for none")) } else { Ok(taken) }
}

/// Valid compression levels of gzip.
pub(in crate::translate) const GZIP_LEVELS: std::ops::RangeInclusive<u8> = 1..=9;
/// Valid compression levels of brotli.
pub(in crate::translate) const BROTLI_LEVELS: std::ops::RangeInclusive<u8> = 0..=11;

pub(in crate::translate) fn level(text: &str, levels: std::ops::RangeInclusive<u8>) -> Parsed<u8> {
    let level = value::number(text).ok().filter(|level| levels.contains(level));
    level.ok_or_else(|| format!("{text:?} is no level from {} to {}", levels.start(), levels.end()))
}

/// Media types separated by blanks, or `*` for all types. HTML is always included, as with nginx.
pub(in crate::translate) fn media_types(text: &str) -> Parsed<Arc<[String]>> {
    let is_type = |word: &&str| {
        let is_token = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        **word == *"*" || word.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
    };
    match text.split_whitespace().find(|word| !is_type(word)) {
        Some(wrong) => Err(format!("{wrong:?} is no media type such as text/css")),
        None => Ok(split_types(text)),
    }
}

fn split_types(text: &str) -> Arc<[String]> {
    let named = text.split_whitespace().map(str::to_ascii_lowercase);
    std::iter::once("text/html".to_owned()).chain(named.filter(|name| name != "text/html")).collect()
}

/// Parses nginx's `gzip_disable`: an expression about user agents in any letter case, or its word for old
/// browsers.
pub(in crate::translate) fn gzip_disabled(text: &str) -> Parsed<Option<Expression>> {
    // nginx's documentation: "The special mask msie6 corresponds to MSIE [4-6]\., but works faster". It
    // excludes "MSIE 6.0; ... SV1".
    let pattern = if text.trim() == "msie6" { r"MSIE [4-6]\.(?!.*SV1)" } else { text };
    Expression::anywhere(pattern)
        .map(Some)
        .map_err(|why| format!("{text:?} is no regular expression that can be used: {why}"))
}

#[cfg(test)]
mod tests {
    use model::ContentCoding::{Brotli, Gzip, Zstd};
    use model::StepBudget;

    use super::*;

    #[test]
    fn codings_have_an_order_and_levels() {
        assert_eq!(own("zstd:3, br:11, gzip:1"), Ok(vec![(Zstd, 3), (Brotli, 11), (Gzip, 1)]));
        assert_eq!(own("gzip,br : 0,zstd"), Ok(vec![(Gzip, 5), (Brotli, 0), (Zstd, 3)]));
        assert_eq!(own(" off "), Ok(Vec::new()));
        for text in [
            "",
            ",",
            "deflate",
            "gzip:0",
            "gzip:10",
            "br:12",
            "zstd:20",
            "gzip:",
            "gzip:x",
            "gzip, gzip:2",
            "off, gzip",
        ] {
            assert!(own(text).is_err(), "{text}");
        }
    }

    #[test]
    fn html_is_always_among_the_types() {
        assert_eq!(*media_types("text/css  Text/HTML\n*").unwrap(), ["text/html", "text/css", "*"]);
        for text in ["text", "text/", "/css", "text/css;", "text/css, text/html"] {
            assert!(media_types(text).is_err(), "{text}");
        }
    }

    #[test]
    fn old_browsers_are_told_from_later_ones() {
        let is_old = |named: &str, agent: &[u8]| {
            gzip_disabled(named).unwrap().unwrap().try_match(agent, &StepBudget::default()).unwrap()
        };
        assert!(is_old("msie6", b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"));
        assert!(!is_old("msie6", b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"));
        assert!(!is_old("msie6", b"Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.1)"));
        assert!(is_old("curl/7", b"CURL/7.1"));
        assert!(gzip_disabled("(").is_err());
    }

    #[test]
    fn brotli_comes_before_gzip_and_ours_in_place_of_both() {
        let mut settings = Settings::default();
        assert_eq!(settings.compression(), Compression::default());
        (settings.gzip.is_on, settings.brotli.is_on) = (true, true);
        let codings = |settings: &Settings| {
            let offers = settings.compression().offers;
            offers.iter().map(|offer| (offer.coding, offer.level, offer.bytes_min)).collect::<Vec<_>>()
        };
        assert_eq!(codings(&settings), [(Brotli, 4, 20), (Gzip, 1, 256)]);
        settings.own = Some(own("zstd, gzip:9").unwrap());
        assert_eq!(codings(&settings), [(Zstd, 3, 256), (Gzip, 9, 256)]);
        settings.own = Some(Vec::new());
        assert_eq!(settings.compression(), Compression::default());
    }
}
