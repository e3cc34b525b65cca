use control::status::StatusOptions;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn of_a_flag_given_twice_the_last_holds_and_lists_grow() {
    let line =
        "forebay serve --manifests a --manifests b --workers 1 --http-port 1 --workers 2 --http-port 2";
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    let Command::Serve(serve) = cli.command else { panic!("not serve") };
    assert_eq!((serve.workers, serve.reading.http_port, serve.manifests.len()), (Some(2), 2, 2));
}

#[test]
fn switches_are_written_as_pflag_has_them() {
    let parse = |switch: &str| {
        let cli = Cli::try_parse_from(["forebay", "check", switch, "x.yaml"]).unwrap();
        let Command::Check(check) = cli.command else { panic!("not check") };
        check.reading.watch_ingress_without_class
    };
    assert_eq!(parse("--watch-ingress-without-class"), Some(true));
    assert_eq!(parse("--watch-ingress-without-class=false"), Some(false));
    assert_eq!(parse("--disable-catch-all"), None);
}

fn status(arguments: &[&str]) -> StatusOptions {
    let cli = Cli::try_parse_from(["forebay", "serve"].iter().chain(arguments)).unwrap();
    let Command::Serve(serve) = cli.command else { panic!("not serve") };
    serve.status.options(None)
}

/// The effect of each of these options is tested in `control::status`.
#[test]
fn flags_about_what_is_written_to_the_cluster_become_options() {
    let default = status(&[]);
    assert!(default.update_on_shutdown && default.leader_election && default.sync_events);
    assert_eq!((default.interval, default.report_node_internal_ip), (Duration::from_mins(1), false));
    assert!(!status(&["--update-status-on-shutdown=false"]).update_on_shutdown);
    assert_eq!(status(&["--status-update-interval=7"]).interval, Duration::from_secs(7));
    assert!(status(&["--report-node-internal-ip-address"]).report_node_internal_ip);
    assert!(!status(&["--disable-leader-election"]).leader_election);
    assert!(!status(&["--disable-sync-events=true"]).sync_events);
}

/// Each example of a `--help` is a command line that is taken.
#[test]
fn every_command_has_examples_that_parse() {
    let mut found = 0;
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter_map(|line| line.strip_prefix("  forebay ")) {
            let line = line.split("  ").next().unwrap_or_default();
            let line = line.split(" > ").next().unwrap_or_default();
            let parsed = Cli::try_parse_from(["forebay"].into_iter().chain(line.split(' ')));
            let is_help =
                parsed.as_ref().is_err_and(|error| error.kind() == clap::error::ErrorKind::DisplayHelp);
            assert!(parsed.is_ok() || is_help, "{line}: {parsed:?}");
            found += 1;
        }
    }
    assert!(found > 15, "{found}");
}
