//! The media type of a file, by its extension.

/// The value of `Content-Type` for a name; `application/octet-stream` if the extension is unknown.
pub(super) fn of(name: &[u8]) -> &'static str {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let extension =
        last.rsplitn(2, |&byte| byte == b'.').next().filter(|extension| extension.len() < last.len());
    let extension = extension.and_then(|extension| std::str::from_utf8(extension).ok()).unwrap_or_default();
    // Nearly all that is asked for, without a search.
    match extension {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "text/xml; charset=utf-8",
        "" => BYTES,
        other => mime_guess::from_ext(other).first_raw().unwrap_or(BYTES),
    }
}

const BYTES: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_say_what_a_file_is() {
        for (name, expected) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("a.min.js", "text/javascript; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.PNG", "image/png"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a.woff2", "font/woff2"),
            ("a.webmanifest", "application/manifest+json"),
            ("html", BYTES),
            ("a.b/README", BYTES),
            ("a.\u{fc}nknown", BYTES),
        ] {
            assert_eq!(of(name.as_bytes()), expected, "{name}");
        }
    }
}
