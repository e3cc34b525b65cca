//! Rule sets from their text: what they hold, and where faults are.

use super::*;
use crate::seclang::NoFiles;

fn problems(text: &str) -> Vec<String> {
    match Rules::compile(&[Source { name: "a.conf", text }], &NoFiles) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn faults_have_their_place() {
    let cases = [
        ("SecNothing a", "a.conf:1:1: there is no directive SecNothing"),
        ("\nSecRule ARGZ \"@rx a\" \"id:1\"", "a.conf:2:9: there is no variable ARGZ"),
        ("SecRule ARGS \"@rx a(?<=b*)\" \"id:1\"", "a.conf:1:20: look-behind needs a part of bounded length"),
        (
            "SecRule ARGS:/a(?=b)/ \"@rx a\" \"id:1\"",
            "a.conf:1:16: look-around, atomic groups and references",
        ),
        ("SecRule ARGS \"@rsub s/a/b/\" \"id:1\"", "the operator @rsub is not available"),
        ("SecRule ARGS \"@rz a\" \"id:1\"", "there is no operator @rz"),
        (
            "SecRule ARGS \"a\" \\\n  \"id:1,\\\n  t:nothing\"",
            "a.conf:3:3: there is no transformation nothing",
        ),
        ("SecRule ARGS \"a\" \"deny\"", "a.conf:1:1: a rule needs an id"),
        ("SecAction \"id:1\"\nSecAction \"id:1\"", "a.conf:2:1: the id 1 is taken by a.conf:1"),
        ("SecRule ARGS a \"id:1,chain\"", "a.conf:1:1: the chain has no further rule"),
        ("SecRule ARGS a \"id:1,chain\"\nSecMarker A", "a.conf:1:1: the chain has no further rule"),
        ("SecRuleScript a.lua", "a.conf:1:1: SecRuleScript is not available"),
        ("SecRule FILES \"@inspectFile a\" \"id:1\"", "the operator @inspectFile is not available"),
        ("SecAction \"id:1,exec:/bin/a\"", "a.conf:1:17: the action exec is not available"),
        ("Include other.conf", "a.conf:1:9: there is no file other.conf"),
        ("SecRuleEngine Perhaps", "a.conf:1:15: Perhaps is not On, Off or DetectionOnly"),
    ];
    for (text, expected) in cases {
        let found = problems(text);
        assert!(found.first().is_some_and(|problem| problem.contains(expected)), "{text}: {found:?}");
    }
}

#[test]
fn rules_that_never_match_are_noted_with_their_place() {
    let text = "SecAction id:1\nSecRule REMOTE_ADDR \"@rbl list.example\" \"id:2\"";
    let rules = Arc::new(Rules::compile(&[Source { name: "a.conf", text }], &NoFiles).expect("rules"));
    let notices: Vec<_> = rules.notices().iter().map(ToString::to_string).collect();
    assert_eq!(notices, ["a.conf:2:22: @rbl never matches: names are not looked up"]);
    let extended = Rules::extend(&rules, Around::default(), &NoFiles).expect("rules");
    assert_eq!(extended.notices(), []);
}

#[test]
fn all_faults_of_a_text_are_reported() {
    assert_eq!(problems("SecNothing\nSecRule ARGS a \"id:1\"\nSecNothing\nSecAction x").len(), 3);
}

#[test]
fn every_directive_is_taken_or_refused_with_its_reason() {
    let samples = [
        ("Include", "*.conf"),
        ("SecAction", "\"id:1,pass\""),
        ("SecDefaultAction", "\"phase:1,pass\""),
        ("SecRule", "ARGS \"@rx a\" \"id:1\""),
        ("SecRuleUpdateActionById", "1 \"nolog\""),
        ("SecRuleUpdateTargetById", "1 \"!ARGS:a\""),
        ("SecRuleUpdateTargetByMsg", "a \"!ARGS:a\""),
        ("SecRuleUpdateTargetByTag", "a \"!ARGS:a\""),
        ("SecArgumentSeparator", ";"),
        ("SecAuditEngine", "RelevantOnly"),
        ("SecAuditLogRelevantStatus", "\"^(?:5|4(?!04))\""),
        ("SecRequestBodyAccess", "On"),
        ("SecRequestBodyLimitAction", "ProcessPartial"),
        ("SecResponseBodyAccess", "Off"),
        ("SecResponseBodyLimitAction", "Reject"),
        ("SecRuleEngine", "DetectionOnly"),
        ("SecUnicodeMapFile", "unicode.mapping 20127"),
    ];
    for entry in crate::DIRECTIVES {
        let sample = samples.iter().find(|sample| sample.0 == entry.name).map_or("1", |sample| sample.1);
        let found = problems(&format!("{} {sample}", entry.name));
        match entry.kind {
            Kind::Refused(reason) => assert!(found[0].contains(reason), "{found:?}"),
            _ => assert_eq!(found, [] as [String; 0], "{}", entry.name),
        }
        assert!(!entry.doc.is_empty());
    }
}

#[test]
fn files_include_one_another_up_to_a_depth() {
    struct Circle;
    impl Files for Circle {
        fn expand(&self, pattern: &str, _from: &str) -> Vec<String> {
            vec![pattern.to_owned()]
        }

        fn read(&self, name: &str, _from: &str) -> Result<Vec<u8>, String> {
            match name {
                "circle" => Ok(b"Include circle".to_vec()),
                "rule" => Ok(b"\nSecAction \"id:x\"".to_vec()),
                _ => Err(format!("no file {name}")),
            }
        }
    }
    let cases = [
        ("Include circle", "circle:1:9: too many files include one another"),
        ("Include rule", "rule:2:12: x is not a number in range"),
        ("Include other", "a:1:9: no file other"),
    ];
    for (text, expected) in cases {
        let problems = Rules::compile(&[Source { name: "a", text }], &Circle).err().expect(text);
        assert_eq!(problems[0].to_string(), expected);
    }
}
