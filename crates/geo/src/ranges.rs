//! One value for each address, found with two or three accesses to memory.
//!
//! The tree of a database has a node for each bit of an address, most of which the processor has to fetch
//! from memory. Countries and autonomous systems are few, and neighbouring networks often have the same: so
//! they are kept as ranges in the order of addresses, with a table over the upper bits that says which ranges
//! to search.
//!
//! Must not be in here: the format of databases, and what a value means.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an address that the table is over.
const TABLE_BITS: u32 = 16;

/// Values by address.
pub(crate) struct Ranges<T> {
    v4: Sorted<u32, T>,
    v6: Sorted<u128, T>,
}

/// Ranges of addresses, each from its start to the next one's.
struct Sorted<A, T> {
    /// For each value of the upper bits, the number of ranges that start before them.
    table: Box<[u32]>,
    starts: Box<[A]>,
    values: Box<[Option<T>]>,
}

/// Ranges that are put together network by network.
pub(crate) struct Builder<T> {
    v4: Unfinished<u32, T>,
    v6: Unfinished<u128, T>,
}

struct Unfinished<A, T> {
    starts: Vec<A>,
    values: Vec<Option<T>>,
    /// The address after the last network; none after the end of all addresses.
    next: Option<A>,
}

/// An address as a number.
trait Address: Copy + Ord + Default {
    /// The upper bits, by which the table is ordered.
    fn upper(self) -> usize;
    /// The address that is this many behind; none behind the last one.
    fn after(self, count: u128) -> Option<Self>;
}

impl Address for u32 {
    fn upper(self) -> usize {
        (self >> (Self::BITS - TABLE_BITS)) as usize
    }

    fn after(self, count: u128) -> Option<Self> {
        self.checked_add(Self::try_from(count).ok()?)
    }
}

impl Address for u128 {
    fn upper(self) -> usize {
        (self >> (Self::BITS - TABLE_BITS)) as usize
    }

    fn after(self, count: u128) -> Option<Self> {
        self.checked_add(count)
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    /// The value of an address.
    pub(crate) fn get(&self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(address) => self.v4.get(address.to_bits()),
            IpAddr::V6(address) => self.v6.get(address.to_bits()),
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }
}

impl<A: Address, T: Copy + PartialEq> Sorted<A, T> {
    fn get(&self, address: A) -> Option<T> {
        let upper = address.upper();
        // The range that has the address starts among these, or is the last one before them.
        let (first, end) = (self.table[upper] as usize, self.table[upper + 1] as usize);
        let after = first + self.starts[first..end].partition_point(|start| *start <= address);
        self.values[after.checked_sub(1)?]
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.table) + size_of_val(&*self.starts) + size_of_val(&*self.values)
    }
}

impl<T: Copy + PartialEq> Builder<T> {
    pub(crate) fn new() -> Self {
        Self { v4: Unfinished::new(), v6: Unfinished::new() }
    }

    /// Adds the value of a network. Networks have to come in the order of their addresses; false for one that
    /// does not.
    pub(crate) fn add(&mut self, network: IpAddr, prefix: u8, value: Option<T>) -> bool {
        match network {
            IpAddr::V4(start) => self.v4.add(start.to_bits(), count(prefix, Ipv4Addr::BITS), value),
            IpAddr::V6(start) => self.v6.add(start.to_bits(), count(prefix, Ipv6Addr::BITS), value),
        }
    }

    pub(crate) fn finish(self) -> Ranges<T> {
        Ranges { v4: self.v4.finish(), v6: self.v6.finish() }
    }
}

/// The number of addresses of a network; that of all addresses of IPv6 counts as none, as it has no number.
fn count(prefix: u8, bits: u32) -> Option<u128> {
    1_u128.checked_shl(bits.checked_sub(u32::from(prefix))?)
}

impl<A: Address, T: Copy + PartialEq> Unfinished<A, T> {
    fn new() -> Self {
        Self { starts: Vec::new(), values: Vec::new(), next: Some(A::default()) }
    }

    fn add(&mut self, start: A, count: Option<u128>, value: Option<T>) -> bool {
        let Some(next) = self.next.filter(|next| *next <= start) else { return false };
        if next < start {
            self.push(next, None);
        }
        self.push(start, value);
        self.next = count.and_then(|count| start.after(count));
        true
    }

    /// Begins a range, unless the one before it has the same value.
    fn push(&mut self, start: A, value: Option<T>) {
        if self.values.last() != Some(&value) {
            self.starts.push(start);
            self.values.push(value);
        }
    }

    fn finish(mut self) -> Sorted<A, T> {
        if let Some(next) = self.next {
            self.push(next, None);
        }
        let mut table = vec![0_u32; (1 << TABLE_BITS) + 1];
        for start in &self.starts {
            table[start.upper() + 1] += 1;
        }
        for at in 1..table.len() {
            table[at] += table[at - 1];
        }
        Sorted { table: table.into(), starts: self.starts.into(), values: self.values.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ranges(networks: &[(&str, u8, u16)]) -> Option<Ranges<u16>> {
        let mut builder = Builder::new();
        let is_in_order =
            networks.iter().all(|(network, prefix, value)| builder.add(ip(network), *prefix, Some(*value)));
        is_in_order.then(|| builder.finish())
    }

    #[test]
    fn an_address_has_the_value_of_its_network() {
        let networks = [
            ("0.0.0.0", 8, 1),
            ("1.0.0.0", 16, 2),
            ("1.1.0.0", 16, 2),
            ("10.1.2.0", 24, 3),
            ("10.1.2.255", 32, 3),
            ("255.255.255.0", 24, 4),
            ("2001:db8::", 32, 5),
            ("2001:db9::1", 128, 6),
            ("ff00::", 8, 7),
        ];
        assert!(ranges(&networks).is_none(), "one is within another");
        let networks: Vec<_> = networks.into_iter().filter(|one| one.0 != "10.1.2.255").collect();
        let ranges = ranges(&networks).unwrap();
        for (address, expected) in [
            ("0.0.0.0", Some(1)),
            ("0.255.255.255", Some(1)),
            ("1.0.0.0", Some(2)),
            ("1.1.255.255", Some(2)),
            ("1.2.0.0", None),
            ("10.1.1.255", None),
            ("10.1.2.0", Some(3)),
            ("10.1.2.255", Some(3)),
            ("10.1.3.0", None),
            ("255.255.254.255", None),
            ("255.255.255.255", Some(4)),
            ("::", None),
            ("2001:db8::", Some(5)),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some(5)),
            ("2001:db9::", None),
            ("2001:db9::1", Some(6)),
            ("2001:db9::2", None),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(7)),
        ] {
            assert_eq!(ranges.get(ip(address)), expected, "{address}");
        }
        assert!(ranges.bytes() > 0);
    }

    #[test]
    fn all_addresses_are_one_network_and_none_are_none() {
        let all = ranges(&[("0.0.0.0", 0, 1), ("::", 0, 2)]).unwrap();
        let none = ranges(&[]).unwrap();
        for address in ["0.0.0.0", "127.0.0.1", "255.255.255.255"] {
            assert_eq!((all.get(ip(address)), none.get(ip(address))), (Some(1), None));
        }
        for address in ["::", "8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            assert_eq!((all.get(ip(address)), none.get(ip(address))), (Some(2), None));
        }
        assert!(ranges(&[("0.0.0.0", 0, 1), ("1.0.0.0", 8, 1)]).is_none(), "all are taken");
    }

    #[test]
    fn neighbours_with_one_value_are_one_range() {
        let all: Vec<_> = (0..=255).map(|last| (format!("10.0.{last}.0"), 24, 9)).collect();
        let all: Vec<_> =
            all.iter().map(|(network, prefix, value)| (network.as_str(), *prefix, *value)).collect();
        assert_eq!(ranges(&all).unwrap().v4.starts.len(), 3);
    }
}
