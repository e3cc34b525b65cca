//! Identities in the cluster: the authority, the API server's certificate, users with tokens and their
//! kubeconfigs.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aws_lc_rs::rand;
use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use crate::{Client, NODE_ADDRESS};

pub(crate) const AUTHORITY: &str = "ca.crt";
pub(crate) const API_CERTIFICATE: &str = "api.crt";
pub(crate) const API_KEY: &str = "api.key";
/// Signs the tokens of `ServiceAccounts`.
pub(crate) const ACCOUNTS_KEY: &str = "accounts.key";
/// The key that verifies their tokens.
pub(crate) const ACCOUNTS_PUBLIC_KEY: &str = "accounts.pub";
pub(crate) const TOKENS: &str = "tokens.csv";

/// Users with a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Admin,
    Controllers,
    Scheduler,
    Kubelet,
}

/// The files that name everybody, and what the first user needs to ask the API.
pub(crate) struct Credentials {
    authority: CertificateDer<'static>,
    token: String,
}

impl User {
    const ALL: [User; 4] = [User::Admin, User::Controllers, User::Scheduler, User::Kubelet];

    fn name(self) -> &'static str {
        match self {
            User::Admin => "admin",
            User::Controllers => "controllers",
            User::Scheduler => "system:kube-scheduler",
            User::Kubelet => "kubelet",
        }
    }

    /// Whose rights it has, beside its own. The controllers are one user here, and so need the rights of all
    /// of them.
    fn groups(self) -> &'static str {
        match self {
            User::Admin | User::Controllers | User::Kubelet => "system:masters",
            User::Scheduler => "",
        }
    }

    pub(crate) fn kubeconfig(self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.kubeconfig", self.name().trim_start_matches("system:")))
    }
}

impl Credentials {
    pub(crate) fn make(folder: &Path, api: SocketAddr) -> Result<Credentials> {
        let (authority, issuer) = authority()?;
        let (certificate, key) = api_certificate(&issuer)?;
        fs::write(folder.join(AUTHORITY), authority.pem())?;
        fs::write(folder.join(API_CERTIFICATE), certificate.pem())?;
        fs::write(folder.join(API_KEY), key.serialize_pem())?;
        let accounts = KeyPair::generate()?;
        fs::write(folder.join(ACCOUNTS_KEY), accounts.serialize_pem())?;
        fs::write(folder.join(ACCOUNTS_PUBLIC_KEY), accounts.public_key_pem())?;
        let (mut tokens, mut first) = (String::new(), None);
        for user in User::ALL {
            let token = random_token()?;
            writeln!(
                tokens,
                "{token},{name},{name},\"{groups}\"",
                name = user.name(),
                groups = user.groups()
            )?;
            fs::write(user.kubeconfig(folder), kubeconfig(api, &authority.pem(), &token))?;
            first.get_or_insert(token);
        }
        fs::write(folder.join(TOKENS), tokens)?;
        Ok(Credentials { authority: authority.der().clone(), token: first.context("a user")? })
    }

    pub(crate) fn client(&self, address: SocketAddr) -> Result<Client> {
        Client::with_token(address, self.authority.clone(), self.token.clone())
    }
}

fn authority() -> Result<(rcgen::Certificate, Issuer<'static, KeyPair>)> {
    let mut params = named("test-cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate, Issuer::new(params, key)))
}

fn api_certificate(issuer: &Issuer<'static, KeyPair>) -> Result<(rcgen::Certificate, KeyPair)> {
    let node = NODE_ADDRESS.to_string();
    let names = ["localhost", "kubernetes.default.svc", "127.0.0.1", "10.96.0.1", &node];
    let mut params = CertificateParams::new(names.map(String::from))?;
    params.distinguished_name = named("kube-apiserver").distinguished_name;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?, key))
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// As JSON, which YAML is a superset of.
fn kubeconfig(api: SocketAddr, authority: &str, token: &str) -> String {
    let authority = BASE64_STANDARD.encode(authority);
    let server = format!("https://{api}");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    });
    config.to_string()
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
