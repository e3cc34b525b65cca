//! Contents coded and decoded again, in pieces of any size.

use std::rc::Rc;
use std::sync::Arc;

use observe::CodingCells;
use proptest::prelude::*;

use super::*;
use crate::limits::{CODER_BYTES_MAX, GZIP_STATE_BYTES};

fn coders() -> Rc<Coders> {
    Coders::new(Arc::<CodingCells>::default())
}

fn step(lease: &mut Lease, input: &[u8], out: &mut Vec<u8>, room: usize) -> Result<(usize, bool), Broken> {
    let mut space = vec![0; room];
    let (read, written, is_done) = lease.take(input, &mut space)?;
    out.extend_from_slice(&space[..written]);
    Ok((read, is_done))
}

/// Passes pieces through a coder, with this much room for each step, and with a flush after the marked ones.
fn pass(task: Task, pieces: &[&[u8]], room: usize, flushes: &[bool]) -> Result<Vec<u8>, Broken> {
    pass_by(&coders(), task, pieces, room, flushes)
}

fn pass_by(
    coders: &Rc<Coders>,
    task: Task,
    pieces: &[&[u8]],
    room: usize,
    flushes: &[bool],
) -> Result<Vec<u8>, Broken> {
    let mut lease = coders.lease(task, None).expect("there is memory for one");
    let mut out = Vec::new();
    let drain = |lease: &mut Lease, out: &mut Vec<u8>, ends: bool| -> Result<(), Broken> {
        loop {
            let mut space = vec![0; room];
            let (written, is_done) =
                if ends { lease.finish(&mut space)? } else { lease.flush(&mut space)? };
            out.extend_from_slice(&space[..written]);
            if is_done {
                return Ok(());
            }
        }
    };
    for (piece, flush) in pieces.iter().zip(flushes.iter().chain(std::iter::repeat(&false))) {
        let mut rest = *piece;
        loop {
            let (read, is_done) = step(&mut lease, rest, &mut out, room)?;
            rest = &rest[read..];
            if is_done {
                break;
            }
        }
        if *flush {
            drain(&mut lease, &mut out, false)?;
        }
    }
    drain(&mut lease, &mut out, true)?;
    Ok(out)
}

/// A whole content in another coding.
fn compress(coders: &Rc<Coders>, coding: Coding, level: u8, content: &[u8]) -> Option<Vec<u8>> {
    let mut lease = coders.lease(Task::Encode(coding, level), Some(content.len() as u64))?;
    let mut out = Vec::new();
    lease.append(content, &mut out)?;
    lease.append_end(&mut out)?;
    Some(out)
}

fn pieces<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn level(coding: Coding, seed: u8) -> u8 {
    match coding {
        Coding::Brotli => seed % 8,
        Coding::Gzip | Coding::Zstd => 1 + seed % 9,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_compressed_comes_back_however_it_is_cut(
        words in prop::collection::vec(prop_oneof![Just(b"<li>item</li>".to_vec()), prop::collection::vec(any::<u8>(), 0..200)], 0..400),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        other_cuts in prop::collection::vec(any::<usize>(), 0..12),
        flushes in prop::collection::vec(any::<bool>(), 0..12),
        room in prop_oneof![32_usize..64, Just(16 << 10)],
        seed in any::<u8>(),
    ) {
        let content = words.concat();
        for coding in Coding::ALL {
            let coded = pass(Task::Encode(coding, level(coding, seed)), &pieces(&content, &cuts), room, &flushes).unwrap();
            let back = pass(Task::Decode(coding), &pieces(&coded, &other_cuts), room, &[]).unwrap();
            prop_assert!(back == content, "{coding:?}");
        }
    }

    #[test]
    fn noise_is_no_coded_content_and_does_no_harm(noise in prop::collection::vec(any::<u8>(), 1..300), cut in any::<usize>()) {
        for coding in Coding::ALL {
            let whole = compress(&coders(), coding, 1, &noise).unwrap();
            // Random input ends too, with or without an error.
            let _ = pass(Task::Decode(coding), &[&noise], 64, &[]);
            let cut = cut % whole.len();
            prop_assert!(cut == 0 || pass(Task::Decode(coding), &[&whole[..cut]], 64, &[]) == Err(Broken), "{coding:?} cut off at {cut}");
        }
    }
}

/// With no output left to write, a coder may learn that only with the last byte of its input.
#[test]
fn what_is_empty_or_short_comes_back_wherever_it_is_cut() {
    for coding in Coding::ALL {
        for (content, room) in
            ["", "a", "<li>item</li>"].into_iter().flat_map(|content| [(content, 32), (content, 1)])
        {
            let coded = compress(&coders(), coding, 1, content.as_bytes()).unwrap();
            for cut in 0..=coded.len() {
                let (first, second) = coded.split_at(cut);
                let back = pass(Task::Decode(coding), &[first, second], room, &[]);
                assert_eq!(
                    back.as_deref(),
                    Ok(content.as_bytes()),
                    "{coding:?}, cut at {cut}, room for {room}"
                );
            }
        }
    }
}

#[test]
fn what_is_flushed_can_be_read_at_once() {
    for coding in Coding::ALL {
        let (ours, theirs) = (coders(), coders());
        let mut encoder = ours.lease(Task::Encode(coding, level(coding, 4)), None).unwrap();
        let mut decoder = theirs.lease(Task::Decode(coding), None).unwrap();
        for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            let (mut coded, mut back) = (vec![0; 1000], Vec::new());
            let (_, taken, is_done) = encoder.take(event.as_bytes(), &mut coded).unwrap();
            assert!(is_done);
            let (flushed, is_done) = encoder.flush(&mut coded[taken..]).unwrap();
            assert!(is_done);
            step(&mut decoder, &coded[..taken + flushed], &mut back, 1000).unwrap();
            assert_eq!(back, event.as_bytes(), "{coding:?}");
        }
    }
}

#[test]
fn a_coder_that_was_used_before_makes_the_same_of_the_same() {
    let content = b"an answer to everything, ".repeat(1000);
    for coding in Coding::ALL {
        let coders = coders();
        let fresh = compress(&coders, coding, 1, &content).unwrap();
        let other = compress(&coders, coding, 6, b"something else in between").unwrap();
        assert_eq!(pass(Task::Decode(coding), &[&other], 64, &[]).unwrap(), b"something else in between");
        // A coder that is dropped in the middle of a content.
        let mut left = coders.lease(Task::Encode(coding, 3), None).unwrap();
        left.take(&content, &mut [0; 16]).unwrap();
        drop(left);
        assert!(compress(&coders, coding, 1, &content).unwrap() == fresh, "{coding:?}");
    }
}

/// Length of zlib 1.2.13's output for the same content at level 1, and an upper bound a twentieth above.
#[test]
fn the_lowest_level_of_gzip_is_no_worse_than_that_of_zlib() {
    const ZLIB_BYTES: usize = 29_865;
    let line = |number: u32| {
        let name = number.wrapping_mul(2_654_435_761) >> 20;
        format!("<li class=\"item\"><a href=\"/items/{number}\">item {name:x}</a></li>\n")
    };
    let content: String = (0..5000).map(line).collect();
    let coded = compress(&coders(), Coding::Gzip, 1, content.as_bytes()).unwrap();
    assert!(coded.len() * 20 <= ZLIB_BYTES * 21, "{}", coded.len());
}

#[test]
fn members_may_follow_each_other() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let [one, two] = [&b"one"[..], b"two"].map(|part| compress(&coders(), coding, 1, part).unwrap());
        assert_eq!(pass(Task::Decode(coding), &[&[one, two].concat()], 64, &[]), Ok(b"onetwo".to_vec()));
    }
    let brotli = compress(&coders(), Coding::Brotli, 1, b"one").unwrap();
    assert_eq!(pass(Task::Decode(Coding::Brotli), &[&brotli, b"two"], 64, &[]), Err(Broken));
}

#[test]
fn bombs_are_found_out() {
    let zeros = vec![0; 8 << 20];
    for coding in Coding::ALL {
        let bomb = compress(&coders(), coding, 6, &zeros).unwrap();
        assert_eq!(pass(Task::Decode(coding), &[&bomb], 16 << 10, &[]), Err(Broken), "{coding:?}");
    }
}

#[test]
fn coders_at_work_have_a_bound() {
    let coders = coders();
    let task = Task::Encode(Coding::Gzip, 1);
    let most = CODER_BYTES_MAX / GZIP_STATE_BYTES;
    let mut leases: Vec<_> = (0..most).map_while(|_| coders.lease(task, None)).collect();
    assert_eq!(leases.len(), most);
    assert!(coders.lease(task, None).is_none() && compress(&coders, Coding::Gzip, 1, b"x").is_none());
    leases.pop();
    assert!(coders.lease(task, None).is_some());
}
