//! The endpoints of the sign-in: where the provider sends people back, where they sign out, and where the
//! provider ends sessions.

use std::sync::atomic::Ordering;

use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request};
use identity::oidc::CLOCK_DIFFERENCE_MAX;
use identity::oidc::login::Callback;
use identity::oidc::logout;

use super::{
    ANSWER_TIME_MAX, Ask, BACK_CHANNEL, Bytes, CALLBACK, Failure, Head, LOGIN, Login, PAGE, Reply, Session,
    SignIn, StatusCode, TEXT, TIME_MAX, cookies, form, host, now, pairs, redirect, removed, response,
    unstored,
};

impl SignIn {
    /// Answers a request for an endpoint.
    pub(in crate::admin) async fn answer(&self, request: &Request<Bytes>) -> Reply {
        let (head, ()) = request.clone().map(|_| ()).into_parts();
        let wanted = if head.uri.path() == BACK_CHANNEL { Method::POST } else { Method::GET };
        if head.method != wanted {
            let mut refused = page(StatusCode::METHOD_NOT_ALLOWED, "this takes another method".to_owned());
            let allowed = if wanted == Method::POST { "POST" } else { "GET" };
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return refused;
        }
        match head.uri.path() {
            BACK_CHANNEL => self.end_sessions(request.body()).await,
            CALLBACK => self.call_back(&head).await,
            _ => self.sign_out(&head).await,
        }
    }

    /// Somebody comes back from the provider.
    async fn call_back(&self, head: &Head) -> Reply {
        let callback = match Callback::parse(head.uri.query().unwrap_or_default().as_bytes()) {
            Ok(callback) => callback,
            Err(why) => return failed(StatusCode::BAD_REQUEST, why),
        };
        let Some((login, cookie)) = self.login(head, &callback.state) else {
            let why =
                "it is not in progress here, or took too long. The browser has to accept cookies, and https";
            return failed(StatusCode::BAD_REQUEST, why);
        };
        let counts = self.provider.counts();
        match self.finish(head, &login, callback).await {
            Ok(mut set) => {
                counts.signed_in.fetch_add(1, Ordering::Relaxed);
                set.push(removed(&cookie));
                redirect(PAGE, set)
            }
            Err(mut page) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                cookies(page.headers_mut(), vec![removed(&cookie)]);
                page
            }
        }
    }

    /// Has the code redeemed. Returns the cookies of the new session, or the page to show.
    async fn finish(&self, head: &Head, login: &Login, callback: Callback) -> Result<Vec<String>, Reply> {
        let issuer = &self.provider.settings().issuer;
        if callback.issuer.is_some_and(|told| told != *issuer) {
            return Err(failed(StatusCode::BAD_REQUEST, "the answer is that of another provider"));
        }
        let code = callback.outcome.map_err(|error| {
            let text = error.description.as_ref().unwrap_or(&error.error);
            let is_denied = error.error == "access_denied";
            let status = if is_denied { StatusCode::FORBIDDEN } else { StatusCode::BAD_REQUEST };
            failed(status, &format!("the provider says: {text}"))
        })?;
        let question = Ask::Redeem {
            code,
            verifier: login.verifier.clone(),
            nonce: login.nonce.clone(),
            redirect_uri: self.redirect_uri(head),
            wanted: self.wanted.clone(),
        };
        let granted = self.ask(question, ANSWER_TIME_MAX).await.map_err(|failure| match failure {
            Failure::Refused(_) => {
                failed(StatusCode::BAD_REQUEST, "the provider does not accept its own code any more")
            }
            Failure::Wrong(_) => failed(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the provider's answer cannot be used; the log says why",
            ),
            Failure::Away(_) => failed(StatusCode::SERVICE_UNAVAILABLE, "the provider cannot be reached"),
        })?;
        let session = Session::begin(&granted, &self.wanted);
        let set = self.set_session(head, &session, self.parts(&head.headers).sent());
        if set.is_empty() {
            return Err(failed(StatusCode::INTERNAL_SERVER_ERROR, "the session is too long for cookies"));
        }
        Ok(set)
    }

    /// The sign-in that a browser has begun with this state, with its cookie.
    fn login(&self, head: &Head, state: &str) -> Option<(Login, String)> {
        let (name, host) = (self.names.of_login(state), host(head));
        let (_, sealed) = pairs(&head.headers).find(|(known, _)| *known == name)?;
        let (begun, content) = self.keys.open(self.place(LOGIN, &host, &name), now(), sealed.as_bytes())?;
        let login = Login::decode(&content)?;
        let is_in_time = now() <= begun + TIME_MAX + CLOCK_DIFFERENCE_MAX;
        (login.state == state && is_in_time).then_some((login, name))
    }

    /// Somebody signs out, here and at the provider.
    async fn sign_out(&self, head: &Head) -> Reply {
        let parts = self.parts(&head.headers);
        let set = if parts.sent() == 0 { Vec::new() } else { self.names.remove_session(parts.sent()) };
        if let Some(session) = self.find(head, &parts) {
            self.provider.end(&session, now());
            let endpoint = self.metadata().await.and_then(|known| known.end_session_endpoint.clone());
            if let Some(endpoint) = endpoint {
                let client_id = &self.provider.settings().client_id;
                return redirect(&logout::url(&endpoint, client_id, Some(&session), None), set);
            }
        }
        let mut reply = page(StatusCode::OK, "You are signed out.".to_owned());
        cookies(reply.headers_mut(), set);
        reply
    }

    /// The provider ends sessions (`OpenID Connect` Back-Channel Logout 1.0 section 2.5).
    async fn end_sessions(&self, body: &Bytes) -> Reply {
        let pairs = form::parse(body).unwrap_or_default();
        let mut tokens = pairs.into_iter().filter(|(name, _)| name == "logout_token");
        let (Some((_, token)), None) = (tokens.next(), tokens.next()) else {
            return page(StatusCode::BAD_REQUEST, "there is no logout_token".to_owned());
        };
        match self.ask(Ask::Logout(token), ANSWER_TIME_MAX).await {
            Ok(_) => unstored(response(StatusCode::OK, TEXT, String::new())),
            Err(Failure::Away(why)) => page(StatusCode::SERVICE_UNAVAILABLE, why),
            Err(Failure::Refused(why) | Failure::Wrong(why)) => page(StatusCode::BAD_REQUEST, why),
        }
    }
}

fn page(status: StatusCode, text: String) -> Reply {
    unstored(response(status, TEXT, text + "\n"))
}

/// The answer to a sign-in that cannot go on, with what to do.
fn failed(status: StatusCode, why: &str) -> Reply {
    page(status, format!("Sign-in failed: {why}.\nOpen {PAGE} again to sign in."))
}
