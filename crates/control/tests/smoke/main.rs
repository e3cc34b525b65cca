//! Runs the fuzz target `translate` for a short time.

mod checks;
#[path = "../../../../fuzz/smoke.rs"]
mod driver;
mod tenants;

/// The number of mutations of each entry of the corpus. Each is translated a dozen times.
const ROUNDS: u64 = 150;

/// Texts with a meaning in manifests, which mutations insert.
const WORDS: &[&[u8]] = &[
    b"\n---\n",
    b"\n=====\n",
    b"\n  ",
    b": ",
    b"\"",
    b"{}",
    b"[]",
    b"- ",
    b"true",
    b"0",
    b"default",
    b"other",
    b"a.test",
    b"*.",
    b"/",
    b"Exact",
    b"Prefix",
    b"creationTimestamp: 2020-01-01T00:00:00Z",
    b"nginx.ingress.kubernetes.io/ssl-passthrough: \"true\"",
    b"nginx.ingress.kubernetes.io/auth-tls-secret: default/ca",
    b"nginx.ingress.kubernetes.io/server-snippet: x",
    b"outside.test",
    b"localhost",
];

#[test]
fn manifests() {
    driver::smoke("translate", ROUNDS, WORDS, checks::translate);
}

/// The number of mutations of each entry of the corpus of tenants.
const TENANTS_ROUNDS: u64 = 150;

#[test]
fn tenants_keep_out_of_each_others_hosts() {
    driver::smoke(
        "tenants",
        TENANTS_ROUNDS,
        &[b"\0\0\0", b"\x01\x01", b"\xff", b"\x02\x03"],
        tenants::tenants,
    );
}
