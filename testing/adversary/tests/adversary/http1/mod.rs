//! HTTP/1: the requests at an endpoint are those that Forebay answered, one for one, for every reader.

mod differential;
mod scenes;

use adversary::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "http1-differential", cases: 1000, play: differential::play },
    Attack { name: "http1-lengths", cases: 0, play: scenes::lengths_are_written_anew },
    Attack { name: "http1-refused-head", cases: 0, play: scenes::a_head_that_is_refused_has_no_body },
    Attack { name: "http1-upgrades", cases: 0, play: scenes::only_websocket_is_upgraded },
    Attack { name: "http1-unasked-switch", cases: 0, play: scenes::a_switch_that_was_not_asked_for },
    Attack { name: "http1-fragments", cases: 0, play: scenes::a_fragment_leads_round_no_rule },
    Attack { name: "http1-trailers", cases: 0, play: scenes::trailers_say_nothing_of_their_client },
    Attack {
        name: "http1-connection-options",
        cases: 0,
        play: scenes::what_connection_lists_is_seen_by_nobody,
    },
    Attack {
        name: "http1-forwarded-host",
        cases: 0,
        play: scenes::a_strangers_forwarded_host_is_not_believed,
    },
];
