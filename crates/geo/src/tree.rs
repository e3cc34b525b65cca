//! The search tree of a database: from an address to the position of its record.
//!
//! The tree has a node for each bit of an address, most of which the processor has to fetch from memory. So a
//! table over the upper bits holds the nodes that they lead to, and a walk begins there.
//!
//! Must not be in here: records, and what is verified when a database is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maxminddb::Metadata;

/// Bytes of zeros between the tree and the data section.
const SEPARATOR: usize = 16;

/// Bits of an address of IPv4 in a tree of IPv6: these are in `::/96`.
const MAPPED_BITS: u32 = 96;

/// The least and the most bits that a table is over. A table takes up to an eighth of the tree's memory.
const TABLE_BITS_MIN: u32 = 8;
const TABLE_BITS_MAX: u32 = 20;
const TABLE_SHARE: usize = 8;

/// The form of a tree. Its nodes stay in the bytes of the database.
pub(crate) struct Tree {
    nodes: usize,
    /// Bits of each of the two records of a node: 24, 28 or 32.
    record_bits: usize,
    v4: Table,
    /// None in a database of IPv4 alone.
    v6: Option<Table>,
}

/// The nodes that the upper bits of an address lead to, or the ends that are reached before.
struct Table {
    bits: u32,
    nodes: Box<[u32]>,
}

impl Tree {
    /// The tree of a database; none if its form is unknown.
    pub(crate) fn of(metadata: &Metadata, bytes: &[u8]) -> Option<Self> {
        let nodes = metadata.node_count as usize;
        let record_bits = usize::from(metadata.record_size);
        if !matches!(record_bits, 24 | 28 | 32) {
            return None;
        }
        let none = || Table { bits: 0, nodes: Box::default() };
        let mut tree = Self { nodes, record_bits, v4: none(), v6: None };
        let is_of_ipv6 = metadata.ip_version == 6;
        let mapped = if is_of_ipv6 { MAPPED_BITS } else { 0 };
        let start_of_v4 = (0..mapped).try_fold(0, |node, _| tree.step(bytes, node, 0))?;
        let entries = tree.bytes() / TABLE_SHARE / size_of::<u32>();
        let bits = entries.checked_ilog2().unwrap_or_default().clamp(TABLE_BITS_MIN, TABLE_BITS_MAX);
        tree.v4 = tree.table(bytes, start_of_v4, bits)?;
        if is_of_ipv6 {
            tree.v6 = Some(tree.table(bytes, 0, bits)?);
        }
        Some(tree)
    }

    /// Position of the record of an address in the data section; none if no record has it.
    pub(crate) fn find(&self, bytes: &[u8], address: IpAddr) -> Option<usize> {
        let end = match address {
            IpAddr::V4(address) => {
                let bits = u128::from(address.to_bits()) << (Ipv6Addr::BITS - Ipv4Addr::BITS);
                self.walk(bytes, &self.v4, bits, Ipv4Addr::BITS)?
            }
            IpAddr::V6(address) => self.walk(bytes, self.v6.as_ref()?, address.to_bits(), Ipv6Addr::BITS)?,
        };
        // A number of all nodes stands for no record, and one below for an address that ends within the tree.
        end.checked_sub(self.nodes + SEPARATOR)
    }

    /// Position of the data section in the database.
    pub(crate) fn data_start(&self) -> usize {
        self.bytes() + SEPARATOR
    }

    /// Bytes of memory of the tables.
    pub(crate) fn table_bytes(&self) -> usize {
        let of = |table: &Table| size_of_val(&*table.nodes);
        of(&self.v4) + self.v6.as_ref().map_or(0, of)
    }

    /// Bytes of the tree.
    fn bytes(&self) -> usize {
        self.nodes * self.record_bits / 4
    }

    /// Walks along the first bits of an address, which is in the upper bits of a number, until it leaves the
    /// tree.
    fn walk(&self, bytes: &[u8], table: &Table, address: u128, length: u32) -> Option<usize> {
        let mut node = *table.nodes.get((address >> (Ipv6Addr::BITS - table.bits)) as usize)? as usize;
        let mut rest = address << table.bits;
        for _ in table.bits..length {
            if node >= self.nodes {
                break;
            }
            node = self.record(bytes, node, (rest >> (Ipv6Addr::BITS - 1)) as usize)?;
            rest <<= 1;
        }
        Some(node)
    }

    /// The node behind a node, or the end where that is one.
    fn step(&self, bytes: &[u8], node: usize, side: usize) -> Option<usize> {
        if node < self.nodes { self.record(bytes, node, side) } else { Some(node) }
    }

    /// The left or right record of a node.
    fn record(&self, bytes: &[u8], node: usize, side: usize) -> Option<usize> {
        match self.record_bits {
            24 => {
                let at = node * 6 + side * 3;
                let [a, b, c] = *bytes.get(at..)?.first_chunk()?;
                Some(u32::from_be_bytes([0, a, b, c]) as usize)
            }
            28 => {
                // The byte in the middle has the upper bits of both.
                let records: [u8; 7] = *bytes.get(node * 7..)?.first_chunk()?;
                let both = usize::from(records[3]);
                let (upper, lower) = if side == 0 { (both >> 4, 0) } else { (both & 0xf, 4) };
                let lower: [u8; 3] = *records[lower..].first_chunk()?;
                Some(lower.iter().fold(upper, |number, byte| number << 8 | usize::from(*byte)))
            }
            _ => {
                let at = node * 8 + side * 4;
                Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
            }
        }
    }

    /// The table of all nodes that are this many bits behind one.
    fn table(&self, bytes: &[u8], start: usize, bits: u32) -> Option<Table> {
        let mut nodes = vec![u32::try_from(start).ok()?];
        for _ in 0..bits {
            let mut next = Vec::with_capacity(2 * nodes.len());
            for node in nodes {
                for side in [0, 1] {
                    next.push(u32::try_from(self.step(bytes, node as usize, side)?).ok()?);
                }
            }
            nodes = next;
        }
        Some(Table { bits, nodes: nodes.into() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A tree of IPv4 with a node of two records for each entry: numbers of nodes, or of ends from 100 on.
    fn written(nodes: &[[usize; 2]], record_size: u16) -> (Metadata, Vec<u8>) {
        let node_count = u32::try_from(nodes.len()).unwrap();
        let metadata = Metadata {
            binary_format_major_version: 2,
            binary_format_minor_version: 0,
            build_epoch: 0,
            database_type: String::new(),
            description: BTreeMap::new(),
            ip_version: 4,
            languages: Vec::new(),
            node_count,
            record_size,
        };
        let end = |record: usize| {
            let number = if record < 100 { record } else { nodes.len() + SEPARATOR + record - 100 };
            u32::try_from(number).unwrap().to_be_bytes()
        };
        let mut bytes = Vec::new();
        for [left, right] in nodes.iter().map(|node| node.map(end)) {
            match record_size {
                24 => bytes.extend([&left[1..], &right[1..]].concat()),
                28 => {
                    bytes.extend_from_slice(&left[1..]);
                    bytes.push(left[0] << 4 | right[0]);
                    bytes.extend_from_slice(&right[1..]);
                }
                _ => bytes.extend([left, right].concat()),
            }
        }
        (metadata, bytes)
    }

    #[test]
    fn records_are_found_by_all_sizes_above_and_below_the_table() {
        // 0.0.0.0/1 is an end; 128.0.0.0/2 has none; 192.0.0.0/12 goes on for nine bits.
        let mut nodes = vec![[100, 1], [14, 2]];
        nodes.extend((3..12).map(|next| [next, 14]));
        nodes.extend([[12, 101], [102, 13], [14, 103]]);
        assert_eq!(nodes.len(), 14, "the number of nodes stands for no record");
        for record_size in [24, 28, 32] {
            let (metadata, bytes) = written(&nodes, record_size);
            let tree = Tree::of(&metadata, &bytes).unwrap();
            for (address, expected) in [
                ("0.0.0.0", Some(0)),
                ("127.255.255.255", Some(0)),
                ("128.0.0.1", None),
                ("192.16.0.0", Some(1)),
                ("192.0.0.0", Some(2)),
                ("192.7.255.255", Some(2)),
                ("192.8.0.1", None),
                ("192.12.0.1", Some(3)),
                ("193.0.0.0", None),
                ("::1", None),
            ] {
                let address = address.parse().unwrap();
                assert_eq!(tree.find(&bytes, address), expected, "{address} of {record_size} bits");
            }
            let cut = &bytes[..bytes.len() - 2];
            assert_eq!(tree.find(cut, "192.12.0.1".parse().unwrap()), None, "{record_size}");
        }
        let (metadata, bytes) = written(&nodes, 32);
        assert!(Tree::of(&Metadata { record_size: 20, ..metadata }, &bytes).is_none());
    }
}
