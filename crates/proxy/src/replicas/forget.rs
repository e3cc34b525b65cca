//! Orders to forget that replicas send to each other, as encoded in a mark.

use super::mark::{Kind, add, part, parts};
use super::peers::ReplicaSecret;
use crate::limits::REPLICA_MARK_BYTES_MAX;
use crate::store::Purge;

/// An order to forget cached responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The responses of a key, whose resource a request has changed.
    Key(Box<[u8]>),
    Purge(Purge),
}

/// Requests that carry orders to another replica, each with as many as a mark takes; and the number of
/// orders that are too long for any.
pub(super) fn requests(orders: &[Order], now: u64, secret: &ReplicaSecret) -> (Vec<Vec<u8>>, usize) {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: replica\r\nContent-Length: 0\r\n\r\n";
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut unsaid = 0;
    for order in orders {
        let said = write(order);
        match all.last_mut() {
            _ if said.len() > REPLICA_MARK_BYTES_MAX => unsaid += 1,
            Some(last) if last.len() + said.len() <= REPLICA_MARK_BYTES_MAX => last.extend(said),
            _ => all.push(said),
        }
    }
    let marked = all.iter().filter_map(|said| add(HEAD, (Kind::Forget, now), said, secret.key()));
    (marked.collect(), unsaid)
}

fn write(order: &Order) -> Vec<u8> {
    let (kind, first, second): (&[u8], &[u8], &[u8]) = match order {
        Order::Key(key) => (b"k", key, b""),
        Order::Purge(Purge::All) => (b"a", b"", b""),
        Order::Purge(Purge::Host(host)) => (b"h", host.as_bytes(), b""),
        Order::Purge(Purge::Url(host, target)) => (b"u", host.as_bytes(), target.as_bytes()),
        Order::Purge(Purge::Prefix(host, target)) => (b"p", host.as_bytes(), target.as_bytes()),
        Order::Purge(Purge::Tag(tag)) => (b"t", tag.as_bytes(), b""),
    };
    let mut out = Vec::new();
    for one in [kind, first, second] {
        part(one, &mut out);
    }
    out
}

/// Reads the orders that [`requests`] has written. None if one cannot be read: none of them is carried out
/// then.
pub(crate) fn read(said: &[u8]) -> Option<Vec<Order>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let order = |order: &[&[u8]]| {
        Some(match order {
            [b"k", key, b""] => Order::Key((*key).into()),
            [b"a", b"", b""] => Order::Purge(Purge::All),
            [b"h", host, b""] => Order::Purge(Purge::Host(text(host)?)),
            [b"u", host, target] => Order::Purge(Purge::Url(text(host)?, text(target)?)),
            [b"p", host, target] => Order::Purge(Purge::Prefix(text(host)?, text(target)?)),
            [b"t", tag, b""] => Order::Purge(Purge::Tag(text(tag)?)),
            _ => return None,
        })
    };
    parts(said)?.chunks(3).map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> Vec<Order> {
        let (host, target) = ("a.test".to_owned(), "/x?y".to_owned());
        let purges = [
            Purge::All,
            Purge::Host(host.clone()),
            Purge::Url(host.clone(), target.clone()),
            Purge::Prefix(host, target),
            Purge::Tag("news".to_owned()),
        ];
        let key = Order::Key(b"\x00\xff".as_slice().into());
        [key].into_iter().chain(purges.map(Order::Purge)).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let said: Vec<u8> = orders().iter().flat_map(write).collect();
        assert_eq!(read(&said), Some(orders()));
        assert_eq!(read(&said[..said.len() - 1]), None);
        let mut unknown = Vec::new();
        for one in [&b"x"[..], b"", b""] {
            part(one, &mut unknown);
        }
        assert_eq!(read(&unknown), None);
    }

    #[test]
    fn many_orders_take_several_requests_and_too_long_ones_none() {
        let secret = ReplicaSecret::new(b"of all", None);
        let tag = |len: usize| Order::Purge(Purge::Tag("x".repeat(len)));
        let long = tag(REPLICA_MARK_BYTES_MAX / 2);
        let count = |orders: &[Order]| {
            let (requests, unsaid) = requests(orders, 1, &secret);
            (requests.len(), unsaid)
        };
        assert_eq!(count(&[]), (0, 0));
        assert_eq!(count(&orders()), (1, 0));
        assert_eq!(count(&[long.clone(), long.clone(), tag(1)]), (2, 0));
        assert_eq!(count(&[tag(1), tag(REPLICA_MARK_BYTES_MAX), tag(1)]), (1, 1));
    }
}
