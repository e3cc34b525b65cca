//! Ordinary requests: what browsers, applications and programs send all day, in several languages.
//!
//! Must not be in here: rules.

mod body;
mod random;
mod words;

use super::message::{Header, Message};
use random::Random;
use words::{WORDS, encoded};

/// A request by its number.
pub(super) fn message(seed: u64) -> Message {
    let mut random = Random::new(seed);
    let query = query(&mut random);
    let mut headers = headers(&mut random);
    let body = body::body(&mut random);
    let mut method = "GET";
    if let Some(body) = &body {
        method = random.one(&["POST", "POST", "POST", "PUT", "PATCH"]);
        headers.push(Header::new("Content-Type", &body.kind));
        headers.push(Header::new("Content-Length", &body.content.len().to_string()));
        headers.push(Header::new("Origin", "https://shop.example.com"));
    }
    Message {
        method: method.into(),
        target: format!("{}{query}", random.one(&WORDS.paths)).into_bytes(),
        version: b"HTTP/1.1".to_vec(),
        headers,
        body: body.map(|body| body.content).unwrap_or_default(),
    }
}

fn query(random: &mut Random) -> String {
    match random.below(6) {
        0 | 1 => String::new(),
        2 => format!("?q={}", encoded(random.one(&WORDS.searches))),
        3 => format!("?{}", random.filled_one(&WORDS.tracking)),
        4 => format!("?{}&{}", body::form(random), random.filled_one(&WORDS.tracking)),
        _ => format!("?{}", body::form(random)),
    }
}

fn headers(random: &mut Random) -> Vec<Header> {
    let mut headers = vec![
        Header::new("Host", "shop.example.com"),
        Header::new("User-Agent", random.one(&WORDS.agents)),
        Header::new(
            "Accept",
            random.one(&[
                "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
                "application/json, text/plain, */*",
                "*/*",
                "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
            ]),
        ),
        Header::new("Accept-Language", random.one(&WORDS.languages)),
        Header::new("Accept-Encoding", "gzip, deflate, br, zstd"),
    ];
    let cookies: Vec<_> = (0..random.below(7)).map(|_| random.filled_one(&WORDS.cookies)).collect();
    let optional = [
        ("Cookie", cookies.join("; ")),
        ("Referer", format!("https://shop.example.com{}", random.one(&WORDS.paths))),
        ("Authorization", random.filled("Bearer {jwt}")),
        ("X-Requested-With", "XMLHttpRequest".to_owned()),
        ("If-None-Match", random.filled("W/\"{hex:32}\"")),
        ("traceparent", random.filled("00-{hex:32}-{hex:16}-01")),
        ("X-CSRF-Token", random.filled("{base64:86}==")),
        ("Cache-Control", "no-cache".to_owned()),
        ("Sec-Fetch-Site", "same-origin".to_owned()),
        ("Sec-CH-UA", "\"Chromium\";v=\"126\", \"Not/A)Brand\";v=\"8\"".to_owned()),
    ];
    for (index, (name, value)) in optional.into_iter().enumerate() {
        // Most requests have cookies and the page before.
        let is_there = if index < 2 { random.below(4) > 0 } else { random.below(3) == 0 };
        if is_there && !value.is_empty() {
            headers.push(Header::new(name, &value));
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_length_that_it_says_and_no_placeholder() {
        for seed in 0..2_000 {
            let message = message(seed);
            let length =
                message.value("content-length").map(|value| String::from_utf8_lossy(value).into_owned());
            assert_eq!(length.unwrap_or_else(|| "0".into()), message.body.len().to_string(), "{seed}");
            let head = String::from_utf8_lossy(&message.head()).into_owned();
            let placeholders = ["{hex", "{word", "{base64", "{digits", "{uuid", "{jwt"];
            assert!(!placeholders.iter().any(|name| head.contains(name)), "{head}");
        }
    }
}
