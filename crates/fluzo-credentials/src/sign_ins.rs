//! Stored sign-ins: used while they hold, renewed by one process for all.
//!
//! A renewal runs to its end also when nobody waits for it any more, since the server may have
//! replaced the refresh token already. Order within the lock: read again (another process may
//! have renewed it), make sure that the disk takes an answer, ask the server, store the
//! answer, use it. Whatever fails, the stored entry stays as it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fluzo_llm::Secret;
use tokio::sync::oneshot;

use crate::auth_json::{Document, Stored, StoredToken};
use crate::oauth::{
    COPILOT, OAuthError, check_address, copilot_token, copilot_token_request, is_host, read_tokens,
    refresh_request,
};
use crate::outside::{Background, Clock, FormPost};
use crate::store::{AuthStore, StoreError};

/// The sign-ins in `auth.json`. Clones share them.
#[derive(Clone)]
pub struct SignIns(Arc<Shared>);

struct Shared {
    store: AuthStore,
    http: Arc<dyn FormPost>,
    clock: Arc<dyn Clock>,
    background: Arc<dyn Background>,
    /// Entries of old files, for providers that `auth.json` has none for. Never written.
    old: Document,
    /// Renewed sign-ins that could not be stored, by provider.
    unsaved: Mutex<BTreeMap<String, Unsaved>>,
}

/// What the server gave in exchange for a refresh token that the file still has.
struct Unsaved {
    spent: Secret,
    token: StoredToken,
}

/// How a sign-in is renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Renewal {
    /// With the client id that the user named.
    Form {
        token_url: String,
        client_id: String,
    },
    /// With GitHub's token, at the enterprise's domain if there is one.
    Copilot { domain: Option<String> },
}

/// Why a stored sign-in gives nothing to use. It is still stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignInError {
    /// It was made by another vendor's client, which Fluzo does not pretend to be.
    #[error("it belongs to another vendor's client")]
    Foreign,
    /// It is no longer stored.
    #[error("it was signed out")]
    Gone,
    /// It could not be renewed.
    #[error("it could not be renewed: {0}")]
    Renewal(#[from] OAuthError),
    /// The file cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program is ending.
    #[error("the program is ending")]
    Ending,
}

impl SignIns {
    /// The sign-ins of `store`, renewed over `http`.
    pub fn new(
        store: AuthStore,
        http: Arc<dyn FormPost>,
        clock: Arc<dyn Clock>,
        background: Arc<dyn Background>,
    ) -> Self {
        Self::with_old(store, http, clock, background, Document::default())
    }

    /// [`SignIns::new`] with the entries of old files besides. One that is renewed is stored
    /// in `auth.json`; the old files stay as they are.
    pub fn with_old(
        store: AuthStore,
        http: Arc<dyn FormPost>,
        clock: Arc<dyn Clock>,
        background: Arc<dyn Background>,
        old: Document,
    ) -> Self {
        Self(Arc::new(Shared {
            store,
            http,
            clock,
            background,
            old,
            unsaved: Mutex::new(BTreeMap::new()),
        }))
    }

    /// The file behind.
    pub fn store(&self) -> &AuthStore {
        &self.0.store
    }

    /// The entries of old files.
    pub(crate) fn old(&self) -> &Document {
        &self.0.old
    }

    /// The sign-in to `provider`, renewed if its time is over. Dropping the future does not stop
    /// a renewal that has begun.
    ///
    /// # Errors
    ///
    /// When it cannot be used or renewed. It stays stored.
    pub async fn fresh(
        &self,
        provider: &str,
        token: StoredToken,
    ) -> Result<StoredToken, SignInError> {
        renewal(provider, &token)?;
        if token.expires_ms > self.0.clock.now_ms() {
            return Ok(token);
        }
        let (done, renewed) = oneshot::channel();
        let (shared, provider) = (Arc::clone(&self.0), provider.to_owned());
        self.0.background.spawn(Box::pin(async move {
            // Whoever asked may have gone.
            let _ = done.send(shared.renew(&provider).await);
        }));
        renewed.await.unwrap_or(Err(SignInError::Ending))
    }

    /// Whether this sign-in is one that Fluzo uses.
    pub(crate) fn uses(provider: &str, token: &StoredToken) -> bool {
        renewal(provider, token) != Err(SignInError::Foreign)
    }
}

impl Shared {
    async fn renew(&self, provider: &str) -> Result<StoredToken, SignInError> {
        let turn = self.store.turn().await?;
        let mut document = self.store.read()?;
        let mut token = self.sign_in(&document, provider)?;
        if let Some(saved) = self.unsaved_for(provider, &token) {
            document.put(provider, &saved);
            turn.room(&document)?.write(&document)?;
            self.set_unsaved(provider, None);
            token = saved;
        }
        if token.expires_ms > self.clock.now_ms() {
            return Ok(token);
        }
        let renewal = renewal(provider, &token)?;
        let room = turn.room(&document)?;
        let spent = token.refresh.clone();
        if let Err(error) = self.ask(&renewal, &mut token).await {
            // A program that knows no lock may have done it.
            return self.fresh_in_file(provider).ok_or(error.into());
        }
        // Others may have written meanwhile that know no lock: what they changed is kept.
        let written =
            self.store
                .read()
                .and_then(|mut document| match self.sign_in(&document, provider) {
                    Ok(now) if now.refresh == spent => {
                        document.put(provider, &token);
                        room.write(&document).map(|()| Ok(token.clone()))
                    }
                    other => Ok(other),
                });
        if written.is_err() {
            self.set_unsaved(provider, Some(Unsaved { spent, token }));
        }
        written?
    }

    /// Puts what the server gives into `token`.
    async fn ask(&self, renewal: &Renewal, token: &mut StoredToken) -> Result<(), OAuthError> {
        match renewal {
            Renewal::Form {
                token_url,
                client_id,
            } => {
                let request = refresh_request(token_url, client_id, &token.refresh);
                let answer = self.http.exchange(request.clone()).await;
                let reply = read_tokens(&request, answer)?;
                let expires = reply.expires_ms(self.clock.now_ms());
                let refresh = reply.refresh.unwrap_or_else(|| token.refresh.clone());
                token.renew(reply.access, refresh, expires);
            }
            Renewal::Copilot { domain } => {
                let request = copilot_token_request(domain.as_deref(), &token.refresh);
                let answer = self.http.exchange(request.clone()).await;
                let (access, expires) = copilot_token(&request, answer)?;
                token.renew(access, token.refresh.clone(), expires);
            }
        }
        Ok(())
    }

    fn fresh_in_file(&self, provider: &str) -> Option<StoredToken> {
        let token = self.sign_in(&self.store.read().ok()?, provider).ok()?;
        (token.expires_ms > self.clock.now_ms()).then_some(token)
    }

    /// The sign-in in `document`, else that of the old files.
    fn sign_in(&self, document: &Document, provider: &str) -> Result<StoredToken, SignInError> {
        let stored = document.get(provider).or_else(|| self.old.get(provider));
        match stored {
            Some(Stored::SignIn(token)) => Ok(token),
            _ => Err(SignInError::Gone),
        }
    }

    fn unsaved_for(&self, provider: &str, stored: &StoredToken) -> Option<StoredToken> {
        let unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        let found = unsaved.get(provider);
        found
            .filter(|unsaved| unsaved.spent == stored.refresh)
            .map(|unsaved| unsaved.token.clone())
    }

    fn set_unsaved(&self, provider: &str, token: Option<Unsaved>) {
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        match token {
            Some(token) => unsaved.insert(provider.to_owned(), token),
            None => unsaved.remove(provider),
        };
    }
}

fn renewal(provider: &str, token: &StoredToken) -> Result<Renewal, SignInError> {
    if provider == COPILOT {
        return Ok(Renewal::Copilot {
            domain: enterprise(token),
        });
    }
    let (Some(client_id), Some(token_url)) = (token.text("clientId"), token.text("tokenUrl"))
    else {
        return Err(SignInError::Foreign);
    };
    check_address(&token_url, "tokenUrl")?;
    Ok(Renewal::Form {
        token_url,
        client_id,
    })
}

/// The domain of the enterprise that a sign-in to Copilot belongs to; stored as an address or
/// as a name.
pub(crate) fn enterprise(token: &StoredToken) -> Option<String> {
    let stored = token.text("enterpriseUrl")?;
    let name = stored.split_once("://").map_or(&*stored, |(_, rest)| rest);
    let name = name.split('/').next().unwrap_or_default().to_lowercase();
    is_host(&name).then_some(name)
}
