//! TLS with the clients of a host.

use model::CipherSuite;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::translate::characters::consists_of;
use crate::translate::ciphers;
use crate::translate::claim::{PassthroughClaim, TlsClaim};
use crate::translate::value::{self, Applied, set};

annotations! {
    "ssl-ciphers", Ingress, "", Supported(ssl_ciphers), IgnoresIngress,
        "Cipher suites of TLS 1.2 of the host.";
    "ssl-passthrough", Ingress, "false", Supported(|s, v| set(&mut s.host_tls.passthrough, value::boolean(v))), IgnoresIngress,
        "Relays TLS without decrypting it, with `--enable-ssl-passthrough`.";
    "ssl-prefer-server-ciphers", Ingress, "", Supported(|s, v| set(&mut s.host_tls.prefer_server_ciphers, value::boolean(v).map(Some))),
        "Prefers our order of cipher suites.";
}

/// Settings of TLS with clients.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    /// TLS 1.2 suites to offer; none for those of the settings.
    ciphers: Option<Vec<CipherSuite>>,
    prefer_server_ciphers: Option<bool>,
    /// Requests are taken before the handshake is complete; none for what the settings say.
    pub(super) early_data: Option<bool>,
    /// Connections are forwarded to an endpoint without being decrypted.
    passthrough: bool,
}

impl Resolve for Settings {
    type Resolved = ();

    /// Terminates TLS where the option for passing it on is not set.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        const NAME: &str = "ssl-passthrough";
        if self.passthrough && !context.inputs.options.ssl_passthrough {
            self.passthrough = false;
            let called = context.asker.called(NAME);
            let message = format!("{called} has no effect without --enable-ssl-passthrough: TLS ends here");
            findings.problems.extend(context.without_effect(NAME, message));
        }
    }
}

pub(super) fn apply(settings: &Settings, tls: &mut TlsClaim) {
    tls.ciphers.clone_from(&settings.ciphers);
    tls.prefer_server_ciphers = settings.prefer_server_ciphers;
    tls.early_data = settings.early_data;
    tls.passthrough = settings.passthrough.then(PassthroughClaim::default);
}

fn ssl_ciphers(settings: &mut super::Settings, text: &str) -> Applied {
    if !consists_of(&text.replace(' ', ""), &["!:+-"]) {
        return Err(format!("{text:?} is no list of cipher suites"));
    }
    match ciphers::parse(text) {
        Ok((suites, remark)) => {
            settings.host_tls.ciphers = Some(suites);
            Ok(remark)
        }
        // In ingress-nginx such a value would block all later changes of any Ingress.
        Err(why) => Ok(Some(format!("{why}; the default is used"))),
    }
}
