//! Tests of what is written and then read: whole, torn, broken, bounded.

use std::fs;
use std::path::Path;

use crate::frame::{Event, Frame, kind};
use crate::limits::BLOCK_FRAMES;
use crate::{Record, Recorder};

const ALL: std::ops::RangeInclusive<u64> = 0..=u64::MAX;
const LIMIT: u64 = 64 << 20;

fn frame(at: u64) -> Frame {
    let page = format!("requests {}\nopen {}\nratio 0.{}\n", at * 7, at % 3, at % 10);
    let files = [("forebay/metrics", page), ("proc/loadavg", format!("0.1{} 0.2 0.3", at % 10))];
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), Ok(text)));
    Frame { at, files: files.collect(), origin: format!("{{\"seconds\":{at}}}"), ..Frame::default() }
}

fn event(at: u64, text: &str) -> Event {
    Event { at, kind: kind::CONFIGURATION.into(), object: "Ingress a/b".into(), text: text.into() }
}

fn write(recorder: &Recorder, times: std::ops::Range<u64>) {
    for at in times {
        recorder.frame(&frame(at)).expect("a folder that takes it");
    }
}

fn times(record: &Record) -> Vec<u64> {
    record.frames(ALL).map(|frame| frame.at).collect()
}

fn files_ending(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    paths.sort();
    paths
}

#[test]
fn everything_comes_back_from_folder_and_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = u64::from(BLOCK_FRAMES) * 2 + 5;
    let on_disk = Recorder::open(folder.path(), LIMIT).expect("a folder");
    for recorder in [on_disk, Recorder::in_memory(LIMIT)] {
        write(&recorder, 0..100);
        recorder.event(&event(99, "changed")).expect("it is taken");
        write(&recorder, 100..frames);
        let record = recorder.record().expect("a record");
        assert_eq!((record.span(), record.count()), (Some((0, frames - 1)), frames));
        assert!(record.frames(ALL).eq((0..frames).map(frame)), "each frame as it was");
        assert_eq!(record.frames(99..=101).map(|one| one.at).collect::<Vec<_>>(), [99, 100, 101]);
        assert_eq!((record.events(ALL), record.events(100..=200)), (vec![event(99, "changed")], vec![]));
        assert_eq!(record.damage(), &[] as &[String]);
    }
}

#[test]
fn a_range_is_a_file_of_its_own() {
    let recorder = Recorder::in_memory(LIMIT);
    write(&recorder, 0..400);
    recorder.event(&event(399, "last")).expect("it is taken");
    let mut bytes = Vec::new();
    let written = recorder.record().expect("a record").write_range(190..=500, &mut bytes);
    assert_eq!(written.expect("room"), 210);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ticket");
    fs::write(&path, &bytes).expect("room");
    for record in [Record::open(&path), Record::from_bytes(&bytes)] {
        let record = record.expect("a record");
        assert!(record.frames(ALL).eq((190..400).map(frame)));
        assert_eq!(record.events(ALL).len(), 1);
    }
}

#[test]
fn what_is_no_record_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes");
    fs::write(&path, "no record").expect("room");
    let why = |path: &Path| Record::open(path).expect_err("no record").to_string();
    assert_eq!(why(&path), format!("{}: this is not a record", path.display()));
    assert!(why(folder.path()).ends_with("there is no record in this folder"));
    assert!(why(&folder.path().join("none")).contains("none: No such file"));
    assert!(Record::from_bytes(b"").is_err());
}

#[test]
fn another_process_goes_on_where_the_last_one_was_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Recorder::open(folder.path(), LIMIT).expect("a folder");
    write(&first, 0..7);
    // While a process writes its tail, another one leaves it alone.
    let second = Recorder::open(folder.path(), LIMIT).expect("a folder");
    assert_eq!(files_ending(folder.path(), "tail").len(), 2);
    write(&first, 7..9);
    drop(first);
    write(&second, 9..11);
    drop(second);
    let third = Recorder::open(folder.path(), LIMIT).expect("a folder");
    assert_eq!(files_ending(folder.path(), "tail").len(), 1, "what was left is compressed");
    assert_eq!(third.unfinished(), Some(10));
    write(&third, 11..12);
    assert_eq!(times(&third.record().expect("a record")), (0..12).collect::<Vec<_>>());
    for text in ["told to stop", "told again"] {
        third.finish(&event(12, text)).expect("room");
        third.frame(&frame(13)).expect("it is left out");
    }
    drop(third);
    let fourth = Recorder::open(folder.path(), LIMIT).expect("a folder");
    assert_eq!(fourth.unfinished(), None, "the third one was not killed");
    assert_eq!(fourth.record().expect("a record").events(ALL).len(), 1);
}

#[test]
fn a_torn_frame_is_left_out_and_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::open(folder.path(), LIMIT).expect("a folder");
    write(&recorder, 0..10);
    drop(recorder);
    let tail = files_ending(folder.path(), "tail").remove(0);
    let bytes = fs::read(&tail).expect("a tail");
    for cut in 1..20 {
        fs::write(&tail, &bytes[..bytes.len() - cut]).expect("room");
        let record = Record::open(folder.path()).expect("a record");
        let read = times(&record).len() as u64;
        assert!((5..10).contains(&read), "{cut} bytes fewer: {read}");
        assert!(record.frames(ALL).eq((0..read).map(frame)));
        let is_between_frames = record.damage().is_empty();
        assert!(is_between_frames || record.damage()[0].ends_with("the last frame is torn and left out"));
        assert!(cut != 1 || !is_between_frames);
    }
}

#[test]
fn broken_bytes_cost_their_block_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::open(folder.path(), LIMIT).expect("a folder");
    let block = u64::from(BLOCK_FRAMES);
    write(&recorder, 0..block * 3 + 1);
    drop(recorder);
    let segment = files_ending(folder.path(), "segment").remove(0);
    let bytes = fs::read(&segment).expect("a segment");
    for at in (0..bytes.len()).step_by(97) {
        let mut broken = bytes.clone();
        broken[at] ^= 0x55;
        fs::write(&segment, &broken).expect("room");
        let record = Record::open(folder.path()).expect("a record");
        let read = times(&record);
        assert!(read.len() as u64 > block * 2, "byte {at}: {} frames", read.len());
        assert!(record.frames(ALL).all(|one| one == frame(one.at)), "byte {at}");
        assert_eq!(record.damage().len(), 1, "byte {at}");
    }
}

#[test]
fn the_oldest_go_when_there_is_no_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = crate::SIZE_MIN;
    let noise = |at: u64| {
        let mut seed = at;
        let words = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x} ", seed >> 20)
        });
        let text: String = words.take(1000).collect();
        Frame { at, files: [("noise".to_owned(), Ok(text))].into(), ..Frame::default() }
    };
    let on_disk = Recorder::open(folder.path(), limit).expect("a folder");
    for recorder in [on_disk, Recorder::in_memory(limit)] {
        for at in 0..1000 {
            recorder.frame(&noise(at)).expect("room");
            let used: u64 = ["tail", "segment"]
                .iter()
                .flat_map(|ending| files_ending(folder.path(), ending))
                .map(|path| fs::metadata(path).expect("a file").len())
                .sum();
            assert!(used <= limit, "{used} bytes after frame {at}");
        }
        let read = times(&recorder.record().expect("a record"));
        assert!(read.len() > 80 && read.len() < 900, "{}", read.len());
        assert!(read.iter().copied().eq(1000 - read.len() as u64..1000), "the last ones, without a gap");
    }
}

#[test]
fn long_texts_of_events_are_cut_off() {
    let recorder = Recorder::in_memory(LIMIT);
    recorder.event(&event(1, &"ü".repeat(10_000))).expect("it is taken");
    let events = recorder.record().expect("a record").events(ALL);
    assert_eq!(events[0].text.len(), crate::limits::EVENT_BYTES);
}
