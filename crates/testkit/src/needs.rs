//! Requirements of tests: programs, and permissions of the kernel. A test that is left out is reported, in
//! the run and at the end of `make test`.
//!
//! Must not be in here: which package a program is in (`testing/programs`).

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;

/// Names the file that `make test` prints at its end.
const FILE: &str = "FOREBAY_LEFT_OUT";
/// Set to `true` by whatever runs tests for many people: there, every program can be had.
const CI: &str = "CI";

/// Whether a program, or a file or folder by its path, is installed, for the test that this thread runs. If
/// not, the test is left out, which is recorded.
///
/// # Panics
///
/// The program is missing in CI.
pub fn needs(program: &str) -> bool {
    needs_for(&this_test(), program)
}

/// [`needs`], for threads without the name of a test.
pub fn needs_for(test: &str, program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = if program.starts_with('/') {
        Path::new(program).exists()
    } else {
        env::split_paths(&path).any(|folder| is_in(&folder, program))
    };
    if !is_there {
        let is_ci = env::var(CI).is_ok_and(|value| value == "true");
        assert!(!is_ci, "{test} needs {program}, which `testing/programs` has installed in CI");
        left_out(test, &format!("{program} is not installed"));
    }
    is_there
}

/// Records that this machine does not permit a test, or a part of it.
pub fn left_out(test: &str, why: &str) {
    let line = line_of(test, why);
    // Written to the descriptor, since the capture of the tests' output would hide it.
    let _ = io::stderr().write_all(format!("left out: {line}").as_bytes());
    if let Some(path) = env::var_os(FILE) {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// The name of the test that this thread runs, as the test harness gives it to threads.
pub fn this_test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// One line, whatever the reason consists of: several processes append to one file.
fn line_of(test: &str, why: &str) -> String {
    format!("{test} ({})\n", why.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_in(folder: &Path, program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    let executable = |mode: u32| mode & 0o111 != 0;
    let file = folder.join(program).metadata();
    file.is_ok_and(|file| file.is_file() && executable(file.permissions().mode()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_program_is_a_file_that_can_be_run() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("text"), "").expect("a file");
        fs::create_dir(folder.path().join("folder")).expect("a folder");
        assert!(is_in(Path::new("/bin"), "sh"));
        assert!(["text", "folder", "nothing"].iter().all(|name| !is_in(folder.path(), name)));
    }

    #[test]
    fn a_test_knows_its_name_and_a_reason_is_one_line() {
        assert_eq!(this_test(), "needs::tests::a_test_knows_its_name_and_a_reason_is_one_line");
        assert_eq!(line_of("a", "no nginx:\n  not found\n"), "a (no nginx: not found)\n");
    }

    /// Programs that the sources name are in the list that `make test` installs, and each program that a test
    /// starts is one that it requires.
    #[test]
    fn every_program_that_a_test_needs_is_installed_by_make_test() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let list = fs::read_to_string(root.join("testing/programs")).expect("the list");
        let listed: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("test ")).collect();
        // Names that reach `needs` in a variable.
        let mut needed: Vec<(PathBuf, String)> =
            ["nginx", "node", "python3", "redis-server"].map(|program| (root.into(), program.into())).into();
        let count = needed.len();
        for folder in ["crates", "testing", "xtask"] {
            collect(&root.join(folder), &mut needed);
        }
        assert!(needed.len() > count, "calls of `needs` are found");
        for (file, program) in needed {
            let is_listed = listed.iter().any(|line| line.split(' ').next() == Some(&*program));
            assert!(is_listed, "{}: testing/programs lacks {program}", file.display());
        }
    }

    /// The programs that sources below a folder name in `needs("...")` or `needs_for(..., "...")`.
    fn collect(folder: &Path, needed: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, needed);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("needs.rs")
            {
                let text = fs::read_to_string(&path).expect("a source");
                let calls = text.split("needs(\"").skip(1);
                let calls = calls.chain(text.lines().filter_map(|line| {
                    let (_, call) = line.split_once("needs_for(")?;
                    Some(call.split_once(", \"")?.1)
                }));
                let programs = calls.filter_map(|rest| rest.split('"').next());
                needed.extend(programs.map(|program| (path.clone(), program.to_owned())));
            }
        }
    }
}
