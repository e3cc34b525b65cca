//! Ordinary requests: what browsers, applications and programs send all day, in several languages.

use std::fmt::Write as _;

use super::message::{Header, Message};

/// Texts that people write.
const TEXTS: [&str; 24] = [
    "Hello, I would like to know when my order arrives.",
    "Grüße aus München – wir freuen uns auf Sie!",
    "¿Dónde está la biblioteca? Está cerrada los domingos.",
    "C'est l'été, n'est-ce pas ? L'hôtel d'à côté est complet.",
    "こんにちは、注文の状況を教えてください。",
    "Привет! Когда будет доставка моего заказа?",
    "مرحبا، متى يصل طلبي؟",
    "您好，我想查询我的订单状态。",
    "O'Brien & Sons",
    "Price: $19.99 (incl. 19% VAT)",
    "Please select one of the options from the table below, and update your profile.",
    "I'll drop by at 5:30 pm; let me know if that works.",
    "The union of both sets is larger than either one.",
    "<3 this product!!! Best purchase ever :-)",
    "a < b and c > d, so a + b = c",
    "See https://example.com/docs/guide?page=2#install for the details",
    "Line one\nLine two\n\n- a list\n- of things",
    "function of the new script: print the order and exit",
    "50% off -- today only!",
    "C:\\Users\\anna\\Documents\\report.docx",
    "jane.doe+news@example.org",
    "+49 (0)89 1234-567",
    "2026-02-03T14:15:16+01:00",
    "Ｆｕｌｌｗｉｄｔｈ ｔｅｘｔ and emoji 🎉🍺",
];
/// Names of fields.
const NAMES: [&str; 16] = [
    "name",
    "email",
    "q",
    "search",
    "comment",
    "address[street]",
    "items[0][id]",
    "page",
    "sort",
    "lang",
    "csrf_token",
    "utm_source",
    "message",
    "order_id",
    "filter",
    "redirect",
];
/// Values as programs make them.
const VALUES: [&str; 12] = [
    "1",
    "42",
    "true",
    "en-US",
    "asc",
    "newsletter",
    "/account/orders",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "a1b2c3d4e5f6",
    "1700000000",
    "",
];
/// Cookies of common frameworks.
const COOKIES: [&str; 8] = [
    "_ga=GA1.2.1234567890.1700000000",
    "PHPSESSID=5u1k2h3g4f5d6s7a8p9o0i1u2y",
    "csrftoken=Zk3Pq9vXw2Lr8Tn5Yb7Mc1Jd4Hf6Gs0A",
    "connect.sid=s%3AabcDEF123.x%2FyZ%2B456",
    "JSESSIONID=0A1B2C3D4E5F60718293A4B5C6D7E8F9",
    "_session_id=BAh7B0kiD3Nlc3Npb25faWQGOgZFVEkiJTk%3D--4f2e",
    "XSRF-TOKEN=eyJpdiI6IkFCQyIsInZhbHVlIjoiREVGIn0%3D",
    "consent=%7B%22analytics%22%3Atrue%7D",
];
/// Browsers and programs.
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "okhttp/4.12.0",
];
/// Paths of pages and of interfaces.
const PATHS: [&str; 10] = [
    "/",
    "/index.html",
    "/products/blue-shirt-xl",
    "/api/v1/orders/1234",
    "/static/app.3f2a1b.js",
    "/wp-content/uploads/2026/01/photo.jpg",
    "/search",
    "/de/%C3%BCber-uns",
    "/account/login",
    "/graphql",
];

/// `SplitMix64`: a seed, and the same request ever again.
struct Random(u64);

/// A request by its number.
pub(super) fn message(seed: u64) -> Message {
    let mut random = Random(seed);
    let query: String = match random.below(3) {
        0 => String::new(),
        _ => format!("?{}", random.form()),
    };
    let mut headers = random.headers();
    let kind = random.below(5);
    let (content_type, body) = match kind {
        0 | 1 => ("", String::new()),
        2 => ("application/x-www-form-urlencoded", random.form()),
        3 => ("application/json", random.json(3)),
        _ => ("multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", random.multipart()),
    };
    if kind > 1 {
        headers.push(Header::new("Content-Type", content_type));
        headers.push(Header::new("Content-Length", &body.len().to_string()));
    }
    Message {
        method: if kind > 1 { b"POST".to_vec() } else { b"GET".to_vec() },
        target: format!("{}{query}", random.of(&PATHS)).into_bytes(),
        version: b"HTTP/1.1".to_vec(),
        headers,
        body: body.into_bytes(),
    }
}

// === impl Random ===

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn value(&mut self) -> &'static str {
        if self.below(2) == 0 { self.of(&TEXTS) } else { self.of(&VALUES) }
    }

    fn headers(&mut self) -> Vec<Header> {
        let mut headers = vec![
            Header::new("Host", "shop.example.com"),
            Header::new("User-Agent", self.of(&AGENTS)),
            Header::new("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            Header::new("Accept-Language", "de-DE,de;q=0.9,en;q=0.8"),
            Header::new("Accept-Encoding", "gzip, deflate, br"),
        ];
        if self.below(3) > 0 {
            let cookies: Vec<_> = (0..=self.below(4)).map(|_| self.of(&COOKIES)).collect();
            headers.push(Header::new("Cookie", &cookies.join("; ")));
        }
        if self.below(2) == 0 {
            headers.push(Header::new("Referer", "https://shop.example.com/search?q=blue+shirt&page=2"));
        }
        headers
    }

    fn form(&mut self) -> String {
        let pairs: Vec<_> = (0..=self.below(6))
            .map(|_| format!("{}={}", encoded(self.of(&NAMES)), encoded(self.value())))
            .collect();
        pairs.join("&")
    }

    fn json(&mut self, depth: usize) -> String {
        let kind = self.below(if depth == 0 { 3 } else { 5 });
        match kind {
            0 => self.below(100_000).to_string(),
            1 | 2 => serde_json::Value::from(self.value()).to_string(),
            3 => {
                let items: Vec<_> = (0..self.below(4)).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let members: Vec<_> = (0..=self.below(5))
                    .map(|_| format!("\"{}\": {}", self.of(&NAMES), self.json(depth - 1)))
                    .collect();
                format!("{{{}}}", members.join(", "))
            }
        }
    }

    fn multipart(&mut self) -> String {
        const BOUNDARY: &str = "------WebKitFormBoundary7MA4YWxkTrZu0gW";
        let mut body = String::new();
        for _ in 0..=self.below(3) {
            let name = self.of(&NAMES);
            let header = format!("{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"");
            let _ = if self.below(3) == 0 {
                let (number, content) = (self.below(100), self.of(&TEXTS));
                write!(
                    body,
                    "{header}; filename=\"photo {number}.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n\u{ff}\u{d8}JFIF{content}"
                )
            } else {
                write!(body, "{header}\r\n\r\n{}", self.value())
            };
            body += "\r\n";
        }
        body + BOUNDARY + "--\r\n"
    }
}

/// Percent-encoding as browsers have it in forms.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'*' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}
