use control::translate::{configmap, ingress};

use super::*;

#[test]
fn every_name_is_that_of_an_annotation_or_of_a_key() {
    let annotations = ingress::annotations::ANNOTATIONS.iter().map(|annotation| annotation.name);
    let own = ingress::own::annotations().map(|one| format!("{}/{}", ingress::own::PREFIX, one.name));
    let known = annotations.chain(configmap::KEYS.iter().map(|key| key.name)).map(str::to_owned);
    let fields = control::translate::FIELDS.iter().map(|field| (*field).to_owned());
    let known: Vec<_> = known.chain(own).chain(fields).collect();
    for (stage, name, _, names) in STEPS {
        assert!(!name.is_empty() && !names.is_empty(), "{stage:?}");
        for name in *names {
            assert!(known.iter().any(|known| known == name), "{stage:?}: {name}");
        }
    }
}
