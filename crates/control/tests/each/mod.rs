//! Runs a check on every case of a folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Calls `check` with each YAML file in a folder of `tests`; snapshots in it are named after the file. All
/// files are checked before the test fails.
pub(crate) fn case(folder: &str, check: impl Fn(&Path)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no case in {}", folder.display());
    let fails = |case: &PathBuf| {
        let name = case.file_name().unwrap().to_string_lossy();
        let check =
            || insta::with_settings!({ snapshot_suffix => name, input_file => case }, { check(case) });
        catch_unwind(AssertUnwindSafe(check)).is_err()
    };
    let failed: Vec<_> = cases.iter().filter(|case| fails(case)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
