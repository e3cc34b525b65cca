//! `forebay convert`: makes objects of the Gateway API of Ingresses. YAML goes to standard output, the summary to standard error.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use control::Connection;
use control::convert::{Conversion, Target};

use crate::cli::{ConvertCommand, ConvertIngress};

/// The exit status says whether something needs a look: 0 if everything has a counterpart, 1 if not.
pub(crate) fn run(command: ConvertCommand) -> anyhow::Result<ExitCode> {
    let ConvertCommand::Ingress(options) = command;
    let conversion = convert(*options)?;
    std::io::stdout().write_all(conversion.yaml().as_bytes())?;
    eprint!("{}", summary(&conversion));
    Ok(ExitCode::from(u8::from(conversion.loses())))
}

fn convert(options: ConvertIngress) -> anyhow::Result<Conversion> {
    let ConvertIngress { manifests, gateway_name, gateway_namespace, gateway_class, api_server, mut reading } =
        options;
    let target = Target { name: gateway_name, namespace: gateway_namespace, class: gateway_class };
    let is_cluster = api_server.kubeconfig.is_some() || api_server.apiserver_host.is_some();
    let now = SystemTime::now();
    if !is_cluster {
        let stdin =
            manifests.is_empty().then(|| std::io::read_to_string(std::io::stdin().lock())).transpose()?;
        reading.watch_ingress_without_class.get_or_insert(true);
        let reading = reading.into_options(manifests);
        let of_files = control::Options { class_may_be_missing: true, ..reading };
        return Ok(control::convert_at(&of_files, stdin, &target, now)?);
    }
    let reading = reading.into_options(manifests);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = Connection::open(&api_server.address()).await?;
        Ok(control::convert_cluster(&connection, api_server.scope(), reading, &target, now).await?)
    })
}

/// What there is to know: each finding with its object, and how many objects there are.
fn summary(conversion: &Conversion) -> String {
    let mut text = String::new();
    for problem in &conversion.findings {
        let _ = writeln!(text, "{}: {problem}", problem.severity.as_str());
    }
    let made: Vec<_> =
        conversion.counts().into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let made = if made.is_empty() { "nothing".to_owned() } else { made.join(", ") };
    let ingresses = |count| if count == 1 { "1 Ingress".to_owned() } else { format!("{count} Ingresses") };
    let _ = writeln!(text, "forebay: {} became {made}", ingresses(conversion.ingresses));
    if conversion.left_out > 0 {
        let _ = writeln!(text, "forebay: {} left out, as ingress-nginx does", ingresses(conversion.left_out));
    }
    text
}
