//! A folder as a page of HTML.

use std::fmt::Write as _;

use ::files::ListedEntry;
use wire::path::escape_if;

/// The page. What names hold is escaped for where it stands.
pub(super) fn page(path: &[u8], entries: &[ListedEntry], is_top: bool) -> String {
    let title = html(&String::from_utf8_lossy(path));
    let mut page = format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>Index of {title}</title></head>\n\
         <body>\n<h1>Index of {title}</h1>\n<ul>\n"
    );
    if !is_top {
        page.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for ListedEntry { name, is_folder } in entries {
        let slash = if *is_folder { "/" } else { "" };
        let text = html(&String::from_utf8_lossy(name));
        let _ = writeln!(page, "<li><a href=\"./{}{slash}\">{text}{slash}</a></li>", href(name));
    }
    page.push_str("</ul>\n</body>\n</html>\n");
    page
}

/// A name as a part of a URL: whatever is not a letter, a digit or harmless is escaped.
fn href(name: &[u8]) -> String {
    let mut escaped = Vec::with_capacity(name.len());
    escape_if(name, |byte| !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte), &mut escaped);
    String::from_utf8(escaped).unwrap_or_default()
}

fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_where_they_stand() {
        let entry = |name: &[u8], is_folder| ListedEntry { name: name.to_vec(), is_folder };
        let entries = [entry(b"a b", true), entry(b"<script>\"x\".js", false), entry(b"javascript:x", false)];
        let page = page(b"/<i>/", &entries, false);
        assert!(page.contains("<h1>Index of /&lt;i&gt;/</h1>"), "{page}");
        assert!(page.contains("<li><a href=\"../\">../</a></li>"));
        assert!(page.contains("<li><a href=\"./a%20b/\">a b/</a></li>"));
        assert!(page.contains("href=\"./%3Cscript%3E%22x%22.js\">&lt;script&gt;&quot;x&quot;.js</a>"));
        assert!(page.contains("href=\"./javascript%3Ax\""));
    }
}
