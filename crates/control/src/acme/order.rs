//! The conversation with an authority about one certificate. Each step is stored before the next one, so that
//! a restart takes an order up where it was.

use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType,
    Error, ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls_pki_types::CertificateDer;

use super::desk::Desk;
use super::entry::{Challenge, Entry, Order as StoredOrder, Renewal};
use super::failed::Failed;
use super::http::{Http, Refusal, Unanswered};
use super::schedule;
use super::settings::{ChallengeKind, Directory, Settings};
use super::state::now;
use crate::certificate::Pair;

/// Attempts for a step that fails because the authority did not accept a nonce.
const NONCES_MAX: u32 = 10;

/// How long, and how often, an authority is asked whether it has verified a host, and whether a certificate
/// is there. Its `Retry-After` takes precedence.
const POLLS: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));

/// Obtains the certificate of a host at an authority, and stores it.
pub(super) async fn obtain(
    desk: &Desk,
    host: &str,
    settings: &Settings,
    directory: &Directory,
) -> Result<(), Failed> {
    for _ in 1..NONCES_MAX {
        match attempt(desk, host, settings, directory).await {
            Err(failed) if failed.is_of_nonce => {}
            other => return other,
        }
    }
    attempt(desk, host, settings, directory).await
}

async fn attempt(desk: &Desk, host: &str, settings: &Settings, directory: &Directory) -> Result<(), Failed> {
    let account = account(desk, settings, directory).await?;
    let Some(mut order) = taken_up_or_placed(desk, host, settings, directory, &account).await? else {
        // The orders of this hour are used up.
        return Ok(());
    };
    if order.state().status == OrderStatus::Pending {
        authorize(desk, host, settings, directory, &mut order).await?;
    }
    if order.state().status == OrderStatus::Ready {
        let entry = desk.entry(host);
        let key = entry.state.order.as_ref().map(|order| order.key.as_str()).unwrap_or_default();
        let request = signing_request(host, key).map_err(|error| Failed::of_key(&error))?;
        if let Err(error) = order.finalize_csr(&request).await {
            // The authority may have been asked before a restart: its order tells.
            let is_finalized =
                |status: OrderStatus| matches!(status, OrderStatus::Processing | OrderStatus::Valid);
            if !order.refresh().await.is_ok_and(|state| is_finalized(state.status)) {
                return Err(error.into());
            }
        }
    }
    if order.state().status == OrderStatus::Invalid {
        return Err(Failed { ends_order: true, ..refusal(&mut order).await });
    }
    let chain = order.poll_certificate(&POLLS).await?;
    store_certificate(desk, host, directory, chain).await
}

/// The account at an authority; a new one is made where there is none.
async fn account(desk: &Desk, settings: &Settings, directory: &Directory) -> Result<Account, Failed> {
    let mut accounts = desk.accounts.lock().await;
    let stored = desk.account_entry(&directory.url);
    let binding = directory.binding.as_ref().map(|binding| binding.id.clone());
    let fits = stored.binding == binding && stored.email == settings.email;
    if fits && let Some(account) = accounts.get(&directory.url) {
        return Ok(account.clone());
    }
    let http = || {
        let (client, trusted) = (desk.client.clone(), directory.trusted.clone());
        Account::builder_with_http(Box::new(Http { client, trusted }))
    };
    let contact = settings.email.as_ref().map(|email| format!("mailto:{email}"));
    let contacts: Vec<&str> = contact.as_deref().into_iter().collect();
    let known: Option<AccountCredentials> = serde_json::from_value(stored.credentials).ok();
    let account = if let Some(known) = known.filter(|_| stored.binding == binding) {
        let account = http().from_credentials(known).await?;
        if stored.email != settings.email {
            account.update_contacts(&contacts).await?;
            let email = settings.email.clone();
            desk.update_account(&directory.url, |entry| entry.email = email)
                .await
                .map_err(|why| Failed::of_store(&why))?;
        }
        account
    } else {
        let wanted =
            NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let key = directory.binding.as_ref();
        let key = key.map(|binding| ExternalAccountKey::new(binding.id.clone(), &binding.key));
        let (account, credentials) = http().create(&wanted, directory.url.clone(), key.as_ref()).await?;
        let credentials = serde_json::to_value(credentials).unwrap_or_default();
        let (email, authority) = (settings.email.clone(), &directory.url);
        tracing::info!(authority, "an account for certificates was made");
        let change = |entry: &mut super::entry::AccountEntry| {
            (entry.credentials, entry.email, entry.binding) = (credentials, email, binding);
        };
        desk.update_account(&directory.url, change).await.map_err(|why| Failed::of_store(&why))?;
        account
    };
    accounts.insert(directory.url.clone(), account.clone());
    Ok(account)
}

/// The order in progress, or a new one. None if no further order may be placed now.
async fn taken_up_or_placed(
    desk: &Desk,
    host: &str,
    settings: &Settings,
    directory: &Directory,
    account: &Account,
) -> Result<Option<Order>, Failed> {
    let entry = desk.entry(host);
    if let Some(stored) = entry.state.order.as_ref().filter(|order| order.directory == directory.url) {
        let order = account.order(stored.url.clone()).await;
        return Ok(Some(order?));
    }
    let stored = desk.account_entry(&directory.url);
    if schedule::full_until(&stored, settings.orders_per_hour, now()) > now() {
        return Ok(None);
    }
    let key = KeyPair::generate().map_err(|error| Failed::of_key(&error))?.serialize_pem();
    desk.update_account(&directory.url, |account| schedule::note_order(account, now()))
        .await
        .map_err(|why| Failed::of_store(&why))?;
    let order = place(desk, host, settings, directory, account, &entry).await?;
    let stored =
        StoredOrder { directory: directory.url.clone(), url: order.url().to_owned(), key, placed: now() };
    let change = |entry: &mut Entry| (entry.state.order, entry.state.challenge) = (Some(stored), None);
    desk.update(host, change).await.map_err(|why| Failed::of_store(&why))?;
    Ok(Some(order))
}

/// Places an order. A renewal names the certificate that it replaces, where the authority knows of that: such
/// an order does not count against limits (RFC 9773 section 5).
async fn place(
    desk: &Desk,
    host: &str,
    settings: &Settings,
    directory: &Directory,
    account: &Account,
    entry: &Entry,
) -> Result<Order, Failed> {
    let identifiers = [Identifier::Dns(host.to_owned())];
    let new = || {
        let order = NewOrder::new(&identifiers);
        match &settings.profile {
            Some(profile) => order.profile(profile),
            None => order,
        }
    };
    let knows_renewals = entry.state.renewal.as_ref().is_some_and(|renewal| renewal.at.is_some());
    let is_same = entry.state.issued_by.as_ref() == Some(&directory.url);
    let leaf = desk.leaf(host).filter(|_| knows_renewals && is_same).map(CertificateDer::from);
    if let Some(leaf) = &leaf
        && let Ok(replaced) = CertificateIdentifier::try_from(leaf)
    {
        match account.new_order(&new().replaces(replaced)).await {
            Ok(order) => return Ok(order),
            Err(error) if is_about_replacing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(account.new_order(&new()).await?)
}

/// Whether an order fails for the certificate that it replaces.
fn is_about_replacing(error: &Error) -> bool {
    match error {
        Error::Api(problem) => {
            let kind = problem.r#type.as_deref().unwrap_or_default();
            kind.ends_with(":alreadyReplaced") || kind.ends_with(":malformed")
        }
        Error::Other(other) => !other.is::<Refusal>() && !other.is::<Unanswered>(),
        Error::Unsupported(_) => true,
        _ => false,
    }
}

/// Answers the challenge of an order, and waits until the authority has looked.
async fn authorize(
    desk: &Desk,
    host: &str,
    settings: &Settings,
    directory: &Directory,
    order: &mut Order,
) -> Result<(), Failed> {
    let entry = desk.entry(host);
    let mut refused = None;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let offered: Vec<_> =
            authorization.challenges.iter().map(|one| (kind_of(&one.r#type), &*one.token)).collect();
        let Some(kind) = selected(&offered, &entry, settings, directory) else {
            let why = "the authority offers none of the challenges that can be answered".to_owned();
            return Err(Failed { why, ends_order: true, ..Failed::default() });
        };
        let Some(mut challenge) = authorization.challenge(type_of(kind)) else { continue };
        let answered = Challenge {
            kind: kind.as_str().to_owned(),
            token: challenge.token.clone(),
            authorization: challenge.key_authorization().as_str().to_owned(),
        };
        let change = |entry: &mut Entry| entry.state.challenge = Some(answered);
        let revision = desk.update(host, change).await.map_err(|why| Failed::of_store(&why))?;
        desk.await_served(revision).await;
        if challenge.status == ChallengeStatus::Pending {
            refused = challenge.set_ready().await.err();
        }
    }
    if let Some(error) = refused
        && order.refresh().await?.status == OrderStatus::Pending
    {
        // Otherwise the authority was asked before a restart, and has looked meanwhile.
        return Err(error.into());
    }
    let looked = order.poll_ready(&POLLS).await;
    let is_invalid = match &looked {
        Ok(status) => *status == OrderStatus::Invalid,
        // The order has an error, and is invalid.
        Err(Error::Api(_)) => order.state().status == OrderStatus::Invalid,
        Err(_) => false,
    };
    if is_invalid {
        return Err(Failed { ends_order: true, ..refusal(order).await });
    }
    looked?;
    let cleared = desk.update(host, |entry| entry.state.challenge = None).await;
    cleared.map(drop).map_err(|why| Failed::of_store(&why))
}

/// The kind of challenge to answer: the one that is answered already, or the next one of those that the
/// settings have, so that attempts take turns.
fn selected(
    offered: &[(Option<ChallengeKind>, &str)],
    entry: &Entry,
    settings: &Settings,
    directory: &Directory,
) -> Option<ChallengeKind> {
    let is_answered = |(kind, token): &&(Option<ChallengeKind>, &str)| {
        let stored = entry.state.challenge.as_ref();
        stored.is_some_and(|stored| {
            stored.token == *token && kind.map(ChallengeKind::as_str) == Some(&stored.kind)
        })
    };
    if let Some((kind, _)) = offered.iter().find(is_answered) {
        return *kind;
    }
    let is_offered = |wanted: &ChallengeKind| offered.iter().any(|(kind, _)| kind.as_ref() == Some(wanted));
    let usable: Vec<ChallengeKind> = settings.challenges.iter().copied().filter(is_offered).collect();
    let failures = entry.state.failures.get(&directory.url).map_or(0, |failure| failure.count);
    let turn = (failures as usize).checked_rem(usable.len())?;
    usable.get(turn).copied()
}

fn kind_of(kind: &ChallengeType) -> Option<ChallengeKind> {
    match kind {
        ChallengeType::Http01 => Some(ChallengeKind::Http01),
        ChallengeType::TlsAlpn01 => Some(ChallengeKind::TlsAlpn01),
        _ => None,
    }
}

fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

/// Why an order is invalid, by the error of the challenge that the authority has looked at.
async fn refusal(order: &mut Order) -> Failed {
    let mut told = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let Ok(mut authorization) = authorization else { break };
        if authorization.refresh().await.is_err() {
            break;
        }
        for challenge in &authorization.challenges {
            let error = challenge.error.as_ref().and_then(|error| error.detail.as_deref());
            told.extend(error.map(|error| format!("{}: {error}", name_of(&challenge.r#type))));
        }
    }
    let of_order = order.state().error.as_ref().and_then(|error| error.detail.clone());
    let why = if told.is_empty() {
        of_order.unwrap_or_else(|| "the order is invalid".to_owned())
    } else {
        told.join("; ")
    };
    Failed { why, ..Failed::default() }
}

fn name_of(kind: &ChallengeType) -> &str {
    kind_of(kind).map_or("challenge", ChallengeKind::as_str)
}

/// The request for a certificate, in DER.
fn signing_request(host: &str, key: &str) -> Result<Vec<u8>, rcgen::Error> {
    let key = KeyPair::from_pem(key)?;
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key)?.der().to_vec())
}

async fn store_certificate(
    desk: &Desk,
    host: &str,
    directory: &Directory,
    chain: String,
) -> Result<(), Failed> {
    let entry = desk.entry(host);
    let key = entry.state.order.map(|order| order.key).unwrap_or_default();
    let unusable = |why: String| Failed {
        why: format!("the certificate from the authority cannot be used: {why}"),
        ends_order: true,
        ..Failed::default()
    };
    let pair = Pair::parse(&desk.store.name_of(host), chain.as_bytes(), key.as_bytes()).map_err(unusable)?;
    if !pair.is_for(host) {
        return Err(unusable(format!("it is for {}", pair.names())));
    }
    let until = crate::certificate::date(pair.not_after());
    let authority = &directory.url;
    tracing::info!(host, authority, until, "a certificate was obtained");
    let stored = desk.update(host, |entry| {
        (entry.chain, entry.key) = (Some(chain.into_bytes()), Some(key.into_bytes()));
        let state = &mut entry.state;
        state.issued_by = Some(directory.url.clone());
        (state.order, state.challenge, state.renewal) = (None, None, None);
        state.failures.clear();
    });
    if let Err(error) = stored.await {
        // The certificate is served, and the order that is stored leads to it again after a restart.
        tracing::error!(host, %error, "a certificate cannot be stored");
    }
    Ok(())
}

/// Asks the authority that has issued a host's certificate when it should be renewed (RFC 9773).
pub(super) async fn ask_renewal(desk: &Desk, host: &str, settings: &Settings, random: f64) {
    let entry = desk.entry(host);
    let before = entry.state.renewal.clone().unwrap_or_default();
    let issuer = entry.state.issued_by.as_deref();
    let directory = settings.directories.iter().find(|directory| Some(directory.url.as_str()) == issuer);
    let renewal = match directory {
        Some(directory) => asked(desk, host, settings, directory, &before, random).await,
        None => None,
    };
    // An authority that does not answer is asked again a day later, and the time that it has given stays.
    let renewal = renewal.unwrap_or(Renewal { ask_at: schedule::ask_again(None, now()), ..before });
    if let Err(error) = desk.update(host, |entry| entry.state.renewal = Some(renewal)).await {
        tracing::error!(host, %error, "the state of a certificate cannot be stored");
    }
}

async fn asked(
    desk: &Desk,
    host: &str,
    settings: &Settings,
    directory: &Directory,
    before: &Renewal,
    random: f64,
) -> Option<Renewal> {
    let account = account(desk, settings, directory).await.ok()?;
    let leaf = CertificateDer::from(desk.leaf(host)?);
    let identifier = CertificateIdentifier::try_from(&leaf).ok()?;
    let answer = account.renewal_info(&identifier).await;
    let answer = answer.inspect_err(|error| tracing::debug!(host, %error, "no time of renewal is suggested"));
    let (info, wait) = answer.ok()?;
    let window = &info.suggested_window;
    let at = schedule::within(window.start.unix_timestamp(), window.end.unix_timestamp(), before.at, random);
    if let Some(page) = info.explanation_url.as_ref().filter(|page| before.explanation.as_ref() != Some(page))
    {
        tracing::warn!(host, page, "the authority wants the certificate to be renewed early");
    }
    let wish = i64::try_from(wait.as_secs()).ok();
    Some(Renewal {
        at: Some(at),
        ask_at: schedule::ask_again(wish, now()),
        explanation: info.explanation_url,
    })
}
