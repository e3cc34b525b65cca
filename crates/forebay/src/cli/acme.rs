//! Flags about certificates from authorities that speak ACME.

use std::path::PathBuf;

use clap::Args;
use control::acme::Acme;
use control::status::Keeper;
use control::{Connection, NsName};

/// Where the certificates of `forebay-acme-directories` are kept.
#[derive(Args, Debug)]
pub(crate) struct AcmeArgs {
    /// Folder for accounts, keys and certificates of forebay-acme-directories [default: none; in a cluster
    /// they are in Secrets of the Pod's namespace].
    #[arg(long, value_name = "DIR")]
    acme_dir: Option<PathBuf>,
}

impl AcmeArgs {
    /// The certificates of this process. In a cluster they are kept in the namespace of the Pod, and the
    /// replica that leads obtains them.
    pub(crate) fn acme(&self, cluster: Option<(&Connection, &Keeper)>, pod: Option<NsName>) -> Acme {
        let acme = Acme::default();
        match (&self.acme_dir, cluster) {
            (None, Some((connection, keeper))) => {
                let namespace = pod.map_or_else(|| connection.namespace.clone(), |pod| pod.namespace);
                acme.keep_in_secrets(connection, &namespace, keeper.leading());
            }
            (folder, _) => acme.keep_in_folder(folder.clone()),
        }
        acme.await_notes();
        acme
    }
}
