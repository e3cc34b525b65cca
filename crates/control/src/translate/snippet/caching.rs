//! The directives `proxy_cache_*` in the form of Forebay's own annotations.

use super::table::Target::Own;
use super::table::{Asked, single};

/// Reads the name of a zone, which is the whole memory of the cache here.
pub(super) fn cache_on(words: &[String]) -> Asked {
    single(words)?;
    Ok(vec![(Own("cache"), "true".to_owned())])
}

/// Reads variables of which one that is neither empty nor `0` has the cache left out.
pub(super) fn cache_bypass(words: &[String]) -> Asked {
    let mut items = Vec::new();
    for word in words {
        let (cookie, header) = (word.strip_prefix("$cookie_"), word.strip_prefix("$http_"));
        match (cookie, header) {
            // Copied with the lines for WebSocket, which no cache sees.
            (_, Some("upgrade")) => {}
            (Some(name), _) => items.push(format!("cookie:{name}")),
            (_, Some(name)) => items.push(format!("header:{}", name.replace('_', "-"))),
            _ => return Err(format!("has {word:?}; cookies and headers alone are understood")),
        }
    }
    Ok(if items.is_empty() { Vec::new() } else { vec![(Own("cache-bypass"), items.join(","))] })
}

/// Reads a key that is made of the parts of the URL, as the cache's own is.
pub(super) fn cache_key(words: &[String]) -> Asked {
    const OF_URL: &[&str] = &[
        "args",
        "host",
        "http_host",
        "is_args",
        "proxy_host",
        "query_string",
        "request_method",
        "request_uri",
        "scheme",
        "server_name",
        "uri",
    ];
    let key = single(words)?;
    let names = key.split('$').skip(1).map(|rest| rest.trim_start_matches('{'));
    let names =
        names.map(|rest| rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next());
    match names.flatten().find(|name| !OF_URL.contains(name)) {
        None => Ok(Vec::new()),
        Some(name) => Err(format!(
            "has ${name}; the key is the URL and what Vary names, and forebay.io/cache-bypass leaves cookies out"
        )),
    }
}

/// Reads `[CODE ...] TIME`. The time counts for what has been found; errors are cached as they say
/// themselves.
pub(super) fn cache_valid(words: &[String]) -> Asked {
    let [codes @ .., time] = words else { return Err("has no time".to_owned()) };
    let counts = codes.is_empty() || codes.iter().any(|code| code == "200" || code == "any");
    let text = time.as_str();
    let time = model::parse_duration(text).map_err(|_| format!("has {text:?}, which is no time"))?;
    Ok(if counts { vec![(Own("cache-default-ttl"), time.as_secs().to_string())] } else { Vec::new() })
}

/// Reads the cases in which a stale response is given. nginx keeps one for ten minutes by default.
#[expect(clippy::unnecessary_wraps, reason = "the table has readers of one form")]
pub(super) fn cache_use_stale(words: &[String]) -> Asked {
    const SECONDS: &str = "600";
    let is_fault = |word: &String| matches!(word.as_str(), "error" | "timeout") || word.starts_with("http_5");
    let mut asked = Vec::new();
    if words.iter().any(is_fault) {
        asked.push((Own("cache-stale-if-error"), SECONDS.to_owned()));
    }
    if words.iter().any(|word| word == "updating") {
        asked.push((Own("cache-stale-while-revalidate"), SECONDS.to_owned()));
    }
    Ok(asked)
}
