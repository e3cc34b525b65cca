//! The kubeconfig of a user, found as kubectl finds it.

use std::env;

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::{ConnectError, UserAddress};

/// The environment variable that holds the address of the cluster's API server in a Pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

/// The address and the credentials of the user's cluster.
pub(super) async fn configure(address: &UserAddress) -> Result<Config, ConnectError> {
    let Some((from, read)) = find(address) else { return Ok(Config::incluster()?) };
    let fail = |source| ConnectError::UserKubeconfig { from: from.clone(), source };
    let kubeconfig = match read {
        Err(KubeconfigError::ReadConfig(error, _))
            if address.kubeconfig.is_none() && error.kind() == std::io::ErrorKind::NotFound =>
        {
            return Err(ConnectError::NoKubeconfig(from));
        }
        read => read.map_err(fail)?,
    };
    let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let context = address.context.clone().or_else(|| kubeconfig.current_context.clone());
    let context = context.filter(|context| !context.is_empty());
    match &context {
        None => return Err(ConnectError::NoCurrentContext { from, known }),
        Some(context) if !known.contains(context) => {
            return Err(ConnectError::NoContext { from, context: context.clone(), known });
        }
        Some(_) => {}
    }
    config_of(kubeconfig, context).await.map_err(fail)
}

/// The configuration of a context in a kubeconfig, with the proxy that the environment sets.
pub(super) async fn config_of(
    kubeconfig: Kubeconfig,
    context: Option<String>,
) -> Result<Config, KubeconfigError> {
    let context = context.or_else(|| kubeconfig.current_context.clone());
    let has_proxy = has_proxy(&kubeconfig, context.as_deref());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // kube matches NO_PROXY against the proxy's host instead of the API server's host.
    if !has_proxy && Matcher::from_env().intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Whether the kubeconfig itself has a proxy for the cluster of a context.
fn has_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == context);
    let cluster = context.and_then(|named| Some(named.context.as_ref()?.cluster.as_str()));
    let cluster = kubeconfig.clusters.iter().find(|named| Some(named.name.as_str()) == cluster);
    let proxy = cluster.and_then(|named| named.cluster.as_ref()?.proxy_url.as_deref());
    proxy.is_some_and(|proxy| !proxy.is_empty())
}

/// The kubeconfig, and the place where it was found. None for a Pod without a kubeconfig.
fn find(address: &UserAddress) -> Option<(String, Result<Kubeconfig, KubeconfigError>)> {
    if let Some(path) = &address.kubeconfig {
        return Some((path.display().to_string(), Kubeconfig::read_from(path)));
    }
    if let Some(paths) = env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        let merged = Kubeconfig::from_env().map(Option::unwrap_or_default);
        return Some((paths.to_string_lossy().into_owned(), merged));
    }
    let path = env::home_dir().unwrap_or_default().join(".kube/config");
    if !path.exists() && env::var_os(IN_CLUSTER).is_some() {
        return None;
    }
    Some((path.display().to_string(), Kubeconfig::read_from(&path)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::Connection;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://192.0.2.1:6443'}}]
contexts:
- {name: one, context: {cluster: c, user: u, namespace: shop}}
- {name: two, context: {cluster: elsewhere, user: u}}
users: [{name: u, user: {token: secret}}]
current-context: one
";

    async fn open(text: &str, context: Option<&str>) -> Result<Connection, ConnectError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, text).unwrap();
        let context = context.map(str::to_owned);
        Connection::of_user(&UserAddress { kubeconfig: Some(path), context, connect_timeout: None }).await
    }

    #[tokio::test]
    async fn the_context_says_where_the_cluster_is() {
        let connection = open(KUBECONFIG, None).await.unwrap();
        assert_eq!(
            (connection.url.as_str(), connection.namespace.as_str()),
            ("https://192.0.2.1:6443/", "shop")
        );
        assert!(open(KUBECONFIG, Some("one")).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        let said = async |text: &str, context| match open(text, context).await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it can be used"),
        };
        let unknown = said(KUBECONFIG, Some("three")).await;
        assert!(unknown.ends_with("has no context \"three\"; there are one, two"), "{unknown}");
        let none = said(&KUBECONFIG.replace("current-context: one", ""), None).await;
        assert!(none.ends_with("has no current context; there are one, two"), "{none}");
        let empty = said("{apiVersion: v1, kind: Config, current-context: one}", None).await;
        assert!(empty.ends_with("has no context \"one\"; it has none"), "{empty}");
        let elsewhere = said(KUBECONFIG, Some("two")).await;
        assert!(elsewhere.ends_with("elsewhere"), "{elsewhere}");
        let garbage = said("a: [", None).await;
        assert!(garbage.contains("config: failed to parse kubeconfig YAML"), "{garbage}");
        let path = Some(PathBuf::from("/nonexistent/config"));
        let address = UserAddress { kubeconfig: path, ..UserAddress::default() };
        let gone = match Connection::of_user(&address).await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it can be used"),
        };
        assert!(gone.starts_with("kubeconfig /nonexistent/config: failed to read"), "{gone}");
    }
}
