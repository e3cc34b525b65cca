//! Causes of errors of the operating system, and remedies, for users who start Forebay for the first time.
//!
//! Must not be in here: errors of a running Forebay.

use std::io::{self, ErrorKind};

/// Where the addresses of a cluster's API server are in a Pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

/// `cannot listen`, where and why, and what to do about it. `flag` chooses the port.
pub(crate) fn cannot_listen(what: &str, error: &io::Error, flag: &str) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => {
            format!("; another program listens there (`ss -ltnp` names it); {flag} chooses another port")
        }
        ErrorKind::PermissionDenied => format!(
            "; ports below 1024 are for root and whoever has CAP_NET_BIND_SERVICE, or from sysctl net.ipv4.ip_unprivileged_port_start \
             on; {flag} chooses another port"
        ),
        ErrorKind::AddrNotAvailable => "; this machine does not have that address".to_owned(),
        _ => String::new(),
    };
    let at = if what.is_empty() { String::new() } else { format!(" on {what}") };
    anyhow::anyhow!("cannot listen{at}: {error}{hint}")
}

/// The advice for a start without manifests and without a cluster; none if there is one of them.
pub(crate) fn nothing_to_serve() -> Option<anyhow::Error> {
    let is_in_cluster = std::env::var_os(IN_CLUSTER).is_some();
    (!is_in_cluster).then(|| {
        anyhow::anyhow!(
            "not in a cluster ({IN_CLUSTER} is not set), and no --manifests to serve. One of these has what to serve:\n  \
             forebay serve --manifests DIR --http-port 8080 --https-port 8443    Ingresses in files; try `forebay check DIR` first\n  \
             forebay serve --kubeconfig ~/.kube/config                           a cluster, from outside; `forebay demo` needs neither"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_is_said_beside_what_is_wrong() {
        let said = |kind| cannot_listen(":80", &io::Error::from(kind), "--http-port").to_string();
        assert!(said(ErrorKind::PermissionDenied).contains("CAP_NET_BIND_SERVICE"));
        assert!(said(ErrorKind::AddrInUse).contains("--http-port chooses another port"));
        assert!(said(ErrorKind::AddrNotAvailable).ends_with("does not have that address"));
        assert_eq!(said(ErrorKind::OutOfMemory).matches(';').count(), 0);
    }
}
