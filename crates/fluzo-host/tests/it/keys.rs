//! A key is looked up before a prompt is accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, RequestAuth};
use fluzo_protocol::{Endpoint, Prompt};
use fluzo_testkit::poll_to_end;

use crate::life::{Kind, Life, Place, Setup};

struct NoKey(AtomicUsize);

impl Credentials for NoKey {
    fn resolve<'a>(
        &'a self,
        model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let error = CredentialError::Missing {
            provider: model.provider.clone(),
            variable: Some("THE_KEY".into()),
        };
        Box::pin(std::future::ready(Err(error)))
    }
}

#[test]
fn without_a_key_a_prompt_is_refused_and_nothing_is_stored() {
    let place = Place::new(Kind::Jsonl);
    let life = Life::begin(
        &place,
        Setup {
            credentials: Arc::new(NoKey(AtomicUsize::new(0))),
            ..Setup::new([])
        },
    );
    let prompt = Prompt {
        text: "hi".into(),
        ..Prompt::default()
    };
    let Err(error) = poll_to_end(life.session.prompt(prompt)) else {
        panic!("accepted")
    };
    assert!(
        error.contains("no API key found for `test`") && error.contains("THE_KEY"),
        "{error}"
    );
    assert!(place.messages().is_empty());
    assert!(life.log.names().is_empty());
}
