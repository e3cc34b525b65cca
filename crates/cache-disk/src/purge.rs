//! The records that a purge applies to, by their labels.

/// Records to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All records of the cache.
    All,
    /// Records with this label.
    Label(Vec<u8>),
    /// Records with a label that has this prefix.
    LabelPrefix(Vec<u8>),
}

impl Purge {
    /// Whether the purge applies to a record with these labels.
    pub fn matches<'l>(&self, labels: impl IntoIterator<Item = &'l [u8]>) -> bool {
        let mut labels = labels.into_iter();
        match self {
            Self::All => true,
            Self::Label(wanted) => labels.any(|label| label == wanted),
            Self::LabelPrefix(wanted) => labels.any(|label| label.starts_with(wanted)),
        }
    }

    /// As the meta of a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, text) = match self {
            Self::All => (0, &[][..]),
            Self::Label(label) => (1, &label[..]),
            Self::LabelPrefix(prefix) => (2, &prefix[..]),
        };
        [&[kind], text].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, text) = bytes.split_first()?;
        match kind {
            0 => Some(Self::All),
            1 => Some(Self::Label(text.to_vec())),
            2 => Some(Self::LabelPrefix(text.to_vec())),
            _ => None,
        }
    }
}

/// Labels as bytes: each after its length. None where there are too many.
pub fn write_labels(labels: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for label in labels {
        out.extend(u16::try_from(label.len()).ok()?.to_le_bytes());
        out.extend(label);
    }
    (out.len() <= crate::limits::LABELS_BYTES_MAX).then_some(out)
}

/// The labels that were written so.
pub fn read_labels(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (label, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        bytes = rest;
        Some(label)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_matched_whole_or_by_their_beginning() {
        let labels = write_labels(&[b"tag:a".to_vec(), b"url:http://a/b".to_vec()]).unwrap();
        for (purge, matches) in [
            (Purge::All, true),
            (Purge::Label(b"tag:a".to_vec()), true),
            (Purge::Label(b"tag:".to_vec()), false),
            (Purge::LabelPrefix(b"url:http://a/".to_vec()), true),
            (Purge::LabelPrefix(b"http".to_vec()), false),
        ] {
            assert_eq!(purge.matches(read_labels(&labels)), matches, "{purge:?}");
            assert_eq!(Purge::decode(&purge.encode()), Some(purge));
        }
        assert_eq!(Purge::decode(b""), None);
        assert_eq!(Purge::decode(b"\x09"), None);
    }

    #[test]
    fn too_many_labels_are_refused() {
        assert!(write_labels(&[vec![0; 1 << 16]]).is_none());
        assert!(write_labels(&vec![vec![0; 1 << 10]; 64]).is_none());
    }
}
