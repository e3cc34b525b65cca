//! An image layout read back, as a container runtime does it: from the index to the layers, each hash
//! compared, and the layers unpacked.
//!
//! Must not be in here: how the layout is made (`layout`), so that the two do not share a mistake.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::child::output;
use crate::dist::hex::sha256;
use crate::dist::target::Architecture;

/// The parts of an image's configuration that a runtime needs.
#[derive(Debug)]
pub(super) struct Unpacked {
    /// The command that the image starts.
    pub(super) entrypoint: Vec<String>,
    /// Variables of its environment.
    pub(super) environment: Vec<String>,
    /// User and group, as numbers.
    pub(super) user: (u32, u32),
}

/// The files of a layout.
struct Files(BTreeMap<String, Vec<u8>>);

/// Unpacks this machine's image into a folder that is there.
pub(super) fn unpack(layout: &Path, root: &Path) -> Result<Unpacked> {
    let files = Files::read(layout).with_context(|| format!("cannot read {}", layout.display()))?;
    let manifest = files.manifest()?;
    let config = files.json(&manifest["config"])?;
    let hashes = items(&config["rootfs"]["diff_ids"]);
    let layers = items(&manifest["layers"]);
    ensure!(hashes.len() == layers.len(), "{} layers, and hashes of {}", layers.len(), hashes.len());
    for (layer, hash) in layers.iter().zip(hashes) {
        let mut archive = Vec::new();
        GzDecoder::new(files.blob(layer)?).read_to_end(&mut archive)?;
        ensure!(*hash == format!("sha256:{}", sha256(&archive)), "a layer is not that of {hash}");
        unpack_layer(&archive, root)?;
    }
    let config = &config["config"];
    let user = config["User"].as_str().and_then(|text| text.split_once(':')).context("no user and group")?;
    Ok(Unpacked {
        entrypoint: texts(&config["Entrypoint"]),
        environment: texts(&config["Env"]),
        user: (user.0.parse()?, user.1.parse()?),
    })
}

impl Files {
    fn read(layout: &Path) -> Result<Files> {
        let mut archive = tar::Archive::new(fs::File::open(layout)?);
        let mut files = BTreeMap::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.insert(entry.path()?.display().to_string(), content);
        }
        Ok(Files(files))
    }

    /// The manifest for this machine's architecture.
    fn manifest(&self) -> Result<Value> {
        let index = self.0.get("index.json").context("no index.json")?;
        let index: Value = serde_json::from_slice(index)?;
        let named = self.json(&index["manifests"][0])?;
        if named["layers"].is_array() {
            return Ok(named);
        }
        let own =
            Architecture::ALL.into_iter().find(|it| it.is_native()).context("no image for this machine")?;
        let is_own = |it: &&Value| it["platform"]["architecture"] == own.name();
        match items(&named["manifests"]).iter().find(is_own) {
            Some(descriptor) => self.json(descriptor),
            None => bail!("no image for {}", own.name()),
        }
    }

    fn json(&self, descriptor: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(self.blob(descriptor)?)?)
    }

    fn blob(&self, descriptor: &Value) -> Result<&[u8]> {
        let digest = descriptor["digest"].as_str().context("no digest")?;
        let blob = self.0.get(&format!("blobs/{}", digest.replace(':', "/")));
        let blob = blob.with_context(|| format!("{digest} is missing"))?;
        ensure!(digest == format!("sha256:{}", sha256(blob)), "what is called {digest} is something else");
        ensure!(descriptor["size"] == blob.len(), "{digest} has {} bytes", blob.len());
        Ok(blob)
    }
}

/// The library `tar` leaves out attributes, so that GNU's program does it. It refuses to write elsewhere.
fn unpack_layer(archive: &[u8], root: &Path) -> Result<()> {
    let mut file = NamedTempFile::new()?;
    file.write_all(archive)?;
    let mut command = Command::new("tar");
    command.args(["--extract", "--same-permissions", "--same-owner", "--xattrs", "--xattrs-include=*"]);
    output(command.arg("--file").arg(file.path()).arg("--directory").arg(root)).map(drop)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(list: &Value) -> Vec<String> {
    items(list).iter().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}
