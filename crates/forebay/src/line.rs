//! The command line as it is given, before it is parsed: what installers of ingress-nginx pass is made one of
//! Forebay.

use std::ffi::OsString;

use crate::cli::Cli;
use crate::ignored::{self, PassedOver};

/// A command line, and what of it is passed over.
pub(crate) struct Line {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) passed_over: Vec<PassedOver>,
}

/// Separates known arguments from flags without meaning here and, for `serve`, from unknown flags.
pub(crate) fn split(arguments: impl IntoIterator<Item = OsString>) -> Line {
    let (arguments, ignored) = ignored::split_off(with_command(arguments));
    let known = Cli::known_flags();
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let (arguments, unknown) = ignored::split_off_unknown(arguments, &known);
    Line { arguments, passed_over: ignored.into_iter().map(Into::into).chain(unknown).collect() }
}

/// Inserts `serve` if it is missing: a Deployment of ingress-nginx passes its binary's path and flags.
fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<_> = arguments.into_iter().collect();
    let first = arguments.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    if first.rsplit('/').next() == Some("nginx-ingress-controller") {
        arguments[1] = "serve".into();
    } else if first.starts_with("--") && !["--help", "--version"].contains(&first) {
        arguments.insert(1, "serve".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_an_ingress_nginx_deployment_are_those_of_serve() {
        let with = |line: &str| with_command(line.split(' ').map(OsString::from)).join(" ".as_ref());
        assert_eq!(
            with("forebay /nginx-ingress-controller --configmap=a/b"),
            "forebay serve --configmap=a/b"
        );
        assert_eq!(with("forebay --configmap=a/b"), "forebay serve --configmap=a/b");
        assert_eq!(with("forebay check a.yaml"), "forebay check a.yaml");
        assert_eq!(with("forebay --version"), "forebay --version");
        assert_eq!(with("forebay"), "forebay");
    }
}
