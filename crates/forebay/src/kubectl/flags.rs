//! The flags of `forebay serve` in a Pod: those that are needed to read a cluster as that Pod does.

use std::ffi::OsString;

use clap::Parser;
use control::Scope;

use super::pods::ForebayPod;
use crate::cli::{Cli, Command};
use crate::line;

/// How a cluster is read.
pub(super) struct HowToRead {
    pub(super) options: control::Options,
    pub(super) scope: Scope,
}

/// Combines the flags of a Pod, if there is one, with the user's, which take precedence.
pub(super) fn how_to_read(pod: Option<&ForebayPod>, further: Vec<String>) -> anyhow::Result<HowToRead> {
    let of_pod = pod.map(|pod| pod.arguments.clone()).unwrap_or_default();
    let of_pod = if of_pod.is_empty() { vec!["serve".to_owned()] } else { of_pod };
    let all = ["forebay".to_owned()].into_iter().chain(of_pod).chain(further).map(OsString::from);
    let split = line::split(all);
    let parsed = Cli::try_parse_from(split.arguments).map_err(|error| error.to_string());
    let of = || pod.map_or_else(|| "the flags".to_owned(), |pod| format!("the flags of Pod {}", pod.title()));
    let command = parsed.map(|cli| cli.command).map_err(|error| {
        let error = error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        anyhow::anyhow!("cannot use {}: {error}", of())
    })?;
    let Command::Serve(serve) = command else {
        anyhow::bail!("cannot use {}: they are not those of `forebay serve`", of());
    };
    let scope = serve.cluster.api_server.scope();
    Ok(HowToRead { scope, options: serve.reading.into_options(Vec::new())? })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(arguments: &[&str]) -> ForebayPod {
        let pod = json!({
            "metadata": {"namespace": "edge", "name": "one"},
            "spec": {"containers": [{"name": "c", "args": arguments}]},
        });
        ForebayPod::of(&serde_json::from_value::<Pod>(pod).unwrap(), None)
    }

    #[test]
    fn flags_of_a_pod_hold_unless_the_user_gives_others() {
        let pod =
            pod(&["serve", "--ingress-class=edge", "--watch-namespace=shop", "--configmap=edge/settings"]);
        let read = how_to_read(Some(&pod), vec!["--ingress-class=other".to_owned()]).unwrap();
        assert_eq!(read.options.ingress_class, "other");
        assert_eq!(read.options.configmap.map(|name| name.to_string()).as_deref(), Some("edge/settings"));
        assert!(matches!(read.scope, Scope::Namespace(namespace) if namespace == "shop"));
    }

    #[test]
    fn flags_of_ingress_nginx_and_unknown_ones_are_passed_over() {
        let pod = pod(&[
            "/nginx-ingress-controller",
            "--sync-period=1m",
            "--of-a-later-version",
            "--ingress-class=x",
        ]);
        assert_eq!(how_to_read(Some(&pod), Vec::new()).unwrap().options.ingress_class, "x");
        assert_eq!(how_to_read(None, Vec::new()).unwrap().options.ingress_class, "nginx");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = |pod: &ForebayPod| match how_to_read(Some(pod), Vec::new()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it can be used"),
        };
        let wrong = error(&pod(&["serve", "--configmap=nonsense"]));
        assert!(
            wrong.starts_with("cannot use the flags of Pod edge/one: ") && wrong.contains("nonsense"),
            "{wrong}"
        );
        assert!(error(&pod(&["payload", "--port=0"])).contains("not those of `forebay serve`"));
    }
}
