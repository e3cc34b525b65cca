//! The command line of `forebay waf`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Output;

#[derive(Args, Debug)]
pub(crate) struct Waf {
    #[command(subcommand)]
    pub(crate) command: WafCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WafCommand {
    /// Give recorded requests to rules of the firewall, and print which of them the rules refuse. Sends no
    /// request. Exit status: 0 as expected, 1 otherwise, 2 unusable rules, requests or arguments.
    #[command(
        after_help = "Examples:\n  forebay waf test exclusions.conf requests/ --core-rules --engine on\n  forebay waf test rules.conf attack.http --expect blocked --verbose"
    )]
    Test(WafTest),
}

#[derive(Args, Debug)]
pub(crate) struct WafTest {
    /// File with rules in SecLang, or folder of files *.conf. `Include` is relative to the file that has it.
    #[arg(value_name = "RULES")]
    pub(crate) rules: PathBuf,
    /// Files of HTTP/1.1 messages as they are sent (each request with its response behind it, if there is
    /// one), files of HAR, and folders of *.http and *.har.
    #[arg(value_name = "REQUESTS", required = true)]
    pub(crate) requests: Vec<PathBuf>,
    /// Further rules behind RULES. May be given several times.
    #[arg(long = "rules", value_name = "PATH")]
    pub(crate) further: Vec<PathBuf>,
    /// Put the OWASP core rules behind them.
    #[arg(long)]
    pub(crate) core_rules: bool,
    /// Folders with the core rules [default: /usr/share/modsecurity-crs,/etc/modsecurity/crs].
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) waf_rules: Vec<PathBuf>,
    /// Paranoia level of the core rules [default: that of their setup].
    #[arg(long, value_name = "1-4", requires = "core_rules", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) paranoia_level: Option<u8>,
    /// Add the settings of a firewall without rules of its own; those of RULES override them.
    #[arg(long)]
    pub(crate) default_settings: bool,
    /// Mode of the rules, whatever SecRuleEngine says.
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) engine: Option<Engine>,
    /// Address of the client.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) client_ip: IpAddr,
    /// Expected verdict on each request.
    #[arg(long, value_enum, value_name = "VERDICT", default_value = "passed")]
    pub(crate) expect: Expected,
    /// List each rule that matches, with the variables and their transformed values.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// How the result is printed.
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value = "text")]
    pub(crate) output: Output,
}

/// A mode of the rules.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Engine {
    /// Refuse what the rules deny.
    On,
    /// Only report matches.
    DetectionOnly,
}

/// The verdict that each request is expected to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expected {
    /// The rules let it pass.
    Passed,
    /// The rules refuse it.
    Blocked,
}
