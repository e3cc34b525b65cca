//! The command line of `forebay convert`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ApiServer, Reading};

#[derive(Args, Debug)]
pub(crate) struct Convert {
    #[command(subcommand)]
    pub(crate) command: ConvertCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConvertCommand {
    /// Make Gateways, routes and policies of Ingresses with their annotations, and print them as YAML. Comments say what has no
    /// counterpart; standard error sums up. Changes nothing. Exit status: 0 everything has a counterpart, 1 something needs a look,
    /// 2 unusable arguments.
    Ingress(Box<ConvertIngress>),
}

#[derive(Args, Debug)]
pub(crate) struct ConvertIngress {
    /// File or folder with Kubernetes manifests [default: standard input, unless a cluster is named]. May be given several times.
    /// Services, Secrets and ConfigMaps that Ingresses name should be among them.
    #[arg(short = 'f', long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "apiserver_host"])]
    pub(crate) manifests: Vec<PathBuf>,
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
