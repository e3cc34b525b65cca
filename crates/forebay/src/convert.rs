//! `forebay convert`: makes objects of the Gateway API of Ingresses. YAML goes to standard output, the
//! summary to standard error.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::bail;
use control::convert::{Conversion, Target};
use control::legible;

use crate::cli::{self, ApiServer, ConvertCommand, ConvertIngress, Manifests, ObjectForm, Source};
use crate::output;

/// The exit status says whether something needs a look: 0 if everything has a counterpart, 1 if not.
pub(crate) fn run(command: ConvertCommand) -> anyhow::Result<ExitCode> {
    let ConvertCommand::Ingress(options) = command;
    let form = options.output;
    let conversion = convert(*options)?;
    output::print(match form {
        ObjectForm::Yaml => conversion.yaml(),
        ObjectForm::Json => conversion.json(),
    })?;
    eprint!("{}", summary(&conversion));
    Ok(ExitCode::from(u8::from(conversion.loses())))
}

fn convert(options: ConvertIngress) -> anyhow::Result<Conversion> {
    let ConvertIngress {
        manifests, gateway_name, gateway_namespace, gateway_class, api_server, reading, ..
    } = options;
    let target = Target { name: gateway_name, namespace: gateway_namespace, class: gateway_class };
    let now = SystemTime::now();
    let Some(source) = source(manifests, &api_server)? else {
        bail!(
            "nothing to convert: give a PATH with manifests, `-` for standard input, --kubeconfig or KUBECONFIG"
        )
    };
    match source {
        Source::Files { paths, stdin } => {
            let mut reading = reading.of_files().into_options(paths)?;
            reading.watch_namespace = api_server.scope().only_namespace();
            let of_files = control::Options { class_may_be_missing: true, ..reading };
            Ok(control::convert_at(&of_files, stdin, &target, now)?)
        }
        Source::Cluster => {
            let reading = reading.into_options(Vec::new())?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let connection = api_server.connect().await?;
                Ok(control::convert_cluster(&connection, api_server.scope(), reading, &target, now).await?)
            })
        }
    }
}

/// The source to convert. Without arguments it is standard input, as for any filter, before the cluster of
/// KUBECONFIG.
fn source(manifests: Manifests, api_server: &ApiServer) -> anyhow::Result<Option<Source>> {
    if manifests.is_empty() && !api_server.is_given() && !std::io::stdin().is_terminal() {
        let text = cli::read_stdin()?;
        if !text.trim().is_empty() || !api_server.is_named() {
            return Ok(Some(Source::Files { paths: Vec::new(), stdin: Some(text) }));
        }
    }
    manifests.source(api_server)
}

/// A summary: each finding with its object, and the number of objects.
fn summary(conversion: &Conversion) -> String {
    let mut text = String::new();
    for problem in &conversion.findings {
        let _ = writeln!(text, "{}: {}", problem.severity.as_str(), legible::line(&problem.to_string()));
    }
    let made: Vec<_> =
        conversion.counts().into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let made = if made.is_empty() { "nothing".to_owned() } else { made.join(", ") };
    let ingresses = |count| if count == 1 { "1 Ingress".to_owned() } else { format!("{count} Ingresses") };
    let _ = writeln!(text, "forebay: {} became {made}", ingresses(conversion.ingresses));
    if conversion.left_out > 0 {
        let _ = writeln!(text, "forebay: {} ignored, as by ingress-nginx", ingresses(conversion.left_out));
    }
    text
}
