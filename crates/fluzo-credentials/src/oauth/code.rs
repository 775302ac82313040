//! Authorization code with PKCE: the address to visit, and what comes back.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fluzo_llm::{AbortSignal, BoxFuture, Secret};
use futures_util::future::{Either, select};

use super::encoding::{decode, encode};
use super::reply::{form, one_line, read_tokens};
use super::{Authority, OAuthError, TokenReply};
use crate::outside::{Clock, FormPost};

/// One sign-in that is under way. Verifier and state are used once.
#[derive(Debug, Clone)]
pub struct CodeFlow {
    /// The address that the person visits. It holds no secret but the state, and is shown.
    pub url: String,
    authority: Authority,
    redirect_uri: String,
    verifier: Secret,
    state: Secret,
}

/// How the person answers.
pub struct Answered<'a> {
    /// Gives the query of the request that came to the redirect address.
    pub callback: BoxFuture<'a, String>,
    /// Gives what the person pasted: the redirect's address, its query, `code#state`, or the
    /// code alone.
    pub pasted: BoxFuture<'a, String>,
}

impl CodeFlow {
    /// Begins a sign-in whose answer goes to `redirect_uri`. `random` must be fresh bytes of
    /// the system's random source.
    ///
    /// # Errors
    ///
    /// When the server has no page for it, or an address must not be asked.
    pub fn begin(
        authority: &Authority,
        redirect_uri: &str,
        random: &[u8; 48],
    ) -> Result<Self, OAuthError> {
        authority.check()?;
        let page = authority.authorize_url.as_ref();
        let page = page.ok_or(OAuthError::Address("authorizeUrl"))?;
        let verifier = URL_SAFE_NO_PAD.encode(&random[..32]);
        let state = URL_SAFE_NO_PAD.encode(&random[32..]);
        let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(digest);
        let scope = authority.scopes.join(" ");
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", &authority.client_id),
            ("redirect_uri", redirect_uri),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("state", &state),
        ];
        if !scope.is_empty() {
            pairs.push(("scope", &scope));
        }
        let joint = if page.contains('?') { '&' } else { '?' };
        Ok(Self {
            url: format!("{page}{joint}{}", encode(pairs)),
            authority: authority.clone(),
            redirect_uri: redirect_uri.to_owned(),
            verifier: Secret::new(verifier),
            state: Secret::new(state),
        })
    }

    /// The code in the query that came to the redirect address.
    ///
    /// # Errors
    ///
    /// When the state is not that of this sign-in, the server says that something is wrong, or
    /// there is no code.
    pub fn code_of_query(&self, query: &str) -> Result<Secret, OAuthError> {
        let pairs = decode(query);
        let value = |name: &str| {
            let found = pairs.iter().find(|(n, _)| n == name);
            found.map(|(_, value)| value.as_str())
        };
        // Before anything else is believed.
        if value("state") != Some(self.state.reveal()) {
            return Err(OAuthError::OtherState);
        }
        match (value("error"), value("code")) {
            (Some("access_denied"), _) => Err(OAuthError::Denied),
            (Some(error), _) => {
                let description = value("error_description").unwrap_or_default();
                let text = format!("{error} {description}");
                Err(OAuthError::Refused(one_line(&text)))
            }
            (None, Some(code)) if !code.is_empty() => Ok(Secret::new(code)),
            _ => Err(OAuthError::NoCode),
        }
    }

    /// The code in what a person pasted. A code alone carries no state; it is bound to this
    /// sign-in by the verifier.
    ///
    /// # Errors
    ///
    /// As for [`CodeFlow::code_of_query`].
    pub fn code_of_pasted(&self, text: &str) -> Result<Secret, OAuthError> {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(OAuthError::NoCode);
        }
        if let Some((_, query)) = text.split_once('?') {
            return self.code_of_query(query.split('#').next().unwrap_or_default());
        }
        if text.contains("://") {
            return Err(OAuthError::NoCode);
        }
        if text.contains("code=") || text.contains("error=") {
            return self.code_of_query(text);
        }
        match text.split_once('#') {
            Some((_, state)) if state != self.state.reveal() => Err(OAuthError::OtherState),
            Some((code, _)) => Ok(Secret::new(code)),
            None => Ok(Secret::new(text)),
        }
    }

    /// Exchanges the code for tokens. Dropping the future loses the code: a sign-in begins anew.
    ///
    /// # Errors
    ///
    /// When no whole answer came, or the server refused.
    pub async fn exchange(
        &self,
        http: &dyn FormPost,
        code: &Secret,
    ) -> Result<TokenReply, OAuthError> {
        let request = form(
            &self.authority.token_url,
            [
                ("grant_type", "authorization_code"),
                ("code", code.reveal()),
                ("redirect_uri", &self.redirect_uri),
                ("client_id", &self.authority.client_id),
                ("code_verifier", self.verifier.reveal()),
            ],
        );
        let answer = http.exchange(request.clone()).await;
        read_tokens(&request, answer)
    }
}

/// Waits for the answer, by whichever way it comes first, and exchanges its code.
///
/// # Errors
///
/// When what came cannot be used, `limit` is over, or `abort` was given; nothing is stored.
pub async fn sign_in_with_code(
    flow: &CodeFlow,
    answered: Answered<'_>,
    http: &dyn FormPost,
    clock: &dyn Clock,
    limit: Duration,
    abort: &AbortSignal,
) -> Result<TokenReply, OAuthError> {
    let answer = select(answered.callback, answered.pasted);
    let waited = select(answer, clock.sleep(limit));
    let code = match abort.run_until_cancelled(waited).await {
        None => return Err(OAuthError::Cancelled),
        Some(Either::Right(_)) => return Err(OAuthError::TimedOut),
        Some(Either::Left((Either::Left((query, _)), _))) => flow.code_of_query(&query)?,
        Some(Either::Left((Either::Right((text, _)), _))) => flow.code_of_pasted(&text)?,
    };
    let exchanged = abort.run_until_cancelled(flow.exchange(http, &code)).await;
    exchanged.unwrap_or(Err(OAuthError::Cancelled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> CodeFlow {
        let authority = Authority {
            client_id: "mine".into(),
            authorize_url: Some("https://a.example/authorize?x=1".into()),
            token_url: "https://a.example/token".into(),
            device_url: None,
            scopes: vec!["a".into(), "b".into()],
        };
        CodeFlow::begin(&authority, "http://localhost:1/cb", &[7; 48]).unwrap()
    }

    /// The challenge of the verifier in RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let mut random = [0; 48];
        let bytes = URL_SAFE_NO_PAD.decode("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        random[..32].copy_from_slice(&bytes.unwrap());
        let authority = Authority {
            scopes: Vec::new(),
            ..flow().authority
        };
        let flow = CodeFlow::begin(&authority, "http://localhost:1/cb", &random).unwrap();
        let expected = "https://a.example/authorize?x=1&response_type=code&client_id=mine\
             &redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fcb\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
             &code_challenge_method=S256&state=AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(flow.url, expected);
    }

    #[test]
    fn what_comes_back_is_checked() {
        let flow = flow();
        let state = flow.state.reveal();
        let other = Err(OAuthError::OtherState);
        let rows = [
            (format!("code=c1&state={state}"), Ok("c1")),
            (format!("state={state}&code=c%2F1"), Ok("c/1")),
            ("code=c1&state=other".to_owned(), other.clone()),
            ("code=c1".to_owned(), other.clone()),
            ("error=access_denied".to_owned(), other.clone()),
            (
                format!("error=access_denied&state={state}"),
                Err(OAuthError::Denied),
            ),
            (
                format!("error=bad_scope&error_description=no%0Asuch&state={state}"),
                Err(OAuthError::Refused("bad_scope no such".into())),
            ),
            (format!("state={state}&code="), Err(OAuthError::NoCode)),
            (String::new(), other.clone()),
        ];
        for (query, expected) in rows {
            let code = flow.code_of_query(&query);
            assert_eq!(code, expected.clone().map(Secret::new), "{query}");
            let pasted = flow.code_of_pasted(&format!(" http://localhost:1/cb?{query}\n"));
            assert_eq!(pasted, expected.map(Secret::new), "{query}");
        }
        let rows = [
            (format!("c1#{state}"), Ok("c1")),
            ("c1#other".to_owned(), other),
            ("c1".to_owned(), Ok("c1")),
            (format!("code=c1&state={state}"), Ok("c1")),
            ("http://localhost:1/cb".to_owned(), Err(OAuthError::NoCode)),
            ("  ".to_owned(), Err(OAuthError::NoCode)),
            ("two words".to_owned(), Err(OAuthError::NoCode)),
        ];
        for (text, expected) in rows {
            assert_eq!(
                flow.code_of_pasted(&text),
                expected.map(Secret::new),
                "{text}"
            );
        }
    }

    #[test]
    fn debug_shows_neither_verifier_nor_state_field() {
        let flow = flow();
        let shown = format!("{flow:?}");
        assert!(!shown.contains(flow.verifier.reveal()), "{shown}");
    }
}
