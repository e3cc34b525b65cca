//! Frames of a record as the doctor's samples.
//!
//! Must not be in here: what is in them.

use doctor::{Absence, Sample};
use record::{Absent, Frame};

/// The sample that a frame holds. An origin that cannot be read, as of a later version, is left as it is by
/// default: the checks then say what they lack.
pub(super) fn of_frame(frame: Frame) -> Sample {
    let mut sample = Sample::default();
    sample.taken = serde_json::from_str(&frame.origin).unwrap_or_default();
    for (path, content) in frame.files {
        sample.put(path, content.map_err(absence));
    }
    sample
}

fn absence(absent: Absent) -> Absence {
    match absent {
        Absent::Missing => Absence::Missing,
        Absent::Unreadable(why) => Absence::Unreadable(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::frame_of;

    #[test]
    fn a_sample_is_the_same_after_it_was_recorded() {
        let mut sample = Sample::default();
        sample.taken.seconds = 12.5;
        sample.taken.pid = Some(7);
        sample.put("proc/stat", Ok("cpu 1 2".to_owned()));
        sample.put("proc/x", Err(Absence::Missing));
        sample.put("proc/y", Err(Absence::Unreadable("EIO".to_owned())));
        let frame = frame_of(&sample, 1000, false);
        assert_eq!(frame.at, 1000);
        let again = of_frame(frame);
        assert_eq!(again.taken, sample.taken);
        assert!(sample.files().all(|(path, content)| again.files().any(|file| file == (path, content))));
    }
}
