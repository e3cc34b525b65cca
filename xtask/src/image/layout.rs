//! Images as files: an OCI image layout (image-spec, version 1.1) in a tar, of one architecture or of
//! several.
//!
//! A layout of one architecture has the list in it too by which `docker load` of any version finds its way.
//! Must not be in here: what is in the image.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::files::{BINARY, USER};
use crate::dist::hex::sha256;
use crate::dist::release::Release;
use crate::dist::target::Architecture;
use crate::dist::tree::{Tree, gzip};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The default ports; arguments change them.
const PORTS: [&str; 4] = ["80/tcp", "443/tcp", "8443/tcp", "10254/tcp"];

/// Something that is named by its hash.
#[derive(Clone, Debug)]
struct Blob {
    media_type: &'static str,
    content: Vec<u8>,
}

/// The image for one architecture.
#[derive(Clone, Debug)]
pub(super) struct Image {
    architecture: Architecture,
    config: Blob,
    layers: Vec<Blob>,
    manifest: Blob,
}

/// Images under one name: `forebay:0.1.0`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    pub(super) release: &'a Release,
    pub(super) name: &'a str,
    pub(super) images: &'a [Image],
}

impl Blob {
    fn digest(&self) -> String {
        format!("sha256:{}", sha256(&self.content))
    }

    /// Where a layout has it.
    fn path(&self) -> String {
        format!("blobs/sha256/{}", sha256(&self.content))
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest(), "size": self.content.len()})
    }

    fn json(media_type: &'static str, value: &Value) -> Blob {
        Blob { media_type, content: value.to_string().into_bytes() }
    }
}

impl Image {
    /// Of these layers, the lowest first.
    pub(super) fn new(
        release: &Release,
        architecture: Architecture,
        layers: &[(&str, Tree)],
    ) -> Result<Image> {
        let (mut blobs, mut hashes, mut history) = (Vec::new(), Vec::new(), Vec::new());
        for (what, tree) in layers {
            let archive = tree.tar("", release.time)?;
            hashes.push(format!("sha256:{}", sha256(&archive)));
            history.push(
                json!({"created": release.timestamp()?, "created_by": "cargo xtask image", "comment": what}),
            );
            blobs.push(Blob { media_type: LAYER, content: gzip(&archive)? });
        }
        let ports: Map<_, _> = PORTS.into_iter().map(|port| (port.to_owned(), json!({}))).collect();
        let config = json!({
            "created": release.timestamp()?,
            "architecture": architecture.name(),
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": [BINARY],
                "Env": ["PATH=/"],
                "WorkingDir": "/",
                "ExposedPorts": ports,
                "StopSignal": "SIGTERM",
                "Labels": annotations(release)?,
            },
            "rootfs": {"type": "layers", "diff_ids": hashes},
            "history": history,
        });
        let config = Blob::json(CONFIG, &config);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": blobs.iter().map(Blob::descriptor).collect::<Vec<_>>(),
            "annotations": annotations(release)?,
        });
        let manifest = Blob::json(MANIFEST, &manifest);
        Ok(Image { architecture, config, layers: blobs, manifest })
    }

    /// The machine that it is for.
    pub(super) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The digest by which it is pulled.
    pub(super) fn digest(&self) -> String {
        self.manifest.digest()
    }

    /// Bytes that are pulled.
    pub(super) fn size(&self) -> usize {
        self.layers.iter().map(|layer| layer.content.len()).sum()
    }

    fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers.iter().chain([&self.config, &self.manifest])
    }

    fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        descriptor["platform"] = json!({"architecture": self.architecture.name(), "os": "linux"});
        descriptor
    }
}

impl Layout<'_> {
    /// The digest of the name: of the one image, or of the list of several.
    pub(super) fn digest(&self) -> Result<String> {
        match self.images {
            [image] => Ok(image.digest()),
            _ => Ok(self.list()?.digest()),
        }
    }

    /// Packs the layout as a tar archive.
    pub(super) fn tar(&self) -> Result<Vec<u8>> {
        let mut tree = Tree::default();
        for blob in self.images.iter().flat_map(Image::blobs) {
            tree.file(&blob.path(), 0o644, blob.content.as_slice());
        }
        let mut named = if let [image] = self.images {
            tree.file("manifest.json", 0o644, self.list_for_docker(image).to_string());
            image.descriptor()
        } else {
            let list = self.list()?;
            tree.file(&list.path(), 0o644, list.content.as_slice());
            list.descriptor()
        };
        // The tag alone is what the specification asks for; containerd, and Docker with it, take the whole
        // name.
        named["annotations"] = json!({"org.opencontainers.image.ref.name": self.tag(), "io.containerd.image.name": self.whole_name()});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]});
        tree.file("index.json", 0o644, index.to_string());
        tree.file("oci-layout", 0o644, json!({"imageLayoutVersion": "1.0.0"}).to_string());
        tree.tar("", self.release.time)
    }

    /// The index of all architectures, for a pull without a platform.
    fn list(&self) -> Result<Blob> {
        let list = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": self.images.iter().map(Image::descriptor).collect::<Vec<_>>(),
            "annotations": annotations(self.release)?,
        });
        Ok(Blob::json(INDEX, &list))
    }

    /// `manifest.json` of Docker's own format (moby, image/spec), for versions that know no other.
    fn list_for_docker(&self, image: &Image) -> Value {
        let layers: Vec<_> = image.layers.iter().map(Blob::path).collect();
        json!([{"Config": image.config.path(), "RepoTags": [self.name], "Layers": layers}])
    }

    /// As Docker and containerd keep it: with a registry, which is Docker's where the name has none
    /// (distribution, reference).
    fn whole_name(&self) -> String {
        match self.name.split_once('/') {
            Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => self.name.to_owned(),
            Some(_) => format!("docker.io/{}", self.name),
            None => format!("docker.io/library/{}", self.name),
        }
    }

    fn tag(&self) -> &str {
        let last = self.name.rsplit('/').next().unwrap_or_default();
        last.rsplit_once(':').map_or("latest", |(_, tag)| tag)
    }
}

/// Annotations for people and scanners (image-spec, annotations).
fn annotations(release: &Release) -> Result<Value> {
    let mut annotations = json!({
        "org.opencontainers.image.title": "forebay",
        "org.opencontainers.image.description": "A Kubernetes ingress controller with its own HTTP proxy",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.created": release.timestamp()?,
    });
    for (name, value) in [("revision", &release.revision), ("source", &release.source)] {
        if let Some(value) = value {
            annotations[format!("org.opencontainers.image.{name}")] = value.as_str().into();
        }
    }
    Ok(annotations)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    fn image(release: &Release, architecture: Architecture) -> Image {
        let mut tree = Tree::default();
        tree.file("forebay", 0o755, architecture.name());
        Image::new(release, architecture, &[("the binary", tree)]).unwrap()
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    /// The content that a descriptor is of, after its hash and length were compared.
    fn follow(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let content = &files[&format!("blobs/{}", digest.replace(':', "/"))];
        assert_eq!(digest, format!("sha256:{}", sha256(content)));
        assert_eq!(descriptor["size"], content.len());
        content.clone()
    }

    fn follow_json(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        serde_json::from_slice(&follow(files, descriptor)).unwrap()
    }

    #[test]
    fn the_index_leads_to_every_architecture_and_its_layers() {
        let release = Release::of_tests();
        let images = Architecture::ALL.map(|architecture| image(&release, architecture));
        let layout = Layout { release: &release, name: "example.com/forebay:1.2.3", images: &images };
        let files = files(&layout.tar().unwrap());
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let named = &index["manifests"][0];
        assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
        assert_eq!(named["digest"], layout.digest().unwrap());
        let list = follow_json(&files, named);
        for (number, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
            let descriptor = &list["manifests"][number];
            assert_eq!(descriptor["platform"], json!({"architecture": architecture, "os": "linux"}));
            let manifest = follow_json(&files, descriptor);
            let config = follow_json(&files, &manifest["config"]);
            assert_eq!(config["architecture"], architecture);
            assert_eq!(config["config"]["User"], "65532:65532");
            let layer = follow(&files, &manifest["layers"][0]);
            let mut archive = Vec::new();
            flate2::read::GzDecoder::new(layer.as_slice()).read_to_end(&mut archive).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&archive)));
        }
        assert!(!files.contains_key("manifest.json"), "Docker would take one architecture for all");
    }

    #[test]
    fn one_architecture_is_for_docker_too() {
        let release = Release::of_tests();
        let images = [image(&release, Architecture::Amd64)];
        let layout = Layout { release: &release, name: "forebay:1.2.3", images: &images };
        let files = files(&layout.tar().unwrap());
        let list: Value = serde_json::from_slice(&files["manifest.json"]).unwrap();
        assert_eq!(list[0]["RepoTags"], json!(["forebay:1.2.3"]));
        assert!(files.contains_key(list[0]["Config"].as_str().unwrap()));
        assert!(files.contains_key(list[0]["Layers"][0].as_str().unwrap()));
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let annotations = &index["manifests"][0]["annotations"];
        assert_eq!(annotations["io.containerd.image.name"], "docker.io/library/forebay:1.2.3");
    }

    #[test]
    fn labels_say_what_is_known() {
        let known = annotations(&Release::of_tests()).unwrap();
        assert_eq!(known["org.opencontainers.image.revision"], "abc");
        assert_eq!(known["org.opencontainers.image.source"], "https://example.com/forebay");
        let unknown = Release { revision: None, source: None, ..Release::of_tests() };
        let unknown = annotations(&unknown).unwrap();
        assert_eq!(unknown["org.opencontainers.image.revision"], Value::Null);
    }
}
