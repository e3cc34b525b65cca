//! `REDbot`, the lint for resources of HTTP, over answers of endpoints, of the cache, of files and of Forebay
//! itself.
//!
//! Must not be in here: what is asked for, which `testing/lint/paths.txt` has. What may be bad stands in
//! `testing/lint/exceptions.txt`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::clients::Served;
use super::stage::Stage;
use super::verdicts::Verdicts;

const LIMIT: Duration = Duration::from_mins(2);

/// Types and lengths of the files that are served.
const FILES: [(&str, usize); 4] =
    [("index.html", 2_000), ("small.txt", 100), ("large.css", 200_000), ("picture.png", 50_000)];

/// Has `REDbot` examine answers of all kinds.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let site = stage.folder.join("lint-site");
    make_site(&site)?;
    let site = site.to_string_lossy().into_owned();
    let served = Served::start(stage, "lint", &["--files-root", &site, "--cache-memory", "16m"])?;
    let testing = stage.tools.testing.join("lint");
    let paths = testing.join("paths.txt");
    let mut command = stage.tools.python_script("lint/lint.py", "lint");
    command.arg(served.http.to_string()).arg(&paths);
    let mut verdicts = Verdicts::default();
    verdicts.read("", &stage.output("lint", command, LIMIT)?);
    let asked = fs::read_to_string(&paths).with_context(|| paths.display().to_string())?;
    let asked = asked.lines().filter(|line| line.starts_with('/')).count();
    let (passed, excepted) = verdicts.judge(&testing.join("exceptions.txt"), asked)?;
    Ok(format!("{passed} answers have no note of level bad, {excepted} notes excepted"))
}

/// Files of several types, and a folder.
fn make_site(site: &Path) -> Result<()> {
    fs::create_dir_all(site.join("folder"))?;
    for (name, length) in FILES {
        let line = format!("/* a line of {name} */\n");
        let content: String = line.chars().cycle().take(length).collect();
        fs::write(site.join(name), content).with_context(|| name.to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::template::render_file;

    #[test]
    fn the_objects_are_yaml() {
        let values = json!({"host": "localhost", "certificate": {"chain": "a", "key": "b"}});
        let text = render_file("conformance/lint.yaml", values).expect("a template");
        serde_saphyr::from_multiple::<Value>(&text).expect("YAML");
    }
}
