//! Writes docs/compatibility.md, docs/doctor.md, the table in docs/policy.md and the definition of
//! `ForebayPolicy` from the tables that the code uses; a test fails if they differ.

mod yaml;

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, CommandFactory};
use control::translate::configmap::KEYS;
use control::translate::ingress::annotations::ANNOTATIONS;
use control::translate::ingress::own;
use control::translate::policy::fields;
use control::translate::policy::sections::SECTIONS;
use model::log::STREAM_VARIABLES;
use model::template::VARIABLES;
use observe::{METRICS, Reason, Side};
use testkit::markdown::wrapped;

use crate::cli::Cli;
use crate::ignored::IGNORED;

/// Environment variable to write the pages instead of comparing them.
const WRITE: &str = "FOREBAY_WRITE_DOCS";

/// Variables that nginx does not have, or of which a user has to know more than nginx's documentation says.
const NOTED: [&str; 33] = [
    "best_http_host",
    "pass_access_scheme",
    "escaped_request_uri",
    "the_real_ip",
    "full_x_forwarded_for",
    "connection_upgrade",
    "redirect_to_https",
    "pass_server_port",
    "pass_port",
    "proxy_protocol_addr",
    "proxy_host",
    "proxy_port",
    "request_body",
    "nginx_version",
    "document_root",
    "fastcgi_path_info",
    "proxy_upstream_name",
    "proxy_alternative_upstream_name",
    "upstream_cache_status",
    "forebay_waf_verdict",
    "forebay_waf_rule",
    "forebay_waf_score",
    "modsecurity_intervention",
    "modsecurity_triggered_rules",
    "req_id",
    "namespace",
    "ingress_name",
    "route_rule",
    "service_name",
    "service_port",
    "location_path",
    "opentelemetry_trace_id",
    "opentelemetry_context_traceparent",
];

/// The introduction of the doctor's page.
const DOCTOR: &str = include_str!("../doctor/introduction.md");

#[test]
fn compatibility_is_in_step_with_the_tables() {
    in_step("compatibility.md", &compatibility());
}

#[test]
fn the_doctors_page_is_in_step_with_its_checks() {
    in_step("doctor.md", &doctor());
}

#[test]
fn the_definition_of_policies_is_in_step_with_their_fields() {
    let definition = yaml::text(&control::translate::policy::definition::definition());
    let head = format!(
        "# The kind ForebayPolicy: docs/policy.md. Made by `{WRITE}=1 cargo test -p forebay docs`.\n"
    );
    in_step("../deploy/helm/forebay/crds/forebaypolicies.yaml", &(head + &definition));
}

#[test]
fn the_page_of_policies_is_in_step_with_their_fields() {
    const BEGIN: &str = "<!-- fields -->\n";
    const END: &str = "<!-- end of fields -->\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (begin, rest) = page.split_once(BEGIN).expect("the page says where fields begin");
    let (_, end) = rest.split_once(END).expect("the page says where fields end");
    in_step("policy.md", &format!("{begin}{BEGIN}{}{END}{end}", policy_fields()));
}

#[test]
fn the_page_of_databases_is_in_step_with_their_variables() {
    const BEGIN: &str = "<!-- variables -->\n";
    const END: &str = "<!-- end of variables -->\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/geoip.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (begin, rest) = page.split_once(BEGIN).expect("the page says where variables begin");
    let (_, end) = rest.split_once(END).expect("the page says where variables end");
    let mut text = String::new();
    let rows = geo::FIELDS.iter().map(|(name, what)| [code(&format!("${name}")), (*what).to_owned()]);
    table(&mut text, ["variable", "what"], rows);
    in_step("geoip.md", &format!("{begin}{BEGIN}{text}{END}{end}"));
}

fn policy_fields() -> String {
    let mut text = String::new();
    let fields = SECTIONS.iter().flat_map(|of_section| {
        let of_section = |field: &&fields::Field| field.section.name == of_section.name;
        fields::all().iter().filter(of_section)
    });
    let rows = fields.map(|field| {
        let name = format!("{}.{}", field.section.name, field.name);
        let annotation = field.annotation_key();
        let annotation = annotation.strip_prefix("nginx.ingress.kubernetes.io/").unwrap_or(&annotation);
        [code(&name), field.kind.what().to_owned(), code(annotation)]
    });
    table(&mut text, ["field", "value", "annotation"], rows);
    text
}

fn in_step(name: &str, page: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "{name} is out of step; run: {WRITE}=1 cargo test -p forebay docs");
}

fn doctor() -> String {
    let mut page = format!(
        "# Where the QPS went: `forebay doctor`\n\nWritten from the table of checks by `{WRITE}=1 cargo test -p forebay \
         docs`.\n\n{DOCTOR}\n| check | about | field case | at worst |\n|---|---|---|---|\n"
    );
    for doctor::Check { id, category, case, severity, .. } in doctor::all() {
        writeln!(page, "| [{id}](#{id}) | {category} | {case} | {} |", severity.name()).unwrap();
    }
    page.push_str("\nThe cases are in [field-cases.md](field-cases.md).\n");
    for doctor::Check { id, what, how, remedy, .. } in doctor::all() {
        let mut first = what.chars();
        let what: String = first.next().into_iter().flat_map(char::to_uppercase).chain(first).collect();
        let lines = [format!("{what}."), format!("- Seen by: {how}."), format!("- Remedy: {remedy}")];
        let [what, how, remedy] = lines.map(|line| wrapped(&line));
        write!(page, "\n### {id}\n\n{what}\n\n{how}\n{remedy}\n").unwrap();
    }
    page
}

fn compatibility() -> String {
    let mut page = format!(
        "# Compatibility with ingress-nginx\n\nWritten by `{WRITE}=1 cargo test -p forebay docs` from the code's tables. What a table \
         lists is\nsupported, unless it says otherwise. Intentional differences are in [differences.md](differences.md).\n"
    );
    let flags = serve_flags();
    section(&mut page, "Flags of `forebay serve`", ["flag", "what"], flags);
    page.push_str("\n## Flags of ingress-nginx that warn and do nothing\n\n");
    ignored(&mut page, IGNORED.iter().map(|flag| (format!("--{}", flag.name), flag.why.to_owned())));
    let supported = ANNOTATIONS.iter().filter(|one| one.is_supported());
    let rows = supported.map(|one| {
        let risk = format!("{:?}", one.risk);
        let risk = if risk == "Low" { String::new() } else { format!(" Risk: {risk}.") };
        [code(one.name), format!("{}{risk}", one.doc)]
    });
    section(
        &mut page,
        "Annotations",
        ["`nginx.ingress.kubernetes.io/`", "what; the risk is low unless stated"],
        rows,
    );
    page.push_str("\nOther names, and annotations without effect:\n\n");
    let others = ANNOTATIONS.iter().filter(|one| !one.is_supported());
    ignored(&mut page, others.map(|one| (one.name.to_owned(), one.support())));
    let own = own::annotations().map(|one| [code(one.name), with_default(one.doc, one.default)]);
    section(&mut page, "Annotations of Forebay", ["`forebay.io/`", "what"], own);
    let rows = KEYS.iter().filter(|key| key.is_supported()).map(|key| [code(key.name), key.doc.to_owned()]);
    section(&mut page, "ConfigMap keys", ["key", "what"], rows);
    page.push_str("\nOther keys:\n\n");
    let others = KEYS.iter().filter(|key| !key.is_supported());
    ignored(&mut page, others.map(|key| (key.name.to_owned(), key.support())));
    let metrics = METRICS.iter().map(|metric| [code(metric.name), metric.help.to_owned()]);
    section(&mut page, "Metrics", ["metric", "what"], metrics);
    page.push_str("\n## Reasons in `forebay_faults_total`\n");
    for &side in Side::ALL {
        write!(page, "\nCaused by the {}:\n\n", side.name()).unwrap();
        let reasons = Reason::ALL.iter().filter(|one| one.side() == side);
        table(&mut page, ["reason", "what"], reasons.map(|one| [code(one.name()), one.doc().to_owned()]));
    }
    let (noted, of_nginx): (Vec<_>, Vec<_>) = VARIABLES.iter().partition(|(name, _)| NOTED.contains(name));
    let rows = noted.iter().map(|(name, what)| [code(&format!("${name}")), what.trim().to_owned()]);
    section(&mut page, "Variables of `log-format-upstream`", ["variable", "what"], rows);
    let names = |names: &[(&str, &str)]| {
        let names: Vec<_> = names.iter().map(|(name, _)| code(&format!("${name}"))).collect();
        wrapped(&format!("With nginx's meaning: {}.", names.join(", ")))
    };
    write!(page, "\n{}\n", names(of_nginx.as_slice())).unwrap();
    page.push_str(
        "\nAlso `$http_NAME` and `$sent_http_NAME`: a header of the request and of the response; `$cookie_NAME` and\n\
         `$arg_NAME`: a cookie and a parameter of the query; `$claim_NAME`: a claim of the client's token or session\n\
         (`auth-jwt`, `auth-oidc-issuer`), or a label of its API key; `$geoip2_NAME`: a value that a database has for\n\
         the client's address ([geoip.md](geoip.md#variables)).\n",
    );
    let is_of_nginx = |name: &str| of_nginx.iter().any(|(known, _)| *known == name);
    let (of_nginx, noted): (Vec<_>, Vec<_>) =
        STREAM_VARIABLES.iter().partition(|(name, _)| is_of_nginx(name) && *name != "status");
    let rows = noted.iter().map(|(name, what)| [code(&format!("${name}")), (*what).to_owned()]);
    section(&mut page, "Variables of `log-format-stream`", ["variable", "what"], rows);
    write!(page, "\n{}\n", names(of_nginx.as_slice())).unwrap();
    page
}

fn serve_flags() -> impl Iterator<Item = [String; 2]> {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("there is a command to serve").clone();
    let flags: Vec<_> = serve.get_arguments().filter(|arg| arg.get_long().is_some()).map(flag_row).collect();
    flags.into_iter()
}

fn flag_row(arg: &Arg) -> [String; 2] {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let name = format!("--{}", arg.get_long().unwrap_or_default());
    [code(&name), with_default(&help, &defaults.join(","))]
}

fn with_default(what: &str, default: &str) -> String {
    if default.is_empty() { what.to_owned() } else { format!("{what} [default: `{default}`]") }
}

fn section<const N: usize>(
    page: &mut String,
    title: &str,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    write!(page, "\n## {title}\n\n").unwrap();
    table(page, headings, rows);
}

/// Names with the same reason share a row.
fn ignored(page: &mut String, names: impl Iterator<Item = (String, String)>) {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (name, why) in names {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(code(&name)),
            None => reasons.push((why, vec![code(&name)])),
        }
    }
    let rows = reasons.into_iter().map(|(why, names)| [names.join(", "), why]);
    table(page, ["name", "effect"], rows);
}

fn table<const N: usize>(page: &mut String, headings: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    write!(page, "| {} |\n|{}\n", headings.join(" | "), "---|".repeat(N)).unwrap();
    for row in rows {
        writeln!(page, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | ")).unwrap();
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
