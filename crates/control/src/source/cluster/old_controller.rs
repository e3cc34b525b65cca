//! The controller of ingress-nginx in a cluster: its image reveals its version.

use std::time::Duration;

use http::Request;

use crate::client::Connection;
use crate::old_version::{Assumed, OldVersion};

/// Timeout of the requests to the API server.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The labels that controllers are searched by if their namespace is not known.
const SELECTOR: &str = "labelSelector=app.kubernetes.io%2Fname%20in%20(ingress-nginx,rke2-ingress-nginx,nginx-ingress-controller)";

/// The version of the controller, in a namespace or in all; none if no controller exists, or if it may not be
/// read.
pub(crate) async fn find(connection: &Connection, namespace: Option<&str>) -> Option<Assumed> {
    tokio::time::timeout(TIME_MAX, ask(connection, namespace)).await.ok().flatten()
}

async fn ask(connection: &Connection, namespace: Option<&str>) -> Option<Assumed> {
    for (kind, plural) in [("Deployment", "deployments"), ("DaemonSet", "daemonsets")] {
        let path = match namespace {
            Some(namespace) => format!("/apis/apps/v1/namespaces/{namespace}/{plural}?limit=500"),
            None => format!("/apis/apps/v1/{plural}?{SELECTOR}"),
        };
        let request = Request::get(path).body(Vec::new()).ok()?;
        let Ok(text) = connection.client.request_text(request).await else { continue };
        if let Some((version, image)) = OldVersion::of_image(&text) {
            return Some(Assumed { version, why: format!("a {kind} in the cluster has the image {image}") });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::Response;
    use kube::Client;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::client::Versions;

    /// A cluster whose API server answers requests for this path with this response, and refuses all others.
    fn cluster(path: &'static str, response: &'static str) -> Connection {
        let answer = move |request: Request<Body>| {
            let is_it = request.uri().path() == path;
            let (status, text) = if is_it { (200, response) } else { (403, "{}") };
            let response = Response::builder().status(status).body(Body::from(text.as_bytes().to_vec()));
            async move { Ok::<_, kube::Error>(response.expect("a response")) }
        };
        Connection {
            client: Client::new(service_fn(answer), "default"),
            namespace: "default".to_owned(),
            url: String::new(),
            versions: Versions::default(),
        }
    }

    const LIST: &str = r#"{"kind":"DaemonSetList","items":[{"spec":{"template":{"spec":{"containers":[
        {"image":"registry.k8s.io/ingress-nginx/controller:v1.11.3@sha256:00"}]}}}}]}"#;

    #[tokio::test]
    async fn the_image_of_the_controller_says_the_version() {
        let found = find(&cluster("/apis/apps/v1/namespaces/web/daemonsets", LIST), Some("web")).await;
        let why = "a DaemonSet in the cluster has the image registry.k8s.io/ingress-nginx/controller:v1.11.3";
        let expected = Assumed { version: OldVersion { major: 1, minor: 11 }, why: why.to_owned() };
        assert_eq!(found, Some(expected), "in a namespace, though Deployments may not be read");
        let found = find(&cluster("/apis/apps/v1/deployments", LIST), None).await;
        assert_eq!(found.map(|found| found.version.minor), Some(11), "in all namespaces");
        assert_eq!(find(&cluster("/none", LIST), None).await, None, "nothing may be read");
        assert_eq!(find(&cluster("/apis/apps/v1/deployments", "{}"), None).await, None, "there is none");
    }
}
