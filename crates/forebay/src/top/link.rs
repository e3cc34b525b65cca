//! Asks a Forebay again and again, over a connection that is opened anew where it has broken off.

use std::time::Duration;

use anyhow::{Context, bail};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

use super::answers::{State, Traffic};
use crate::ask::{Address, Answer, Conversation};

/// Time for an answer. The first one takes a second, and more where very many routes are measured.
const PATIENCE: Duration = Duration::from_secs(15);

/// The way to query a Forebay.
pub(crate) trait Source {
    /// A connection to it.
    type Link: Link;

    /// Connects to the admin server.
    fn open(&mut self) -> impl Future<Output = anyhow::Result<Self::Link>>;
}

/// A connection to an admin server.
pub(crate) trait Link {
    /// The name of the source, for people.
    fn whose(&self) -> String;

    /// Asks for a target, and waits for the answer, but not for ever.
    fn ask(&mut self, target: &str) -> impl Future<Output = anyhow::Result<Answer>>;
}

/// Asks over and over.
pub(super) struct Reader<S: Source> {
    source: S,
    link: Option<S::Link>,
}

/// Overviews with the time of their arrival.
pub(super) struct Overview {
    pub(super) whose: String,
    pub(super) state: State,
    pub(super) traffic: Traffic,
}

impl<S: Source> Reader<S> {
    pub(super) const fn new(source: S) -> Self {
        Self { source, link: None }
    }

    /// Asks for everything that is shown.
    pub(super) async fn read(&mut self) -> anyhow::Result<Overview> {
        // A connection that was kept may have been closed for being idle: that is no trouble yet.
        if let Some(mut link) = self.link.take()
            && let Ok(told) = ask(&mut link).await
        {
            self.link = Some(link);
            return Ok(told);
        }
        let mut link = self.source.open().await?;
        let told = ask(&mut link).await?;
        self.link = Some(link);
        Ok(told)
    }
}

async fn ask(link: &mut impl Link) -> anyhow::Result<Overview> {
    let whose = link.whose();
    let state = read(&link.ask("/console/state").await?, &whose)?;
    let traffic = read(&link.ask("/console/traffic").await?, &whose)?;
    Ok(Overview { whose, state, traffic })
}

fn read<A: DeserializeOwned>(answer: &Answer, whose: &str) -> anyhow::Result<A> {
    match answer.status {
        StatusCode::NOT_FOUND => {
            bail!(
                "{whose} has no console: it is switched off (--console=false), or it is no admin server of Forebay"
            )
        }
        StatusCode::FORBIDDEN => {
            answer.read(whose).context("--admin-allow of that Forebay says who may look")
        }
        _ => answer.read(whose),
    }
}

/// An admin server at an address.
pub(super) struct Server(pub(super) Address);

/// A connection to it.
pub(super) struct Connected {
    url: String,
    conversation: Conversation,
}

impl Source for Server {
    type Link = Connected;

    async fn open(&mut self) -> anyhow::Result<Connected> {
        let url = self.0.to_string();
        let opened = tokio::time::timeout(PATIENCE, self.0.connect()).await;
        let opened =
            opened.with_context(|| format!("{url} has not answered within {} s", PATIENCE.as_secs()))?;
        let conversation = opened.with_context(|| {
            format!(
                "cannot ask {url}; `forebay serve` has its admin server there, or --admin says where it is"
            )
        })?;
        Ok(Connected { url, conversation })
    }
}

impl Link for Connected {
    fn whose(&self) -> String {
        self.url.clone()
    }

    async fn ask(&mut self, target: &str) -> anyhow::Result<Answer> {
        let url = &self.url;
        let asked = tokio::time::timeout(PATIENCE, self.conversation.ask(Method::GET, target)).await;
        let asked =
            asked.with_context(|| format!("{url} has not answered within {} s", PATIENCE.as_secs()))?;
        asked.with_context(|| format!("cannot ask {url}"))
    }
}
