//! Writes docs/compatibility.md, docs/doctor.md, the table in docs/policy.md and the definition of `ForebayPolicy` from the tables that the
//! code uses; a test fails if they differ.

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
use observe::{METRICS, Reason};

use crate::cli::Cli;
use crate::ignored::IGNORED;

/// Environment variable to write the pages instead of comparing them.
const WRITE: &str = "FOREBAY_WRITE_DOCS";

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

fn policy_fields() -> String {
    let mut text = String::new();
    for of_section in SECTIONS {
        let fields =
            fields::all().iter().filter(|field| field.section.name == of_section.name).map(|field| {
                [
                    code(&field.name),
                    field.kind.what().to_owned(),
                    code(&field.annotation_key()),
                    field.annotation.doc.to_owned(),
                ]
            });
        section(&mut text, of_section.name, ["field", "value", "annotation", "what"], fields);
    }
    text + "\n"
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
         docs`.\n\n{DOCTOR}\n| check | about | field case |\n|---|---|---|\n"
    );
    for check in doctor::all() {
        writeln!(page, "| [{0}](#{0}) | {1} | {2} |", check.id, check.category, check.case).unwrap();
    }
    page.push_str("\nThe cases are in [field-cases.md](field-cases.md).\n");
    for check in doctor::all() {
        let doctor::Check { id, what, how, remedy, .. } = check;
        let worst = check.severity.name();
        write!(
            page,
            "\n### {id}\n\n- What: {what}.\n- Seen by: {how}.\n- Remedy: {remedy}\n- At worst: {worst}.\n"
        )
        .unwrap();
    }
    page
}

fn compatibility() -> String {
    let mut page = String::from(
        "# Compatibility with ingress-nginx\n\nWritten from the tables in the code by \
         `FOREBAY_WRITE_DOCS=1 cargo test -p forebay docs`. What is done otherwise on purpose is in \
         [differences.md](differences.md).\n",
    );
    let flags = serve_flags();
    section(&mut page, "Flags of `forebay serve`", ["flag", "default", "what"], flags);
    let ignored = IGNORED.iter().map(|flag| [code(&format!("--{}", flag.name)), flag.why.to_owned()]);
    section(&mut page, "Flags of ingress-nginx that warn and do nothing", ["flag", "why"], ignored);
    let annotations = ANNOTATIONS
        .iter()
        .map(|one| [code(one.name), format!("{:?}", one.risk), one.support(), one.doc.to_owned()]);
    section(
        &mut page,
        "Annotations",
        ["`nginx.ingress.kubernetes.io/`", "risk", "here", "what"],
        annotations,
    );
    let own = own::annotations().map(|one| [code(one.name), code(one.default), one.doc.to_owned()]);
    section(&mut page, "Annotations of Forebay", ["`forebay.io/`", "default", "what"], own);
    let keys = KEYS.iter().map(|key| [code(key.name), key.support(), key.doc.to_owned()]);
    section(&mut page, "ConfigMap keys", ["key", "here", "what"], keys);
    let metrics = METRICS.iter().map(|metric| [code(metric.name), metric.help.to_owned()]);
    section(&mut page, "Metrics", ["metric", "what"], metrics);
    let reasons =
        Reason::ALL.iter().map(|one| [code(one.name()), one.side().name().to_owned(), one.doc().to_owned()]);
    section(&mut page, "Reasons in `forebay_faults_total`", ["reason", "side", "what"], reasons);
    let variables = VARIABLES.iter().map(|(name, what)| [code(&format!("${name}")), what.trim().to_owned()]);
    section(&mut page, "Variables of `log-format-upstream`", ["variable", "what"], variables);
    page.push_str(
        "\nAlso `$http_NAME` and `$sent_http_NAME`: a header of the request and of the response; `$cookie_NAME` and `$arg_NAME`: \
         a cookie and a parameter of the query.\n",
    );
    let variables =
        STREAM_VARIABLES.iter().map(|(name, what)| [code(&format!("${name}")), (*what).to_owned()]);
    section(&mut page, "Variables of `log-format-stream`", ["variable", "what"], variables);
    page
}

fn serve_flags() -> impl Iterator<Item = [String; 3]> {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("there is a command to serve").clone();
    let flags: Vec<_> = serve.get_arguments().filter(|arg| arg.get_long().is_some()).map(flag_row).collect();
    flags.into_iter()
}

fn flag_row(arg: &Arg) -> [String; 3] {
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    [code(&format!("--{}", arg.get_long().unwrap_or_default())), code(&defaults.join(",")), help]
}

fn section<const N: usize>(
    page: &mut String,
    title: &str,
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    write!(page, "\n## {title}\n\n| {} |\n|{}\n", headings.join(" | "), "---|".repeat(N)).unwrap();
    for row in rows {
        writeln!(page, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | ")).unwrap();
    }
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}
