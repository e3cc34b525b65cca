//! The flags by which the past is asked.

use std::path::PathBuf;

use clap::Args;
use jiff::Zoned;
use jiff::tz::TimeZone;

use super::show::Manner;
use super::source::Asked;
use super::when::{Range, When};
use crate::doctor::show::has_colour;
use crate::language::Language;

/// A record, and the time of it that is asked about.
#[derive(Args, Debug)]
pub(super) struct PartOfRecord {
    /// First moment of what was recorded: 02:50 (the last time it was), "2026-11-27 02:50",
    /// 2026-11-27T02:50:00Z, or -30m for half an hour ago [default: the begin of the record].
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true)]
    since: Option<When>,
    /// Last moment of what was recorded [default: the end of the record].
    #[arg(long, value_name = "TIME", value_parser = When::parse, allow_hyphen_values = true)]
    until: Option<When>,
    /// Record that is read: the folder of `serve --record`, or a file of `forebay record export` [default:
    /// that of the Forebay that --admin names].
    #[arg(long, value_name = "PATH")]
    record: Option<PathBuf>,
    /// Admin server of the Forebay whose record is read.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10254", conflicts_with = "record")]
    admin: String,
}

#[derive(Args, Debug)]
pub(crate) struct Past {
    #[command(flatten)]
    part: PartOfRecord,
    /// With --since or --record: also show findings in full that were there all the time, and warnings that
    /// were there only once.
    #[arg(long)]
    pub(crate) all: bool,
}

impl Past {
    /// Whether the past is asked, and not the present.
    pub(crate) fn is_asked(&self) -> bool {
        self.part.since.is_some() || self.part.until.is_some() || self.part.record.is_some()
    }

    /// How the judgement is printed.
    pub(crate) fn manner(&self, language: Language) -> Manner {
        Manner { language, colour: has_colour(), all: self.all, zone: TimeZone::system() }
    }

    /// The record, and the time of it that is judged.
    pub(crate) fn asked(&self) -> anyhow::Result<Asked> {
        self.part.asked()
    }
}

impl PartOfRecord {
    pub(super) fn asked(&self) -> anyhow::Result<Asked> {
        let range = Range::of(self.since, self.until, &Zoned::now())?;
        Ok(Asked { path: self.record.clone(), admin: self.admin.clone(), range })
    }
}
