//! Bodies: forms, JSON, GraphQL, uploads, beacons.
//!
//! Must not be in here: heads.

use super::random::Random;
use super::words::{WORDS, encoded};

/// A body with its content type.
pub(super) struct Body {
    pub(super) kind: String,
    pub(super) content: Vec<u8>,
}

/// The body of a request; none for two in five.
pub(super) fn body(random: &mut Random) -> Option<Body> {
    let of =
        |kind: &str, content: String| Some(Body { kind: kind.to_owned(), content: content.into_bytes() });
    match random.below(10) {
        0..=3 => None,
        4 => of("application/x-www-form-urlencoded", form(random)),
        5 => of("application/x-www-form-urlencoded; charset=UTF-8", known_form(random)),
        6 => of("application/json", json(random, 3)),
        7 => of("application/json", known_json(random)),
        8 => of("application/json; charset=utf-8", graphql(random)),
        _ => Some(multipart(random)),
    }
}

/// Fields with any values.
pub(super) fn form(random: &mut Random) -> String {
    let pairs: Vec<_> = (0..=random.below(6))
        .map(|_| format!("{}={}", encoded(random.one(&WORDS.fields)), encoded(&value(random))))
        .collect();
    pairs.join("&")
}

/// A value as people or programs have it.
fn value(random: &mut Random) -> String {
    match random.below(10) {
        0 | 1 => random.one(&WORDS.values).to_owned(),
        2 => random.one(&WORDS.people).to_owned(),
        3 => random.one(&WORDS.places).to_owned(),
        4 => random.filled("{uuid}"),
        5 => random.one(&WORDS.searches).to_owned(),
        6 => random.one(&WORDS.markdown).to_owned(),
        7 => random.filled("{word:12}"),
        _ => text(random),
    }
}

/// Some sentences, which may be in several languages.
fn text(random: &mut Random) -> String {
    let sentences: Vec<_> = (0..=random.below(4)).map(|_| random.one(&WORDS.sentences)).collect();
    sentences.join(random.one(&[" ", "\n", "\r\n\r\n"]))
}

/// A form that sites have: sign-in, an address, a comment.
fn known_form(random: &mut Random) -> String {
    let person = encoded(random.one(&WORDS.people));
    match random.below(3) {
        0 => format!(
            "authenticity_token={}&user%5Bemail%5D=jane.doe%40example.org&user%5Bpassword%5D={}&commit=Log+in",
            random.filled("{base64:86}%3D%3D"),
            encoded(random.one(&WORDS.passwords))
        ),
        1 => format!(
            "billing_name={person}&billing_address_1={}&payment_method=card&terms=on&_wpnonce={}",
            encoded(random.one(&WORDS.places)),
            random.filled("{hex:10}")
        ),
        _ => format!(
            "comment={}&author={person}&email=a%40example.com&url=&comment_post_ID=12&action=comment",
            encoded(&text(random))
        ),
    }
}

/// JSON of any form, down to a depth.
fn json(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 5 }) {
        0 => (random.below(2_000_000) as f64 / 100.0).to_string(),
        1 | 2 => {
            let value = value(random);
            random.json_string(&value)
        }
        3 => {
            let items: Vec<_> = (0..random.below(4)).map(|_| json(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let members: Vec<_> = (0..=random.below(5))
                .map(|_| format!("\"{}\": {}", random.one(&WORDS.fields), json(random, depth - 1)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// JSON that applications send: an order, an image, events.
fn known_json(random: &mut Random) -> String {
    let [person, place, text] =
        [random.one(&WORDS.people).to_owned(), random.one(&WORDS.places).to_owned(), text(random)]
            .map(|text| random.json_string(&text));
    match random.below(4) {
        0 => random.filled(&format!(
            r#"{{"id":"{{uuid}}","customer":{{"name":{person},"address":{place}}},"items":[{{"sku":"{{word:8}}","quantity":2,"price":19.99}}],"note":{text}}}"#
        )),
        1 => {
            let length = 400 + random.below(12_000);
            let image = random.base64(length - length % 4);
            format!(r#"{{"name":{person},"avatar":"data:image/png;base64,iVBORw0KGgo{image}A=","bio":{text}}}"#)
        }
        2 => random.filled(&format!(
            r#"{{"events":[{{"type":"page_view","ts":17{{digits:11}},"props":{{"url":"https://shop.example.com/?utm_source=a&q=b","title":{text},"viewport":"1920x1080"}}}},{{"type":"click","ts":17{{digits:11}},"props":{{"selector":"div.cart > button:nth-child(2)"}}}}],"session":"{{uuid}}"}}"#
        )),
        _ => {
            let markdown = random.one(&WORDS.markdown).to_owned();
            let markdown = random.json_string(&markdown);
            random.filled(&format!(
                r#"{{"action":"created","issue":{{"id":{{digits:9}},"title":{text},"body":{markdown},"user":{{"login":{person}}},"html_url":"https://git.example.com/a/b/issues/12"}}}}"#
            ))
        }
    }
}

fn graphql(random: &mut Random) -> String {
    let query = random.one(&WORDS.graphql).to_owned();
    let [query, text] = [query, text(random)].map(|text| random.json_string(&text));
    random.filled(&format!(
        r#"{{"operationName":null,"variables":{{"first":20,"after":"{{base64url:24}}","input":{{"bio":{text}}}}},"query":{query}}}"#
    ))
}

/// A form with fields and files.
fn multipart(random: &mut Random) -> Body {
    let boundary =
        random.filled_one(&["----WebKitFormBoundary{word:16}", "---------------------------{digits:29}"]);
    let mut content = Vec::new();
    for _ in 0..=random.below(3) {
        let name = random.one(&WORDS.fields);
        let header = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        if random.below(2) == 0 {
            content.extend(format!("{header}\r\n\r\n{}\r\n", value(random)).bytes());
            continue;
        }
        let file = random.one(&WORDS.files);
        let kind = random.one(&["image/jpeg", "image/png", "application/pdf", "application/octet-stream"]);
        content.extend(format!("{header}; filename=\"{file}\"\r\nContent-Type: {kind}\r\n\r\n").bytes());
        let length = random.below(4_000);
        content.extend([b"\xff\xd8\xff\xe0\x00\x10JFIF\x00".to_vec(), random.bytes(length)].concat());
        content.extend(b"\r\n");
    }
    content.extend(format!("--{boundary}--\r\n").bytes());
    Body { kind: format!("multipart/form-data; boundary={boundary}"), content }
}
