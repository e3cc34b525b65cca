//! Effects of an attack on other clients: failed requests, latency, CPU time; and its cost in memory.⎏⎏The
//! other clients are `forebay bench` at a fixed rate, a process of its own as `forebay payload` is. Attackers
//! have the lowest priority, since all of them share the CPUs, and the effect to measure is the proxy's and
//! not that of the attackers' CPU time. Must not be in here: attacks (`attackers`).

mod attackers;
mod crowd;
mod optimist;
mod page;
pub(crate) mod quic;
mod stage;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use adversary::kernel::Drops;
use anyhow::{Result, ensure};

use crate::options::Arguments;
use attackers::{ATTACKERS, Attacker, Port};
use crowd::Crowd;
use page::Row;
use stage::{Others, Stage};

/// How long others are measured, without an attack and with it.
const QUIET: Duration = Duration::from_secs(4);
const ATTACKED: Duration = Duration::from_secs(6);
/// When memory ought to be as before.
const AFTER: Duration = Duration::from_secs(10);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(100);

/// Measures the selected attacks, and prints each line when it is ready.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wanted: Vec<&'static Attacker> =
        ATTACKERS.iter().filter(|attacker| arguments.wants(attacker.name)).collect();
    let mut rows = Vec::new();
    for attacker in wanted {
        let row = measure(attacker, arguments.rate)?;
        println!("{}", row.in_words());
        rows.push(row);
    }
    let table = page::table(&rows, arguments);
    println!("\n{table}");
    if arguments.write {
        page::write(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(attacker: &'static Attacker, rate: u32) -> Result<Row> {
    let stage = Stage::set(rate, matches!(attacker.port, Port::Quic(_)))?;
    // Buffers and connections that any load makes are not the attack's.
    stage.others(Duration::from_secs(1))?;
    let (quiet, quiet_cpu) = stage.others(QUIET)?;
    ensure!(
        quiet.failed == 0,
        "{} of {} requests fail without any attack: {}",
        quiet.failed,
        quiet.requests,
        quiet.failures
    );
    let quiet_kib = stage.forebay.resident_kib();
    let drops = Drops::read();
    let crowd = Crowd::begin(attacker, &stage);
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| stage.others(ATTACKED));
        let mut peak_kib = quiet_kib;
        while !measuring.is_finished() {
            peak_kib = peak_kib.max(stage.forebay.resident_kib());
            thread::sleep(LOOK);
        }
        measuring.join().expect("no panic").map(|others| (others, peak_kib))
    });
    let ((attacked, attacked_cpu), peak_kib) = measured?;
    let drops = Drops::read().since(drops);
    let connections = crowd.end();
    let after_kib = memory_after(&stage, quiet_kib);
    let (quiet, attacked): (Others, Others) = (quiet, attacked);
    Ok(Row {
        name: attacker.name,
        quiet,
        attacked,
        quiet_cpu,
        attacked_cpu,
        quiet_kib,
        peak_kib,
        after_kib,
        drops,
        connections,
    })
}

/// The memory once it is near its value before the attack, or when the time is over.
fn memory_after(stage: &Stage, quiet_kib: u64) -> u64 {
    const NEAR_KIB: u64 = 4 << 10;
    let end = Instant::now() + AFTER;
    loop {
        let now = stage.forebay.resident_kib();
        if now <= quiet_kib + NEAR_KIB || Instant::now() > end {
            return now;
        }
        thread::sleep(LOOK);
    }
}
