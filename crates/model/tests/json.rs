//! Parts of a configuration as JSON: readable, and without secrets.

use std::sync::Arc;
use std::time::Duration;

use model::{
    Affinity, AffinityCookie, AffinityMode, Backends, BasicAuth, ClusterId, KeyEncoding, PasswordScheme,
    PrivateKey, SessionKey, Users, to_json,
};
use serde_json::{Value, json};

fn name(id: ClusterId) -> Value {
    format!("cluster {}", id.0).into()
}

#[test]
fn ids_become_names_durations_text_and_nothing_stays_out() {
    let affinity = Affinity {
        mode: AffinityMode::Balanced,
        change_on_failure: false,
        cookie: AffinityCookie::default(),
        header: None,
        age_max: Some(Duration::from_millis(1500)),
        key: None,
    };
    let json = to_json(&(Backends::One(ClusterId(3)), affinity), &name);
    assert_eq!(json[0], json!({"One": "cluster 3"}));
    assert_eq!(json[1]["age_max"], "1.5s");
    assert_eq!(json[1].get("header"), None);
}

#[test]
fn secrets_are_left_out() {
    let key = PrivateKey { encoding: KeyEncoding::Pkcs8, der: vec![77; 3] };
    assert_eq!(to_json(&key, &name), json!({"encoding": "Pkcs8"}));
    assert_eq!(to_json(&SessionKey::new(&[b"secret"]), &name), "SessionKey { .. }");
    let users = Arc::new(Users::new(vec![("a".to_owned(), "hash".to_owned())], [7; 32]));
    let basic = BasicAuth { scheme: PasswordScheme::Basic, realm: "r".to_owned(), users };
    let shown = json!({"scheme": "Basic", "realm": "r", "users": "1 users (07070707)"});
    assert_eq!(to_json(&basic, &name), shown);
}
