//! Rule sets from folders and texts.

use std::fs;

use tempfile::TempDir;

use super::*;

/// A rules folder with a setup, two files of rules and a list.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("crs-setup.conf", "SecDefaultAction \"phase:1,log,pass\"");
    write("rules/REQUEST-901-A.conf", "SecRule ARGS \"@pmFromFile words.data\" \"id:1,phase:1,deny\"");
    write("rules/RESPONSE-950-B.conf", "SecAction \"id:2,phase:3,pass\"");
    write("rules/words.data", "evil\n");
    folder
}

fn loaded(folder: &TempDir) -> Firewalls {
    Firewalls::load(&[folder.path().to_owned(), "/nowhere".into()]).unwrap()
}

fn wanted(snippet: &str, core: bool) -> Wanted {
    Wanted { snippet: Some(snippet.into()), base: Base { core, ..Base::default() }, ..Wanted::default() }
}

#[test]
fn equal_texts_are_compiled_once() {
    let folder = folder();
    let firewalls = loaded(&folder);
    let names: Vec<_> = firewalls.core_rules().map(|(name, _)| name).collect();
    assert_eq!(names, ["crs-setup.conf", "rules/REQUEST-901-A.conf", "rules/RESPONSE-950-B.conf"]);
    let set = |text, core| firewalls.set(&wanted(text, core)).unwrap();
    assert_eq!(set("SecRuleEngine On", true), set("SecRuleEngine On", true));
    assert_ne!(set("SecRuleEngine On", true), set("SecRuleEngine On", false));
    assert_eq!(set("", true), set(" ", true), "a blank snippet is none");
    assert_eq!(set("SecRuleEngine On", true).rules().len(), 2);
    let included = "SecRuleEngine On\nInclude /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf";
    assert_eq!(set(included, false).rules().len(), 2);
    let one = "Include /etc/nginx/owasp-modsecurity-crs/rules/REQUEST-9*.conf";
    assert_eq!(set(one, false).rules().len(), 1);
    let settings = "Include /etc/nginx/modsecurity/modsecurity.conf";
    assert_eq!(set(settings, false).rules().len(), 6);
}

#[test]
fn the_files_of_a_configmap_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("..2026_07_01");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("REQUEST-901-A.conf"), "SecAction \"id:1,phase:1,pass\"").unwrap();
    std::os::unix::fs::symlink("..2026_07_01", folder.path().join("..data")).unwrap();
    let (link, file) = (folder.path().join("REQUEST-901-A.conf"), "..data/REQUEST-901-A.conf");
    std::os::unix::fs::symlink(file, link).unwrap();
    let names: Vec<_> = loaded(&folder).core_rules().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["REQUEST-901-A.conf"]);
}

#[test]
fn faults_have_their_place_and_no_file_outside_is_read() {
    let folder = folder();
    let firewalls = loaded(&folder);
    let fault = |text: &str| firewalls.set(&wanted(text, false)).unwrap_err();
    for (text, expected) in [
        ("\n SecNothing", "modsecurity-snippet, line 2, column 2: there is no directive SecNothing"),
        ("Include /etc/passwd", "line 1, column 9: there is no file /etc/passwd"),
        ("Include ../../../etc/passwd", "there is no file ../../../etc/passwd"),
        ("SecRule ARGS \"@pmFromFile /etc/passwd\" \"id:1\"", "there is no file /etc/passwd"),
        ("SecNothing\nSecNothing", "(and 1 more)"),
    ] {
        let fault = fault(text);
        assert!(fault.is_of_snippet() && fault.to_string().contains(expected), "{text}: {fault}");
    }
    let without = Firewalls::default();
    assert_eq!(without.set(&wanted("", true)), Err(Fault::NoCoreRules));
    assert!(without.set(&wanted("", false)).is_ok());
}

#[test]
fn the_default_settings_have_no_fault_and_only_report() {
    let base = Base { defaults: true, ..Base::default() };
    let set = Firewalls::default().set(&Wanted { base, ..Wanted::default() }).unwrap();
    assert_eq!(set.rules().settings().mode, waf::settings::Mode::DetectionOnly);
    assert_eq!(set.rules().settings().request_body_bytes_max, 13_107_200);
}

#[test]
fn the_last_good_set_of_an_object_is_kept_while_the_object_exists() {
    let firewalls = Firewalls::default();
    let set = firewalls.set(&wanted("SecRuleEngine On", false)).unwrap();
    let object = ObjectRef { kind: "Ingress", namespace: "default".to_owned(), name: "a".to_owned() };
    firewalls.keep(&object, &set);
    assert_eq!(firewalls.last(&object), Some(set));
    assert_eq!(firewalls.for_review().last(&object), None);
    firewalls.retain(|known| *known != object);
    assert_eq!(firewalls.last(&object), None);
}
