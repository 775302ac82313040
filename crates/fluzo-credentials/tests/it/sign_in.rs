//! Signing in against an authorisation server on loopback.

use std::sync::Arc;
use std::time::Duration;

use fluzo_credentials::oauth::{
    Answered, Authority as Server, CodeFlow, DeviceCode, OAuthError, TokenReply, sign_in_with_code,
    sign_in_with_device, stored_token,
};
use fluzo_credentials::outside::{Clock, FormPost, PostError};
use fluzo_llm::AbortSignal;
use serde_json::{Value, json};

use crate::authority::{Authority, CLIENT, Fault, ask};
use crate::support::{LoopbackClient, MemoryFile, TestClock, run, server, still, store};

const REDIRECT: &str = "http://localhost:1455/callback";
const LIMIT: Duration = Duration::from_secs(300);

fn described(authority: &Authority) -> Server {
    Server {
        client_id: CLIENT.into(),
        authorize_url: Some(authority.url("/authorize")),
        token_url: authority.url("/token"),
        device_url: Some(authority.url("/device")),
        scopes: vec!["a".into(), "b c".into()],
    }
}

/// What the page sends the browser to.
fn visit(flow: &CodeFlow) -> String {
    let (status, head, _) = ask("GET", &flow.url, None).unwrap();
    assert_eq!(status, 302, "{head}");
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    line.unwrap().to_owned()
}

fn query_of(location: &str) -> String {
    location.split_once('?').unwrap().1.to_owned()
}

fn never<'a>() -> fluzo_llm::BoxFuture<'a, String> {
    Box::pin(std::future::pending())
}

fn now<'a>(text: String) -> fluzo_llm::BoxFuture<'a, String> {
    Box::pin(std::future::ready(text))
}

/// A clock on which waits have no end.
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> i64 {
        0
    }

    fn sleep(&self, _: Duration) -> fluzo_llm::BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

fn signed_in(flow: &CodeFlow, answered: Answered<'_>) -> Result<TokenReply, OAuthError> {
    let abort = AbortSignal::new();
    run(sign_in_with_code(
        flow,
        answered,
        &LoopbackClient,
        &Still,
        LIMIT,
        &abort,
    ))
}

fn begin(authority: &Authority, seed: u8) -> CodeFlow {
    CodeFlow::begin(&described(authority), REDIRECT, &[seed; 48]).unwrap()
}

#[test]
fn a_code_comes_by_callback_or_paste_and_is_proven_with_the_verifier() {
    let authority = Authority::start();
    for pasted in [false, true] {
        let flow = begin(&authority, 1);
        let location = visit(&flow);
        let answered = if pasted {
            Answered {
                callback: never(),
                pasted: now(location),
            }
        } else {
            Answered {
                callback: now(query_of(&location)),
                pasted: never(),
            }
        };
        let reply = signed_in(&flow, answered).unwrap();
        let token = stored_token(&described(&authority), &reply, 1000).unwrap();
        assert!(token.access.reveal().starts_with("at-"));
        assert_eq!(token.expires_ms, 1000 + 3_600_000 - 300_000);
        assert_eq!(token.text("tokenUrl"), Some(authority.url("/token")));
        assert_eq!(token.text("clientId").as_deref(), Some(CLIENT));
        // What was signed in is stored in the form in which it is used.
        let file = MemoryFile::new("{\"other\": {\"type\": \"api_key\", \"key\": \"k\"}}");
        let store = store(&file, &TestClock::at(1000));
        let stored = store.change(|document| {
            document.put("p", &token);
            true
        });
        run(stored).unwrap();
        let ring = fluzo_credentials::KeyRing::new(Arc::new(|_| None), [].into(), [].into())
            .with_sign_ins(still(&file));
        assert!(ring.has("p") && ring.has("other"));
    }
}

#[test]
fn another_verifier_state_or_second_use_of_a_code_is_refused() {
    let authority = Authority::start();
    let flow = begin(&authority, 1);
    let location = visit(&flow);
    let callback = |text: &str| Answered {
        callback: now(text.to_owned()),
        pasted: never(),
    };
    // The code of one sign-in in another one: caught by the state, and as a bare code by the
    // server.
    let other = begin(&authority, 2);
    let refused = signed_in(&other, callback(&query_of(&location)));
    assert_eq!(refused.unwrap_err(), OAuthError::OtherState);
    let code = query_of(&visit(&flow));
    let code = code
        .split('&')
        .next()
        .unwrap()
        .strip_prefix("code=")
        .unwrap();
    let bare = Answered {
        callback: never(),
        pasted: now(code.to_owned()),
    };
    assert!(matches!(
        signed_in(&other, bare),
        Err(OAuthError::Invalid(_))
    ));
    signed_in(&flow, callback(&query_of(&location))).unwrap();
    let again = signed_in(&flow, callback(&query_of(&location)));
    assert!(matches!(again, Err(OAuthError::Invalid(_))), "{again:?}");
}

#[test]
fn failures_of_the_exchange_are_told_apart() {
    let rows = [
        (
            Fault::Answer(500, String::new()),
            "the server failed: status 500",
        ),
        (
            Fault::Answer(400, r#"{"error":"bad","error_description":"no"}"#.into()),
            "the server refused: bad: no",
        ),
        (
            Fault::CutOff,
            "no answer from the server: the answer was cut off",
        ),
    ];
    for (fault, expected) in rows {
        let authority = Authority::start();
        authority.fail_next(fault);
        let flow = begin(&authority, 1);
        let callback = Answered {
            callback: now(query_of(&visit(&flow))),
            pasted: never(),
        };
        assert_eq!(
            signed_in(&flow, callback).unwrap_err().to_string(),
            expected
        );
    }
}

#[test]
fn waiting_for_a_code_ends_with_time_or_abort() {
    let authority = Authority::start();
    let flow = begin(&authority, 1);
    let waiting = || Answered {
        callback: never(),
        pasted: never(),
    };
    let (abort, clock) = (AbortSignal::new(), TestClock::at(0));
    let late = sign_in_with_code(&flow, waiting(), &LoopbackClient, &clock, LIMIT, &abort);
    assert_eq!(run(late).unwrap_err(), OAuthError::TimedOut);
    assert_eq!(clock.now_ms(), 300_000);
    abort.cancel();
    let given_up = sign_in_with_code(&flow, waiting(), &LoopbackClient, &Still, LIMIT, &abort);
    assert_eq!(run(given_up).unwrap_err(), OAuthError::Cancelled);
}

fn device(
    authority: &Authority,
    clock: &TestClock,
    http: &dyn FormPost,
    abort: &AbortSignal,
) -> Result<TokenReply, OAuthError> {
    let described = described(authority);
    run(async {
        let code = DeviceCode::begin(&described, &LoopbackClient, clock, abort).await?;
        assert_eq!(code.user_code, "WXYZ-1234");
        assert_eq!(code.page, authority.url("/enter"));
        sign_in_with_device(&described, &code, http, clock, abort).await
    })
}

#[test]
fn a_device_code_is_asked_for_at_the_pace_of_the_server() {
    let pending = || json!({"error": "authorization_pending"});
    let rows: [(Vec<Value>, Result<i64, OAuthError>); 6] = [
        (vec![], Ok(5)),
        (vec![pending(), pending()], Ok(15)),
        (
            vec![json!({"error": "slow_down"}), pending()],
            Ok(5 + 10 + 10),
        ),
        (
            vec![json!({"error": "slow_down", "interval": 12})],
            Ok(5 + 12),
        ),
        (
            vec![pending(), json!({"error": "access_denied"})],
            Err(OAuthError::Denied),
        ),
        (
            vec![json!({"error": "expired_token"})],
            Err(OAuthError::TimedOut),
        ),
    ];
    for (polls, expected) in rows {
        let (authority, clock) = (Authority::start(), TestClock::at(0));
        let asked = polls.len() + usize::from(expected.is_ok());
        authority.answer_polls(polls);
        let reply = device(&authority, &clock, &LoopbackClient, &AbortSignal::new());
        match expected {
            Ok(seconds) => {
                assert!(reply.unwrap().refresh.is_some());
                assert_eq!(clock.now_ms(), seconds * 1000);
            }
            Err(error) => assert_eq!(reply.unwrap_err(), error),
        }
        assert_eq!(authority.polled(), asked);
    }
}

#[test]
fn a_device_code_ends_with_its_time_or_with_abort_and_outlives_lost_answers() {
    let pending = std::iter::repeat_n(json!({"error": "authorization_pending"}), 100);
    let (authority, clock) = (Authority::start(), TestClock::at(0));
    authority.answer_polls(pending);
    let late = device(&authority, &clock, &LoopbackClient, &AbortSignal::new());
    assert_eq!(late.unwrap_err(), OAuthError::TimedOut);
    assert_eq!((authority.polled(), clock.now_ms()), (12, 60_000));

    let (authority, clock) = (Authority::start(), TestClock::at(0));
    authority.fail_next(Fault::Hangup);
    authority.fail_next(Fault::Answer(503, String::new()));
    device(&authority, &clock, &LoopbackClient, &AbortSignal::new()).unwrap();
    assert_eq!(clock.now_ms(), (5 + 10 + 20) * 1000);

    let (authority, abort) = (Authority::start(), AbortSignal::new());
    let stop = abort.clone();
    let http = server(move |_, _| {
        stop.cancel();
        std::future::pending::<Result<_, PostError>>()
    });
    let given_up = device(&authority, &TestClock::at(0), &http, &abort);
    assert_eq!(given_up.unwrap_err(), OAuthError::Cancelled);
}

#[test]
fn addresses_in_the_clear_are_refused_before_anything_is_sent() {
    let authority = Authority::start();
    let described = described(&authority);
    let clear = || "http://a.example/x".to_owned();
    let rows = [
        Server {
            token_url: clear(),
            ..described.clone()
        },
        Server {
            authorize_url: Some(clear()),
            ..described.clone()
        },
        Server {
            device_url: Some(clear()),
            ..described
        },
    ];
    for server in rows {
        let refused = CodeFlow::begin(&server, REDIRECT, &[1; 48]);
        assert!(matches!(refused, Err(OAuthError::Address(_))));
        let abort = AbortSignal::new();
        let device = DeviceCode::begin(&server, &LoopbackClient, &Still, &abort);
        assert!(matches!(run(device), Err(OAuthError::Address(_))));
    }
    assert!(authority.asked().is_empty());
}
