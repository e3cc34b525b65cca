//! The files of the image: the binary, its user, the certificate authorities, and the licences. No shell and
//! no system below it.
//!
//! Two layers, so that a new binary with the same dependencies is one of them. Must not be in here: the
//! format (`layout`), and the layer of rules (`core_rules`).

use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::dist::documents::Documents;
use crate::dist::target::Binary;
use crate::dist::tree::Tree;

/// User and group of the process. The chart says the same numbers.
pub(super) const USER: u32 = 65532;
/// Where the binary is.
pub(super) const BINARY: &str = "/forebay";
/// Where libraries for TLS look for the authorities of the system.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
const DOCUMENTS: &str = "usr/share/doc/forebay";
/// Columns of a line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// Of a PAX header, as Docker and containerd write and read extended attributes.
const CAPABILITIES: &str = "SCHILY.xattr.security.capability";
/// The number of `CAP_NET_BIND_SERVICE` (`capabilities(7)`).
const NET_BIND_SERVICE: u32 = 10;

/// The layer that stays the same until dependencies change.
pub(super) fn base(documents: &Documents) -> Tree {
    let mut tree = Tree::default();
    tree.file("etc/passwd", 0o644, format!("forebay:x:{USER}:{USER}:Forebay:/:/sbin/nologin\n"));
    tree.file("etc/group", 0o644, format!("forebay:x:{USER}:\n"));
    tree.file(AUTHORITIES, 0o644, authorities());
    tree.file(&format!("{DOCUMENTS}/LICENSE"), 0o644, documents.licence.as_str());
    tree.file(&format!("{DOCUMENTS}/NOTICES"), 0o644, documents.notices.as_str());
    tree
}

/// The layer of the binary. Its capability is for Pods in the node's network, which cannot open port 80
/// otherwise without root: docs/rbac.md.
pub(super) fn binary(binary: &Binary, documents: &Documents) -> Tree {
    let (mut tree, path) = (Tree::default(), BINARY.trim_start_matches('/'));
    tree.file(path, 0o755, binary.content.as_slice());
    tree.attribute(path, CAPABILITIES, effective(NET_BIND_SERVICE));
    // Beside the binary rather than in the base: it names the revision.
    tree.file(&format!("{DOCUMENTS}/forebay.cdx.json"), 0o644, documents.bill.as_str());
    tree
}

/// The extended attribute that gives a process this capability: `struct vfs_cap_data` of version 2
/// (`linux/capability.h`).
fn effective(capability: u32) -> Vec<u8> {
    const VERSION_2: u32 = 0x0200_0000;
    const EFFECTIVE: u32 = 1;
    // Permitted and inheritable ones below 32, and the same above.
    let words = [VERSION_2 | EFFECTIVE, 1 << capability, 0, 0, 0];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The authorities that Mozilla trusts for servers, as PEM. In a Pod, those of the API server come with its
/// token; these are for endpoints, collectors and servers of Redis elsewhere.
fn authorities() -> String {
    let mut text = String::new();
    for authority in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let encoded = BASE64_STANDARD.encode(authority);
        text += "-----BEGIN CERTIFICATE-----\n";
        for line in encoded.as_bytes().chunks(PEM_LINE) {
            writeln!(text, "{}", String::from_utf8_lossy(line)).expect("a string takes what is written");
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_many_and_each_is_whole() {
        let text = authorities();
        let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
        assert!(count > 50, "{count}");
        assert_eq!(count, text.matches("\n-----END CERTIFICATE-----\n").count());
        assert!(text.lines().all(|line| line.len() <= PEM_LINE));
    }

    #[test]
    fn the_capability_is_what_setcap_writes() {
        // `setcap cap_net_bind_service=+ep FILE && getfattr --encoding hex --name security.capability FILE`
        let expected = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(effective(NET_BIND_SERVICE), expected);
    }
}
