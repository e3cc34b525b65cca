//! Databases of addresses in the format of `MaxMind`, made for a test.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::Value;

/// Bits of an address in the tree, which is always one of IPv6: IPv4 addresses are in `::/96`.
const BITS: u8 = 128;

/// A record of a node.
#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    /// A position in the data section.
    Data(usize),
}

/// A database of this type, with the records of networks such as `192.0.2.0/24`. Of networks that overlap the
/// later one counts.
///
/// Records are JSON: whole numbers have 32 bits, or 64 if they are larger, others are doubles.
pub fn mmdb(database_type: &str, build_epoch: u64, networks: &[(&str, Value)]) -> Vec<u8> {
    let mut nodes = vec![[Record::Nothing; 2]];
    let mut data = Data::default();
    for (network, record) in networks {
        let at = data.place(record);
        let (bits, length) = parse(network);
        insert(&mut nodes, bits, length, at);
    }
    let count = nodes.len();
    let mut database = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match *record {
            Record::Nothing => count,
            Record::Node(number) => number,
            Record::Data(at) => count + 16 + at,
        };
        database.extend_from_slice(&u32::try_from(number).expect("the database is small").to_be_bytes());
    }
    database.extend_from_slice(&[0; 16]);
    database.extend_from_slice(&data.bytes);
    database.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    push_metadata(&mut database, database_type, build_epoch, count);
    database
}

/// The data section. Equal values are in it once, as publishers have it; others are pointers to them.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
    /// Positions of values by their JSON.
    known: HashMap<String, usize>,
}

impl Data {
    /// The position of a record.
    fn place(&mut self, record: &Value) -> usize {
        if let Some(&at) = self.known.get(&record.to_string()) {
            return at;
        }
        let at = self.bytes.len();
        self.push(record);
        at
    }

    fn push(&mut self, value: &Value) {
        let is_shared = matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_));
        if is_shared {
            let text = value.to_string();
            if let Some(&at) = self.known.get(&text) {
                // A pointer of four bytes.
                self.bytes.push(1 << 5 | 3 << 3);
                self.bytes
                    .extend_from_slice(&u32::try_from(at).expect("the database is small").to_be_bytes());
                return;
            }
            self.known.insert(text, self.bytes.len());
        }
        match value {
            Value::Array(items) => {
                header(&mut self.bytes, 11, items.len());
                for item in items {
                    self.push(item);
                }
            }
            Value::Object(entries) => {
                header(&mut self.bytes, 7, entries.len());
                for (key, value) in entries {
                    self.push(&Value::String(key.clone()));
                    self.push(value);
                }
            }
            scalar => push(&mut self.bytes, scalar),
        }
    }
}

fn parse(network: &str) -> (u128, u8) {
    let (address, length) = network.split_once('/').expect("a network has a length");
    let length: u8 = length.parse().expect("a length is a number");
    match address.parse().expect("a network has an address") {
        IpAddr::V4(address) => (u128::from(u32::from(address)), length + 96),
        IpAddr::V6(address) => (address.into(), length),
    }
}

fn insert(nodes: &mut Vec<[Record; 2]>, bits: u128, length: u8, data: usize) {
    let mut node = 0;
    for depth in 0..length {
        let side = usize::from(bits >> (BITS - 1 - depth) & 1 == 1);
        if depth + 1 == length {
            nodes[node][side] = Record::Data(data);
            return;
        }
        node = match nodes[node][side] {
            Record::Node(next) => next,
            // A part of a wider network: its other parts keep the record.
            before => {
                nodes.push([before; 2]);
                nodes[node][side] = Record::Node(nodes.len() - 1);
                nodes.len() - 1
            }
        };
    }
}

fn push_metadata(out: &mut Vec<u8>, database_type: &str, build_epoch: u64, node_count: usize) {
    let node_count = u32::try_from(node_count).expect("the database is small");
    header(out, 7, 9);
    for (key, number) in [("binary_format_major_version", 2), ("binary_format_minor_version", 0)] {
        text(out, key);
        unsigned(out, 5, number);
    }
    text(out, "build_epoch");
    unsigned(out, 9, build_epoch);
    text(out, "database_type");
    text(out, database_type);
    text(out, "description");
    push(out, &serde_json::json!({ "en": "made for a test" }));
    text(out, "ip_version");
    unsigned(out, 5, 6);
    text(out, "languages");
    push(out, &serde_json::json!(["en"]));
    text(out, "node_count");
    unsigned(out, 6, u64::from(node_count));
    text(out, "record_size");
    unsigned(out, 5, 32);
}

fn push(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => panic!("there is no null in a database"),
        Value::Bool(value) => header(out, 14, usize::from(*value)),
        Value::Number(number) => {
            if let Some(number) = number.as_u64() {
                unsigned(out, if u32::try_from(number).is_ok() { 6 } else { 9 }, number);
            } else {
                header(out, 3, 8);
                out.extend_from_slice(&number.as_f64().expect("it is a double").to_be_bytes());
            }
        }
        Value::String(value) => text(out, value),
        Value::Array(items) => {
            header(out, 11, items.len());
            for item in items {
                push(out, item);
            }
        }
        Value::Object(entries) => {
            header(out, 7, entries.len());
            for (key, value) in entries {
                text(out, key);
                push(out, value);
            }
        }
    }
}

fn text(out: &mut Vec<u8>, value: &str) {
    header(out, 2, value.len());
    out.extend_from_slice(value.as_bytes());
}

/// A number without leading zero bytes.
fn unsigned(out: &mut Vec<u8>, kind: u8, number: u64) {
    let bytes = number.to_be_bytes();
    let significant = &bytes[(number.leading_zeros() / 8) as usize..];
    header(out, kind, significant.len());
    out.extend_from_slice(significant);
}

/// The control byte of a value: its type, and its size.
fn header(out: &mut Vec<u8>, kind: u8, size: usize) {
    let (bits, rest) = match size {
        0..29 => (size as u8, vec![]),
        29..285 => (29, vec![(size - 29) as u8]),
        _ => {
            let over = u16::try_from(size - 285).expect("values are short");
            (30, over.to_be_bytes().to_vec())
        }
    };
    if kind < 8 {
        out.push(kind << 5 | bits);
    } else {
        out.extend_from_slice(&[bits, kind - 7]);
    }
    out.extend_from_slice(&rest);
}
