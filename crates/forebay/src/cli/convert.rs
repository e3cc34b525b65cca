//! The command line of `forebay convert`.

use clap::{Args, Subcommand, ValueEnum};

use super::{ApiServer, Manifests, Reading};

#[derive(Args, Debug)]
pub(crate) struct Convert {
    #[command(subcommand)]
    pub(crate) command: ConvertCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConvertCommand {
    /// Convert Ingresses with their annotations to Gateways, routes and policies, printed as YAML. Comments
    /// say what has no counterpart; standard error sums up. Changes nothing. Exit status: 0 everything has a
    /// counterpart, 1 something needs a look, 2 unusable arguments.
    Ingress(Box<ConvertIngress>),
}

#[derive(Args, Debug)]
pub(crate) struct ConvertIngress {
    /// Services, Secrets and ConfigMaps that Ingresses name should be among them.
    #[command(flatten)]
    pub(crate) manifests: Manifests,
    /// How the objects are printed. JSON is one List.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "yaml")]
    pub(crate) output: ObjectForm,
    /// Name of the Gateway.
    #[arg(long, value_name = "NAME", default_value = "forebay")]
    pub(crate) gateway_name: String,
    /// Namespace of the Gateway.
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) gateway_namespace: String,
    /// GatewayClass of the Gateway; it is made too unless it is among the objects that are read.
    #[arg(long, value_name = "NAME", default_value = "forebay")]
    pub(crate) gateway_class: String,
    #[command(flatten)]
    pub(crate) api_server: ApiServer,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// The form in which objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectForm {
    /// YAML with comments.
    Yaml,
    /// JSON for programs.
    Json,
}
