//! Passwords, whose hashes are dear to verify.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Case, Directives, Feature, Manifests, Scene};
use crate::peers::proxy::HOST;
use crate::peers::proxy::manifests::secret;

/// By bcrypt with cost 10, of [`PASSWORD`].
const USERS: &str = "alice:$2b$10$abcdefghijklmnopqrstuuKAgiTP38SAMCUosacFdrijE3Ama966u\n";
const PASSWORD: &str = "a long secret";
/// One hash takes some tens of milliseconds, and nginx computes it for every request.
const RATE_PER_SECOND: f64 = 5.0;

/// The same user again and again. Only one host asks for passwords: the others are there for who needs none.
pub(crate) fn basic_bcrypt() -> Case {
    let feature = Feature {
        directives: Directives {
            http: format!("  map $host $realm {{ default off; {HOST} members; }}\n"),
            location: "      auth_basic $realm; auth_basic_user_file users;\n".into(),
            files: vec![("users", USERS.into())],
            ..Directives::default()
        },
        manifests: Manifests {
            annotations: vec![
                ("auth-type", "basic".into()),
                ("auth-secret", "users".into()),
                ("auth-realm", "members".into()),
            ],
            objects: secret("users", "Opaque", &[("auth", USERS.into())]),
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case {
        feature,
        rate_per_second: RATE_PER_SECOND,
        headers: vec![("Authorization", credentials(PASSWORD))],
        check,
        ..Case::default()
    }
}

/// Credentials that no request had before.
pub(crate) fn wrong_credentials(number: u32) -> String {
    credentials(&format!("wrong-{number}"))
}

fn credentials(password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("alice:{password}")))
}

fn check(scene: &Scene) -> Result<()> {
    for (headers, expected) in
        [(None, 401), (Some(wrong_credentials(0)), 401), (Some(credentials(PASSWORD)), 200)]
    {
        let headers: Vec<_> = headers.iter().map(|value| ("Authorization", value.as_str())).collect();
        let status = scene.get("/0", &headers)?.status;
        ensure!(status == expected, "{headers:?} is answered with {status}");
    }
    Ok(())
}
