//! The commands that the README tells a newcomer to run.
//!
//! Must not be in here: running them.

/// Above the commands.
const HEADING: &str = "## Try it";

/// The `make` commands of the first block of code below the heading.
pub(super) fn commands(readme: &str) -> Vec<String> {
    let section = readme.split_once(HEADING).map_or("", |(_, rest)| rest);
    let block = section.lines().skip_while(|line| !is_code(line)).take_while(|line| is_code(line));
    let commands = block.map(|line| line.split('#').next().unwrap_or_default().trim());
    commands.filter(|command| command.starts_with("make ")).map(str::to_owned).collect()
}

fn is_code(line: &str) -> bool {
    line.starts_with("    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_two_commands() {
        let readme = include_str!("../../../README.md");
        assert_eq!(commands(readme), ["make demo", "make test"]);
        assert!(commands("# Something else\n\n    make all\n").is_empty());
    }
}
