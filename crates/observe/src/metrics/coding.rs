//! Counters of content codings, for one worker.

use super::local_counter::LocalCounter;

table! {
    /// What is done to the content of a response.
    Recoding {
        "gzip" => Gzip, "It is compressed by gzip.";
        "br" => Brotli, "It is compressed by brotli.";
        "zstd" => Zstd, "It is compressed by zstd.";
        "gunzip" => Gunzip, "Gzip is taken away.";
        "unbr" => Unbrotli, "Brotli is taken away.";
        "unzstd" => Unzstd, "Zstd is taken away.";
    }
}

/// The counters of codings of one worker, which it alone writes.
#[derive(Debug, Default)]
pub struct CodingCells {
    pub(super) of: [Recoded; Recoding::ALL.len()],
    /// Contents that there was no memory for a coder for.
    pub(super) refused: LocalCounter,
    /// Steps by which levels are below what routes ask for, at the moment.
    pub(super) eased: LocalCounter,
}

#[derive(Debug, Default)]
pub(super) struct Recoded {
    pub(super) contents: LocalCounter,
    pub(super) read: LocalCounter,
    pub(super) written: LocalCounter,
}

impl CodingCells {
    /// Counts a content with the bytes that went in and came out.
    pub fn note(&self, what: Recoding, read: u64, written: u64) {
        let cells = &self.of[what as usize];
        cells.contents.inc();
        cells.read.add(read);
        cells.written.add(written);
    }

    /// Counts a content that stays as it is since there is no memory for a coder.
    pub fn note_refused(&self) {
        self.refused.inc();
    }

    /// Tells how many steps levels are below what routes ask for.
    pub fn set_eased(&self, steps: u8) {
        self.eased.add(u64::from(steps).wrapping_sub(self.eased.get()));
    }
}
