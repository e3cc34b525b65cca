//! The problems of a translation in their order, and the Ingresses and hosts that have some.
//!
//! Never in here: what a problem is, and the objects that it is about.

use std::collections::{BTreeSet, HashSet};

use model::HostName;

use crate::index::Index;
use crate::problem::Problem;
use crate::translate::host_piece::HostPiece;
use crate::translate::ingress::{Ingresses, Turnover};
use crate::translate::memo::Memo;

/// The numbers of the Ingresses and of the hosts with problems: a change of few objects lists all problems
/// again without a visit to the others.
#[derive(Default)]
pub(super) struct Faulty {
    ingresses: BTreeSet<u32>,
    hosts: BTreeSet<u32>,
}

impl Faulty {
    /// The numbers of all Ingresses and hosts that have problems.
    pub(super) fn of(ingresses: &Ingresses, order: &[u32], hosts: &Memo<HostName, HostPiece>) -> Self {
        let has_problems = |&number: &u32| has_problems(number, hosts);
        Self {
            ingresses: ingresses.with_problems().collect(),
            hosts: order.iter().copied().filter(has_problems).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ingresses.is_empty() && self.hosts.is_empty()
    }

    /// Notes the Ingresses of a change.
    pub(super) fn note_ingresses(&mut self, turnovers: &[Turnover], ingresses: &Ingresses) {
        for turnover in turnovers {
            if let Some(old) = turnover.old {
                self.ingresses.remove(&old);
            }
            self.ingresses.extend(turnover.new.filter(|&new| !ingresses.problems_of(new).is_empty()));
        }
    }

    /// Notes the host with this number, which was made again or has gone.
    pub(super) fn note_host(&mut self, number: u32, hosts: &Memo<HostName, HostPiece>) {
        if has_problems(number, hosts) {
            self.hosts.insert(number);
        } else {
            self.hosts.remove(&number);
        }
    }

    /// The problems of Ingresses, in the order of the index.
    pub(super) fn of_ingresses<'i>(
        &self,
        ingresses: &'i Ingresses,
        index: &Index,
    ) -> impl Iterator<Item = &'i Problem> + use<'i> {
        let place = |number: u32| index.ingresses.place(ingresses.object(number));
        let mut placed: Vec<_> = self.ingresses.iter().map(|&number| (place(number), number)).collect();
        placed.sort_unstable();
        placed.into_iter().flat_map(|(_, number)| ingresses.problems_of(number))
    }

    /// The problems of hosts, of which `order` has the numbers.
    pub(super) fn of_hosts<'h>(
        &self,
        order: impl Iterator<Item = u32>,
        hosts: &'h Memo<HostName, HostPiece>,
    ) -> Vec<&'h Problem> {
        if self.hosts.is_empty() {
            return Vec::new();
        }
        let mut is_faulty = vec![false; hosts.end()];
        self.hosts.iter().for_each(|&number| is_faulty[number as usize] = true);
        let faulty = order.filter(|&number| is_faulty[number as usize]);
        faulty.filter_map(|number| hosts.peek(number)).flat_map(HostPiece::problems).collect()
    }
}

fn has_problems(number: u32, hosts: &Memo<HostName, HostPiece>) -> bool {
    hosts.peek(number).is_some_and(|piece| !piece.problems().is_empty())
}

/// Problems sorted by place, without duplicates: several hosts may report the same missing object.
pub(super) fn in_order<'p>(problems: impl Iterator<Item = &'p Problem>) -> Vec<Problem> {
    let mut told = HashSet::new();
    let mut problems: Vec<_> = problems.filter(|&problem| told.insert(problem)).collect();
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    problems.into_iter().cloned().collect()
}
