//! Spellings of a configured path that endpoints treat as the same path.
//!
//! Never in here: the decision which paths are compared.

/// The canonical form of a path, which is equal for paths that some server treats as the same: in another
/// letter case, with escapes, with empty elements and dots, with or without a slash at the end.
pub(super) fn meaning(path: &str) -> String {
    let decoded = decoded(path.as_bytes()).to_ascii_lowercase();
    let mut elements: Vec<&[u8]> = Vec::new();
    for element in decoded.split(|&byte| byte == b'/' || byte == b'\\') {
        match element {
            b"" | b"." => {}
            b".." => _ = elements.pop(),
            element => elements.push(element),
        }
    }
    format!("/{}", String::from_utf8_lossy(&elements.join(&b'/')))
}

/// Decodes until no escape is left, because an endpoint may decode a path that a proxy in front of it has
/// already decoded.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut path = path.to_vec();
    loop {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (mut out, mut rest) = (Vec::with_capacity(path.len()), path.as_slice());
        while let [first, tail @ ..] = rest {
            let escaped = match (first, tail) {
                (b'%', [high, low, after @ ..]) => {
                    digit(*high).zip(digit(*low)).map(|(high, low)| ((high << 4 | low) as u8, after))
                }
                _ => None,
            };
            let (byte, after) = escaped.unwrap_or((*first, tail));
            out.push(byte);
            rest = after;
        }
        if out.len() == path.len() {
            return out;
        }
        path = out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_path_mean_the_same() {
        for path in
            ["/app", "/app/", "/APP", "//app", "/%61pp", "/%2561pp", "/x/../app", "/./app//", "/app/%2e"]
        {
            assert_eq!(meaning(path), "/app", "{path}");
        }
        for (path, meant) in
            [("/", "/"), ("/..", "/"), ("/app/x", "/app/x"), ("/apps", "/apps"), ("/%", "/%")]
        {
            assert_eq!(meaning(path), meant, "{path}");
        }
    }
}
