//! Priority of a response (RFC 9218 section 4).

/// The order of a stream's content among that of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// The parts of the content are of use before all of it has come.
    pub is_incremental: bool,
}

const URGENCY_DEFAULT: u8 = 3;
const URGENCY_MAX: u8 = 7;

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: URGENCY_DEFAULT, is_incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field or of a `PRIORITY_UPDATE` frame, such as `u=1, i`. Parameters
    /// that are unknown or out of range are ignored (RFC 9218 section 4).
    pub fn parse(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
            // A member may have parameters (RFC 8941 section 3.2), of which none has a meaning.
            let item = member.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
            match item {
                [b'u', b'=', digit @ b'0'..=b'9'] if digit - b'0' <= URGENCY_MAX => {
                    priority.urgency = digit - b'0';
                }
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_and_incremental_are_read_and_all_else_ignored() {
        for (value, urgency, is_incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=5, i", 5, true),
            ("i=?0,u=7", 7, false),
            ("i;a=1, u=1;b", 1, true),
            ("u=8, x=1", 3, false),
            ("u=-1, i=1", 3, false),
            ("u=1, u=2", 2, false),
        ] {
            let priority = Priority { urgency, is_incremental };
            assert_eq!(Priority::parse(value.as_bytes()), priority, "{value}");
        }
    }
}
