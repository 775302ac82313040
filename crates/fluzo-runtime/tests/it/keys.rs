//! Keys are looked up before every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluzo_agent::{Agent, AgentOptions, Effects, NativeAgent, NoHooks};
use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, Provider, RequestAuth, Secret};
use fluzo_runtime::model::{Dialects, ProviderModel};
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{FakeTool, ScriptedProvider, World, poll_to_end, spec, tools};
use serde_json::json;

/// A key that changes with every look-up.
struct Rotating(AtomicUsize);

impl Credentials for Rotating {
    fn resolve<'a>(
        &'a self,
        _model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        let auth = RequestAuth {
            api_key: Some(Secret::new(format!("key-{n}"))),
            ..RequestAuth::default()
        };
        Box::pin(std::future::ready(Ok(auth)))
    }
}

struct Expired;

impl Credentials for Expired {
    fn resolve<'a>(
        &'a self,
        model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        let error = CredentialError::Unresolved {
            provider: model.provider.clone(),
            reason: "it expired".into(),
        };
        Box::pin(std::future::ready(Err(error)))
    }
}

struct One(Arc<ScriptedProvider>);

impl Dialects for One {
    fn provider(&self, api: &str) -> Result<Arc<dyn Provider>, String> {
        if api == "test" {
            Ok(Arc::clone(&self.0) as _)
        } else {
            Err(format!("no dialect `{api}`"))
        }
    }
}

fn agent(provider: &Arc<ScriptedProvider>, credentials: impl Credentials + 'static) -> NativeAgent {
    let world = World::new([]);
    let dialects = Arc::new(One(Arc::clone(provider)));
    let model = ProviderModel::new(dialects, Arc::new(credentials), Arc::default());
    let effects = Effects {
        model: Arc::new(model),
        ..world.effects()
    };
    NativeAgent::new(
        effects,
        world.gate(),
        Arc::new(NoHooks),
        AgentOptions::default(),
    )
}

#[test]
fn checklist_14_a_key_is_looked_up_before_every_request() {
    let tool = Arc::new(FakeTool::new("one"));
    let replies = [calls([("c1", "one", json!({}))]), text(["ok"])];
    let provider = Arc::new(ScriptedProvider::new(replies));
    let agent = agent(&provider, Rotating(AtomicUsize::new(0)));
    poll_to_end(agent.start(spec("go", tools([&tool]))).unwrap());
    let keys: Vec<String> = provider
        .script()
        .requests()
        .iter()
        .map(|request| request.auth.api_key.as_ref().unwrap().reveal().to_owned())
        .collect();
    assert_eq!(keys, ["key-0", "key-1"]);
}

#[test]
fn a_key_that_cannot_be_had_fails_the_response_and_nothing_is_sent() {
    let provider = Arc::new(ScriptedProvider::new([]));
    let agent = agent(&provider, Expired);
    poll_to_end(agent.start(spec("go", tools([]))).unwrap());
    let error = agent
        .state()
        .read(|state| state.error_message.clone())
        .unwrap();
    assert_eq!(
        error,
        "the API key of `test` cannot be resolved: it expired"
    );
    assert!(provider.script().requests().is_empty());
}

/// A key that never comes.
struct Never;

impl Credentials for Never {
    fn resolve<'a>(
        &'a self,
        _model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn an_abort_ends_the_wait_for_a_key() {
    let provider = Arc::new(ScriptedProvider::new([]));
    let agent = agent(&provider, Never);
    let run = agent.start(spec("go", tools([]))).unwrap();
    agent.cancel();
    poll_to_end(run);
    assert!(provider.script().requests().is_empty());
}
