//! The report of `forebay check` as one page of HTML without anything from elsewhere.

use control::Translation;
use control::migration::{Look, Report, Use};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%;margin:1rem 0}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;\
    vertical-align:top}td.number{text-align:right}code{font-size:.95em}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}\
    td,th{border-color:#333}}";

/// The page.
pub(super) fn page(translation: &Translation, report: &Report) -> String {
    let body = [
        format!(
            "<h1>From ingress-nginx to Forebay</h1><p><strong>{}</strong></p>",
            escaped(&report.verdict())
        ),
        list(report.advice().iter().map(String::as_str)),
        looks("Ingresses that need a look", &report.need_a_look),
        looks("Ingresses that serve nothing, as before", &report.not_served),
        left_out(report),
        uses("Annotations in use", &report.annotations),
        uses("ConfigMap keys in use", &report.keys),
        problems(translation),
    ];
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>forebay check</title>\
         <style>{STYLE}</style></head><body>{}</body></html>\n",
        body.concat()
    )
}

fn looks(title: &str, looks: &[Look]) -> String {
    if looks.is_empty() {
        return String::new();
    }
    let looks = looks.iter().map(|look| {
        format!(
            "<h3><code>{}</code></h3>{}",
            escaped(&look.ingress),
            list(look.why.iter().map(String::as_str))
        )
    });
    format!("<h2>{title}</h2>{}", looks.collect::<String>())
}

fn left_out(report: &Report) -> String {
    if report.left_out_before.is_empty() {
        return String::new();
    }
    let items = list(report.left_out_before.iter().map(String::as_str));
    format!("<h2>Left out by ingress-nginx as well</h2>{items}")
}

fn uses(title: &str, uses: &[Use]) -> String {
    if uses.is_empty() {
        return String::new();
    }
    let rows = uses.iter().map(|Use { name, outcome, count }| {
        format!(
            "<tr><td><code>{}</code></td><td class=\"number\">{count}</td><td>{}</td></tr>",
            escaped(name),
            escaped(&outcome.to_string())
        )
    });
    let rows: String = rows.collect();
    format!("<h2>{title}</h2><table><tr><th>Name</th><th>Used</th><th>Here</th></tr>{rows}</table>")
}

fn problems(translation: &Translation) -> String {
    if translation.problems.is_empty() {
        return String::new();
    }
    let rows = translation.problems.iter().map(|problem| {
        format!("<tr><td>{}</td><td>{}</td></tr>", problem.severity, escaped(&problem.to_string()))
    });
    format!("<h2>All problems and notices</h2><table>{}</table>", rows.collect::<String>())
}

fn list<'t>(items: impl Iterator<Item = &'t str>) -> String {
    let items: Vec<_> = items.map(|item| format!("<li>{}</li>", escaped(item))).collect();
    format!("<ul>{}</ul>", items.concat())
}

/// Text that no name or value can break out of.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_the_page() {
        assert_eq!(escaped("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
    }
}
