//! A frame from a sample of the doctor.

use doctor::{Absence, Sample};
use record::{Absent, Frame};

/// Files that no check reads, but whoever looks at the past wants to see.
const BESIDE: [&str; 2] = ["proc/pressure/io", "proc/pressure/memory"];

/// Files that have the addresses of clients: the doctor reads them where the kernel has nothing better.
const LEFT_OUT: [&str; 2] = ["proc/net/tcp", "proc/net/tcp6"];

/// Lines that are recorded of the files of threads, by the ends of their names before the colon. The others
/// change with each frame and no check reads them.
const OF_THREADS: [(&str, &[&str]); 2] = [
    ("/sched", &["nr_migrations", "nr_switches", "sum_exec_runtime"]),
    ("/status", &["Name", "Cpus_allowed_list", "voluntary_ctxt_switches"]),
];

/// The frame that holds a sample.
pub(crate) fn of(sample: &Sample, at: u64, finer: bool) -> Frame {
    let files = sample.files().filter(|(path, _)| !LEFT_OUT.contains(path)).map(|(path, content)| {
        let content = match content {
            Ok(text) => Ok(recorded(path, text)),
            Err(absence) => Err(absent(absence)),
        };
        (path.to_owned(), content)
    });
    let beside = BESIDE.iter().filter_map(|path| {
        let text = std::fs::read_to_string(format!("/{path}")).ok()?;
        Some(((*path).to_owned(), Ok(text)))
    });
    Frame {
        at,
        finer,
        origin: serde_json::to_string(&sample.taken).unwrap_or_default(),
        files: files.chain(beside).collect(),
    }
}

/// The part of a file that is recorded: all of it, but for files of threads.
fn recorded(path: &str, text: &str) -> String {
    let mut of_threads = OF_THREADS.iter().filter(|_| path.contains("/task/"));
    let Some((_, names)) = of_threads.find(|(end, _)| path.ends_with(end)) else {
        return text.to_owned();
    };
    let is_wanted = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().trim_end();
        names.iter().any(|end| name.ends_with(end))
    };
    text.split_inclusive('\n').filter(is_wanted).collect()
}

fn absent(absence: &Absence) -> Absent {
    match absence {
        Absence::Missing => Absent::Missing,
        Absence::Unreadable(why) => Absent::Unreadable(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_lines_of_threads_that_checks_read_and_no_address_of_a_client() {
        let mut sample = Sample::default();
        let status = "Name:\tworker 0\nVmRSS:\t5 kB\nCpus_allowed_list:\t0-3\nvoluntary_ctxt_switches:\t7\n\
                      nonvoluntary_ctxt_switches:\t2\n";
        let sched =
            "worker (7, #threads: 1)\n---\nse.exec_start : 3.5\nse.nr_migrations : 4\nnr_switches : 9\n";
        for (path, text) in [
            ("proc/7/status", status),
            ("proc/7/task/7/status", status),
            ("proc/7/task/7/sched", sched),
            ("proc/net/tcp", "client"),
        ] {
            sample.put(path, Ok(text.to_owned()));
        }
        sample.put("proc/net/ip_vs", Err(Absence::Missing));
        let frame = of(&sample, 5, false);
        let text = |path: &str| frame.files[path].clone();
        assert_eq!(text("proc/7/status"), Ok(status.to_owned()), "that of the process is whole");
        assert_eq!(text("proc/7/task/7/status"), Ok(status.replace("VmRSS:\t5 kB\n", "")));
        assert_eq!(text("proc/7/task/7/sched"), Ok("se.nr_migrations : 4\nnr_switches : 9\n".to_owned()));
        assert_eq!(text("proc/net/ip_vs"), Err(Absent::Missing));
        assert!(!frame.files.contains_key("proc/net/tcp"));
    }
}
