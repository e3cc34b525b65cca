//! Variables that are made from others when a rule asks for them.
//!
//! Never in here: values that a request has as such.

use super::Transaction;
use super::store::Bag;
use crate::body::{Flag, Processor};
use crate::variables::Variable;

/// The version of ModSecurity whose behaviour this is: 3.0.15.
const MODSEC_BUILD: i64 = 30_001_500;

impl Transaction {
    /// The value of a variable that is a number.
    pub(super) fn computed_number(&self, variable: Variable) -> Option<i64> {
        if let Some(flag) = flag(variable) {
            return Some(i64::from(self.store.has_flag(flag)));
        }
        let store = &self.store;
        Some(match variable {
            Variable::ArgsCombinedSize => signed(store.arguments_bytes()),
            Variable::FilesCombinedSize => self.files_bytes(),
            Variable::Duration => (self.now.saturating_sub(self.connection.unix_time) / 1_000).cast_signed(),
            Variable::HighestSeverity => i64::from(self.report.highest_severity),
            Variable::InboundDataError => i64::from(store.request_too_long),
            Variable::OutboundDataError => i64::from(store.response_too_long),
            Variable::ModsecBuild => MODSEC_BUILD,
            Variable::MscPcreError | Variable::MscPcreLimitsExceeded => 0,
            Variable::MultipartStrictError => i64::from(store.is_not_strict()),
            Variable::RemotePort => i64::from(self.connection.client.port()),
            Variable::ServerPort => i64::from(self.connection.server.port()),
            Variable::ReqbodyError | Variable::ReqbodyProcessorError => i64::from(store.body_error.is_some()),
            Variable::RequestBodyLength => signed(store.request_body_bytes),
            Variable::ResponseContentLength => signed(store.response_body_bytes),
            Variable::UrlencodedError => i64::from(store.invalid_encoding),
            Variable::FullRequestLength => {
                let mut text = Vec::new();
                self.append_full_request(&mut text);
                signed(text.len())
            }
            _ => return self.time(variable),
        })
    }

    fn files_bytes(&self) -> i64 {
        let fields = self.store.bag(Bag::FilesSizes);
        fields.iter().map(|field| crate::template::number(self.store.texts.get(field.value))).sum()
    }

    fn time(&self, variable: Variable) -> Option<i64> {
        let seconds = self.seconds().cast_signed();
        let date = Date::of(seconds.div_euclid(86_400));
        Some(match variable {
            Variable::TimeEpoch => seconds,
            Variable::TimeSec => seconds % 60,
            Variable::TimeMin => seconds / 60 % 60,
            Variable::TimeHour => seconds / 3_600 % 24,
            Variable::TimeDay => date.day,
            Variable::TimeMon => date.month - 1,
            Variable::TimeYear => date.year,
            // 1 January 1970 was a Thursday.
            Variable::TimeWday => (seconds.div_euclid(86_400) + 4) % 7,
            _ => return None,
        })
    }

    /// Appends the value of a variable that is a text; false if it has none.
    pub(super) fn computed(&self, variable: Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::FullRequest => self.append_full_request(out),
            Variable::MatchedVarName => match self.last_match {
                Some(matched) => self.append_name(matched.variable, matched.label, out),
                None => return false,
            },
            Variable::RemoteAddr | Variable::RemoteHost | Variable::UseragentIp => {
                let address = self.connection.client.ip().to_canonical();
                out.extend_from_slice(address.to_string().as_bytes());
            }
            Variable::ServerAddr => {
                let address = self.connection.server.ip().to_canonical();
                out.extend_from_slice(address.to_string().as_bytes());
            }
            Variable::UniqueId => out.extend_from_slice(self.connection.unique_id.as_bytes()),
            Variable::WebappId => out.extend_from_slice(self.rules.settings().web_app_id.as_bytes()),
            Variable::ReqbodyErrorMsg | Variable::ReqbodyProcessorErrorMsg => match &self.store.body_error {
                Some(message) => out.extend_from_slice(message.as_bytes()),
                None => return false,
            },
            Variable::ReqbodyProcessor => {
                out.extend_from_slice(self.store.processor.map_or("", processor_name).as_bytes());
            }
            Variable::SessionId => return self.append_key(Variable::Session, out),
            Variable::UserId => return self.append_key(Variable::User, out),
            Variable::Time => {
                let seconds = self.seconds();
                let [hours, minutes, seconds] = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
                out.extend_from_slice(format!("{hours:02}:{minutes:02}:{seconds:02}").as_bytes());
            }
            Variable::StatusLine => {
                let protocol = self.store.bytes(Variable::ResponseProtocol);
                if protocol.is_empty() {
                    return false;
                }
                out.extend_from_slice(protocol);
                out.push(b' ');
                out.extend_from_slice(self.store.bytes(Variable::ResponseStatus));
            }
            _ => return false,
        }
        true
    }

    fn append_key(&self, collection: Variable, out: &mut Vec<u8>) -> bool {
        match self.attached(collection) {
            Some(key) => {
                out.extend_from_slice(&key.key);
                true
            }
            None => false,
        }
    }

    fn append_full_request(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.store.bytes(Variable::RequestLine));
        out.extend_from_slice(b"\n");
        for field in self.store.bag(Bag::RequestHeaders) {
            out.extend_from_slice(self.store.texts.get(field.name));
            out.extend_from_slice(b": ");
            out.extend_from_slice(self.store.texts.get(field.value));
            out.push(b'\n');
        }
        out.extend_from_slice(b"\n");
        out.extend_from_slice(self.store.bytes(Variable::StreamInputBody));
    }

    /// Forgets the values that another phase may have others of.
    pub(super) fn forget_computed(&mut self) {
        for variable in [Variable::FullRequest, Variable::ReqbodyErrorMsg, Variable::Time] {
            self.store.forget(variable);
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The name of a body's parser, as `REQBODY_PROCESSOR` has it.
fn processor_name(processor: Processor) -> &'static str {
    match processor {
        Processor::UrlEncoded => "URLENCODED",
        Processor::Multipart => "MULTIPART",
        Processor::Json => "JSON",
        Processor::Xml => "XML",
        Processor::Raw => "RAW",
    }
}

fn flag(variable: Variable) -> Option<Flag> {
    Some(match variable {
        Variable::MultipartBoundaryQuoted => Flag::BoundaryQuoted,
        Variable::MultipartBoundaryWhitespace => Flag::BoundaryWhitespace,
        Variable::MultipartCrlfLfLines => Flag::CrlfLfLines,
        Variable::MultipartDataAfter => Flag::DataAfter,
        Variable::MultipartDataBefore => Flag::DataBefore,
        Variable::MultipartFileLimitExceeded => Flag::FileLimitExceeded,
        Variable::MultipartHeaderFolding => Flag::HeaderFolding,
        Variable::MultipartInvalidHeaderFolding => Flag::InvalidHeaderFolding,
        Variable::MultipartInvalidPart => Flag::InvalidPart,
        Variable::MultipartInvalidQuoting => Flag::InvalidQuoting,
        Variable::MultipartLfLine => Flag::LfLine,
        Variable::MultipartMissingSemicolon | Variable::MultipartSemicolonMissing => Flag::MissingSemicolon,
        Variable::MultipartUnmatchedBoundary => Flag::UnmatchedBoundary,
        _ => return None,
    })
}

/// A day of the Gregorian calendar.
#[derive(Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// The date of a number of days since 1970. Years begin in March, so that the leap day is the last one.
    fn of(days: i64) -> Date {
        const DAYS_OF_400_YEARS: i64 = 146_097;
        let days = days + 719_468;
        let era = days.div_euclid(DAYS_OF_400_YEARS);
        let day = days.rem_euclid(DAYS_OF_400_YEARS);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let after_march = month < 10;
        Date {
            year: year + era * 400 + i64::from(!after_march),
            month: if after_march { month + 3 } else { month - 9 },
            day: day - (153 * month + 2) / 5 + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (days, year, month, day) in
            [(0, 1970, 1, 1), (59, 1970, 3, 1), (11_016, 2000, 2, 29), (20_784, 2026, 11, 27)]
        {
            assert_eq!(Date::of(days), Date { year, month, day });
        }
    }
}
