//! Wycheproof's vectors for JSON Web Signatures and JSON Web Keys (`testing/wycheproof`).

use identity::jwk::{KeySet, Origin};
use identity::jws::Jws;
use serde_json::{Value, json};

/// Vectors whose result here is not Wycheproof's, by file and number, and why.
const EXCEPTIONS: &[(&str, u64, &str)] = &[
    ("signature", 346, "the token is PS384, and the key is for PS256"),
    ("signature", 347, "the key is for ES521, which is no algorithm"),
    ("signature", 350, "the token is PS384, and the key is for PS256"),
    ("signature", 351, "the key is for ES521, which is no algorithm"),
    (
        "signature",
        367,
        "the padding that it is about is not in the vector, which is the same as the valid 357",
    ),
    (
        "signature",
        370,
        "the padding that it is about is not in the vector, which is the same as the valid 357",
    ),
    ("signature", 372, "a character that is not base64url is refused"),
    ("signature", 373, "a character that is not base64url is refused"),
];

/// Whether a signature is accepted with the key or the keys of its group.
fn is_accepted(key: &Value, jws: &str) -> bool {
    let document = if key.get("keys").is_some() { key.clone() } else { json!({"keys": [key]}) };
    let Ok(keys) = KeySet::parse(document.to_string().as_bytes(), Origin::Secret) else { return false };
    Jws::parse(jws.as_bytes()).is_ok_and(|jws| jws.verify(&keys).is_ok())
}

fn run(file: &str, text: &str) {
    let document: Value = serde_json::from_str(text).expect("a file of vectors");
    let (mut tests, mut wrong) = (0, Vec::new());
    for group in document["testGroups"].as_array().expect("groups") {
        for test in group["tests"].as_array().expect("tests") {
            tests += 1;
            let number = test["tcId"].as_u64().expect("a number");
            let accepted = is_accepted(&group["key"], test["jws"].as_str().expect("a signature"));
            let should = test["result"] == "valid";
            let is_exception = EXCEPTIONS.iter().any(|(name, known, _)| *name == file && *known == number);
            if (accepted != should) != is_exception {
                wrong.push(format!("{number} {} {}: accepted {accepted}", group["comment"], test["comment"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{file}: {} of {tests}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tests > 20, "{file} has {tests} tests");
}

#[test]
fn signatures() {
    run("signature", include_str!("../../../testing/wycheproof/json_web_signature_test.json"));
}

#[test]
fn keys() {
    run("key", include_str!("../../../testing/wycheproof/json_web_key_test.json"));
}
