//! `forebay abuse`: asks a running Forebay for clients whose behaviour is far off the others', and has it let
//! them go.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use control::legible;
use http::Method;
use proxy::{ClientKey, ClientSelector, NoticedClient, Observer};
use serde::{Deserialize, Serialize};

use crate::ask::ask;
use crate::cli::{AbuseCommand, Output, Release};
use crate::output;
use crate::query::{decode, encode};

/// Most clients that are listed, those with penalties first.
const TOLD_MAX: usize = 1000;

/// The clients that were noticed.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listing {
    /// How many there are; the busiest of them follow.
    noticed: usize,
    slowed: usize,
    refused: usize,
    clients: Vec<Listed>,
}

/// A client that was noticed.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    /// The client's address or network, or the hash of the value that identifies it.
    client: String,
    /// The beginning of that value, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// `watched`, `slowed` or `refused`.
    standing: String,
    /// Seconds for which it is still refused.
    refused_for: u32,
    /// Refusals that are not forgotten.
    refusals: u8,
    /// The signals by which the client is unusual.
    reasons: Vec<String>,
    /// In a second, over the last ten seconds or so.
    rates: Vec<(String, f32)>,
}

/// The result of a release.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Released {
    /// Clients that were slowed or refused.
    released: usize,
}

/// Carries out a command.
pub(crate) fn run(command: AbuseCommand) -> anyhow::Result<ExitCode> {
    match command {
        AbuseCommand::List(asking) => {
            let noticed: Listing = ask(&asking.admin, Method::GET, "/abuse")?;
            print(asking.output, &noticed, Listing::text)?;
            Ok(ExitCode::SUCCESS)
        }
        AbuseCommand::Release(Release { client, key, all: _, asking }) => {
            let whom = match (client, key) {
                (Some(client), _) => {
                    self::client(&client)?;
                    format!("client={}", encode(&client))
                }
                (None, Some(value)) => format!("key={}", encode(&value)),
                (None, None) => "all=true".to_owned(),
            };
            let released: Released = ask(&asking.admin, Method::POST, &format!("/abuse/release?{whom}"))?;
            print(asking.output, &released, Released::text)?;
            Ok(ExitCode::from(u8::from(released.released == 0)))
        }
    }
}

fn print<A: Serialize>(output: Output, answer: &A, text: impl FnOnce(&A) -> String) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => legible::lines(&text(answer)).into_owned(),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
    };
    output::print(&text)
}

fn client(text: &str) -> anyhow::Result<ClientKey> {
    text.parse().map_err(|_| {
        anyhow::anyhow!(
            "{text:?} is neither an address, nor a network of 64 bits of IPv6, nor a key as it is listed"
        )
    })
}

/// The client that a query of `/abuse/release` names.
pub(crate) fn whom(query: &str) -> anyhow::Result<ClientSelector> {
    let text = |value| decode(value).filter(|value| !value.is_empty());
    match query.split_once('=').map(|(name, value)| (name, text(value))) {
        Some(("all", Some(yes))) if yes == "true" => Ok(ClientSelector::All),
        Some(("client", name)) => client(&name.unwrap_or_default()).map(ClientSelector::One),
        Some(("key", Some(value))) => Ok(ClientSelector::WithValue(value)),
        _ => bail!("/abuse/release takes client=CLIENT, key=VALUE or all=true"),
    }
}

impl Released {
    pub(crate) fn of(observer: &Observer, whom: &ClientSelector) -> Self {
        Self { released: observer.release_clients(whom) }
    }

    fn text(&self) -> String {
        match self.released {
            0 => "nothing was held against anybody\n".to_owned(),
            1 => "released 1 client\n".to_owned(),
            count => format!("released {count} clients\n"),
        }
    }
}

impl Listing {
    pub(crate) fn of(observer: &Observer) -> Self {
        let all = observer.noticed_clients();
        let count = |standing| all.iter().filter(|client| client.treatment == standing).count();
        let noticed = all.len();
        let slowed = count("slowed");
        let refused = count("refused");
        let clients = all.into_iter().take(TOLD_MAX).map(Listed::from).collect();
        Self { noticed, slowed, refused, clients }
    }

    /// For people: a table.
    fn text(&self) -> String {
        let Self { noticed, slowed, refused, clients } = self;
        let mut text = format!("{noticed} noticed, {slowed} slowed, {refused} refused\n");
        if clients.is_empty() {
            return text;
        }
        let width = clients.iter().map(|client| client.client.len()).max().unwrap_or(0).max("CLIENT".len());
        let _ = writeln!(
            text,
            "{:width$}  {:<8}  {:>5}  {:>8}  {:>10}  {:>8}  REASONS",
            "CLIENT", "STANDING", "FOR", "REFUSALS", "REQUESTS/S", "ERRORS/S"
        );
        for client in clients {
            let rate =
                |name| client.rates.iter().find(|(known, _)| known == name).map_or(0.0, |(_, rate)| *rate);
            let left = match client.refused_for {
                0 => "-".to_owned(),
                seconds => format!("{seconds}s"),
            };
            let mut reasons =
                if client.reasons.is_empty() { "-".to_owned() } else { client.reasons.join(", ") };
            if let Some(key) = &client.key {
                let _ = write!(reasons, "  {key:?}");
            }
            let _ = writeln!(
                text,
                "{:width$}  {:<8}  {left:>5}  {:>8}  {:>10.1}  {:>8.1}  {reasons}",
                client.client,
                client.standing,
                client.refusals,
                rate("requests"),
                rate("errors"),
            );
        }
        text
    }
}

impl From<NoticedClient> for Listed {
    fn from(noticed: NoticedClient) -> Self {
        Self {
            client: noticed.client.to_string(),
            key: noticed.value,
            standing: noticed.treatment.to_owned(),
            refused_for: noticed.refused_for_s,
            refusals: noticed.refusals,
            reasons: noticed.signals.into_iter().map(str::to_owned).collect(),
            rates: noticed.rates.into_iter().map(|(name, rate)| (name.to_owned(), rate)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_one_or_all() {
        let one = |name: &str| ClientSelector::One(name.parse().unwrap());
        assert_eq!(whom("all=true").unwrap(), ClientSelector::All);
        assert_eq!(whom("client=192.0.2.7").unwrap(), one("192.0.2.7"));
        assert_eq!(whom("client=2001%3Adb8%3A%3A%2F64").unwrap(), one("2001:db8::/64"));
        assert_eq!(whom("client=key%3A00000000000abc").unwrap(), one("key:00000000000abc"));
        assert_eq!(whom("key=user%3D7").unwrap(), ClientSelector::WithValue("user=7".to_owned()));
        for query in
            ["", "all", "all=false", "client=", "client=shop.test", "client=%zz", "key=", "colour=red"]
        {
            assert!(whom(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_client() {
        let client = |client: &str, standing: &str, refused_for, reasons: &[&str]| Listed {
            client: client.to_owned(),
            key: client.starts_with("key:").then(|| "user 7".to_owned()),
            standing: standing.to_owned(),
            refused_for,
            refusals: 1,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            rates: vec![("requests".to_owned(), 150.25), ("errors".to_owned(), 2.0)],
        };
        let clients = vec![
            client("2001:db8:1:2::/64", "refused", 20, &["requests", "errors"]),
            client("192.0.2.7", "watched", 0, &[]),
            client("key:00000000000abc", "slowed", 0, &["errors"]),
        ];
        let text = Listing { noticed: 3, slowed: 1, refused: 1, clients }.text();
        assert_eq!(
            text,
            "3 noticed, 1 slowed, 1 refused\n\
             CLIENT              STANDING    FOR  REFUSALS  REQUESTS/S  ERRORS/S  REASONS\n\
             2001:db8:1:2::/64   refused     20s         1       150.2       2.0  requests, errors\n\
             192.0.2.7           watched       -         1       150.2       2.0  -\n\
             key:00000000000abc  slowed        -         1       150.2       2.0  errors  \"user 7\"\n"
        );
    }
}
