//! A copy of the cluster's objects on disk, which the next process serves if it starts while the API server
//! is unavailable.
//!
//! The file holds manifests, so that users and `forebay check` can read it. It contains private keys, so only
//! its owner may read it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::files::{Files, LoadError};
use crate::index::Index;
use crate::objects::Object;

/// A folder that holds one file.
#[derive(Clone, Debug)]
pub(crate) struct DiskCache {
    path: PathBuf,
}

impl DiskCache {
    /// A copy in this folder. The folder is created with the first copy.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("objects.yaml") }
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the copy; none if no copy exists.
    pub(crate) fn load(&self) -> Result<Option<Index>, LoadError> {
        if !self.path.exists() {
            return Ok(None);
        }
        let files = Files::open(std::slice::from_ref(&self.path))?;
        let (index, problems) = Index::build(files.objects());
        for problem in files.problems().chain(&problems) {
            tracing::warn!("{problem}");
        }
        Ok(Some(index))
    }

    /// Replaces the copy. A rename puts the file into place, so a reader never sees a part of it.
    pub(crate) fn save(&self, objects: &[Object]) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let draft = self.path.with_extension("draft");
        let mut file = BufWriter::new(
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&draft)?,
        );
        for object in objects {
            write(&mut file, object)?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        fs::rename(&draft, &self.path)
    }
}

fn write(file: &mut impl Write, object: &Object) -> io::Result<()> {
    /// An object with its `apiVersion` and `kind`.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed<'a, T> {
        api_version: &'static str,
        kind: &'static str,
        #[serde(flatten)]
        object: &'a T,
    }
    macro_rules! line {
        ($object:expr, $api_version:literal, $kind:literal) => {
            serde_json::to_writer(
                &mut *file,
                &Typed { api_version: $api_version, kind: $kind, object: &$object.object },
            )
        };
    }
    match object {
        Object::Ingress(it) => line!(it, "networking.k8s.io/v1", "Ingress"),
        Object::IngressClass(it) => line!(it, "networking.k8s.io/v1", "IngressClass"),
        Object::Service(it) => line!(it, "v1", "Service"),
        Object::EndpointSlice(it) => line!(it, "discovery.k8s.io/v1", "EndpointSlice"),
        Object::Endpoints(it) => line!(it, "v1", "Endpoints"),
        Object::ConfigMap(it) => line!(it, "v1", "ConfigMap"),
        Object::Secret(it) => line!(it, "v1", "Secret"),
        Object::Namespace(it) => line!(it, "v1", "Namespace"),
        Object::GatewayClass(it) => line!(it, "gateway.networking.k8s.io/v1", "GatewayClass"),
        Object::Gateway(it) => line!(it, "gateway.networking.k8s.io/v1", "Gateway"),
        Object::ListenerSet(it) => line!(it, "gateway.networking.k8s.io/v1", "ListenerSet"),
        Object::HttpRoute(it) => line!(it, "gateway.networking.k8s.io/v1", "HTTPRoute"),
        Object::GrpcRoute(it) => line!(it, "gateway.networking.k8s.io/v1", "GRPCRoute"),
        Object::TlsRoute(it) => line!(it, "gateway.networking.k8s.io/v1", "TLSRoute"),
        Object::TcpRoute(it) => line!(it, "gateway.networking.k8s.io/v1", "TCPRoute"),
        Object::UdpRoute(it) => line!(it, "gateway.networking.k8s.io/v1", "UDPRoute"),
        Object::ReferenceGrant(it) => line!(it, "gateway.networking.k8s.io/v1", "ReferenceGrant"),
        Object::ForebayPolicy(it) => line!(it, "forebay.io/v1alpha1", "ForebayPolicy"),
        Object::XBackendTrafficPolicy(it) => {
            line!(it, "gateway.networking.x-k8s.io/v1alpha1", "XBackendTrafficPolicy")
        }
        Object::BackendTlsPolicy(it) => line!(it, "gateway.networking.k8s.io/v1", "BackendTLSPolicy"),
    }?;
    file.write_all(b"\n---\n")
}
