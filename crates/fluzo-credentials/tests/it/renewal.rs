//! Renewing stored sign-ins: one renewal, never a loss.

use std::sync::Arc;

use fluzo_credentials::KeyRing;
use fluzo_credentials::outside::{FormPost, PostError};
use fluzo_llm::Credentials;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::authority::{Authority, Fault};
use crate::support::{
    LoopbackClient, MemoryFile, TestClock, answer, environment, key, keys, known, run, server,
    sign_ins,
};

/// Every stored token is over by then.
const NOW: i64 = 10_000_000;

fn entry(token_url: &str) -> Value {
    json!({"p": {"type": "oauth", "access": "at-0", "refresh": "rt-first", "expires": 1,
        "clientId": "mine", "tokenUrl": token_url, "accountId": "acc"}})
}

struct Scene {
    file: MemoryFile,
    clock: TestClock,
    http: Arc<dyn FormPost>,
}

impl Scene {
    fn new(http: Arc<dyn FormPost>, token_url: &str) -> Self {
        Self {
            file: MemoryFile::new(&entry(token_url).to_string()),
            clock: TestClock::at(NOW),
            http,
        }
    }

    fn of(authority: &Authority) -> Self {
        authority.grant("rt-first");
        Self::new(Arc::new(LoopbackClient), &authority.url("/token"))
    }

    /// A key ring as each process has one of its own.
    fn ring(&self) -> KeyRing {
        let sign_ins = sign_ins(&self.file, &self.clock, Arc::clone(&self.http));
        // A key that must never be used in place of a sign-in that fails.
        KeyRing::new(environment(&[]), keys(&[("p", "other-key")]), [].into())
            .with_sign_ins(sign_ins)
    }

    fn stored(&self) -> Value {
        serde_json::from_str::<Value>(&self.file.text()).unwrap()["p"].clone()
    }
}

async fn resolved(ring: &KeyRing) -> Result<String, String> {
    match ring.resolve(&known("p")).await {
        Ok(auth) => Ok(key(&auth).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_sign_in_is_renewed_stored_and_used_until_five_minutes_before_its_end() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let ring = scene.ring();
    run(async {
        assert_eq!(resolved(&ring).await.unwrap(), "at-1");
        let stored = scene.stored();
        assert_eq!(
            (&stored["access"], &stored["refresh"], &stored["accountId"]),
            (&json!("at-1"), &json!("rt-1"), &json!("acc"))
        );
        let ends = NOW + 3_600_000 - 300_000;
        assert_eq!(stored["expires"], ends);
        scene.clock.set(ends - 1);
        assert_eq!(resolved(&ring).await.unwrap(), "at-1");
        scene.clock.set(ends);
        assert_eq!(resolved(&ring).await.unwrap(), "at-2");
    });
    assert_eq!((authority.renewals(), authority.reuses()), (2, 0));
    assert!(!scene.file.is_locked());
}

#[test]
fn many_at_once_make_one_renewal() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let rings: Vec<_> = (0..7).map(|_| scene.ring()).collect();
    // Twice each: within one process as between processes.
    let keys = run(join_all(rings.iter().chain(&rings).map(resolved)));
    assert!(
        keys.iter().all(|key| key.as_deref() == Ok("at-1")),
        "{keys:?}"
    );
    assert_eq!((authority.renewals(), authority.reuses()), (1, 0));
}

#[test]
fn no_failure_of_server_or_network_changes_the_stored_sign_in() {
    let invalid = json!({"error": "invalid_grant", "error_description": "rt-first is unknown"});
    let faults = [
        Fault::Answer(400, invalid.to_string()),
        Fault::Answer(500, "<html>".into()),
        Fault::Answer(200, "{}".into()),
        Fault::Answer(200, "not json".into()),
        Fault::Answer(302, String::new()),
        Fault::CutOff,
        Fault::Hangup,
    ];
    for fault in faults {
        let authority = Authority::start();
        let scene = Scene::of(&authority);
        let before = scene.file.text();
        let shown = format!("{fault:?}");
        authority.fail_next(fault);
        let ring = scene.ring();
        run(async {
            let error = resolved(&ring).await.unwrap_err();
            let begin = "the sign-in to `p` cannot be used: it could not be renewed: ";
            assert!(error.starts_with(begin), "{error}");
            assert!(!error.contains("rt-first"), "{error}");
            assert_eq!(scene.file.text(), before, "{shown}");
            assert!(!scene.file.is_locked());
            // What failed passes, and the sign-in is still good.
            assert_eq!(resolved(&ring).await.unwrap(), "at-1", "{shown}");
        });
        assert_eq!(authority.reuses(), 0);
    }
}

#[test]
fn a_full_disk_is_noticed_before_the_server_replaces_the_token() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let before = scene.file.text();
    scene.file.disk(false, true);
    let ring = scene.ring();
    run(async {
        let error = resolved(&ring).await.unwrap_err();
        assert!(error.contains("`auth.json` cannot be written"), "{error}");
        assert_eq!((scene.file.text(), authority.renewals()), (before, 0));
        scene.file.disk(true, true);
        assert_eq!(resolved(&ring).await.unwrap(), "at-1");
    });
    assert_eq!(authority.reuses(), 0);
}

#[test]
fn what_could_not_be_stored_is_not_used_and_is_stored_with_the_next_request() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let before = scene.file.text();
    scene.file.disk(true, false);
    let ring = scene.ring();
    run(async {
        for _ in 0..2 {
            let error = resolved(&ring).await.unwrap_err();
            assert!(error.contains("`auth.json` cannot be written"), "{error}");
            assert_eq!(scene.file.text(), before);
        }
        scene.file.disk(true, true);
        assert_eq!(resolved(&ring).await.unwrap(), "at-1");
    });
    assert_eq!(scene.stored()["refresh"], "rt-1");
    assert_eq!((authority.renewals(), authority.reuses()), (1, 0));
}

#[test]
fn a_request_that_is_given_up_does_not_stop_the_renewal() {
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gate = std::sync::Mutex::new(Some(gone));
    let http = server(move |_, _| {
        let gate = gate.lock().unwrap().take();
        async move {
            gate.unwrap().await.unwrap();
            answer(
                200,
                &json!({"access_token": "at-1", "refresh_token": "rt-1"}),
            )
        }
    });
    let scene = Scene::new(Arc::new(http), "https://a.example/token");
    let ring = scene.ring();
    run(async {
        let model = known("p");
        let mut asked = ring.resolve(&model);
        // Until the server has been asked.
        while !scene.file.is_locked() {
            assert!(futures_util::poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
        drop(asked);
        assert_eq!(scene.stored()["refresh"], "rt-first");
        go.send(()).unwrap();
        while scene.file.is_locked() {
            tokio::task::yield_now().await;
        }
        assert_eq!(scene.stored()["refresh"], "rt-1");
    });
}

#[test]
fn what_others_write_during_a_renewal_is_kept() {
    type Write = fn(&mut Value);
    let rows: [(Write, Result<&str, &str>); 4] = [
        (
            |file| file["q"] = json!({"type": "api_key", "key": "k"}),
            Ok("at-1"),
        ),
        // A new sign-in to the same provider.
        (
            |file| {
                file["p"]["access"] = json!("at-new");
                file["p"]["refresh"] = json!("rt-new");
                file["p"]["expires"] = json!(NOW + 1);
            },
            Ok("at-new"),
        ),
        (|file| *file = json!({}), Err("it was signed out")),
        // Signed in with a key instead.
        (
            |file| file["p"] = json!({"type": "api_key", "key": "k"}),
            Err("it was signed out"),
        ),
    ];
    for (write, expected) in rows {
        let file = MemoryFile::default();
        let written = file.clone();
        let http = server(move |_, _| {
            let mut value = entry("https://a.example/token");
            write(&mut value);
            written.set(&value.to_string());
            async {
                answer(
                    200,
                    &json!({"access_token": "at-1", "refresh_token": "rt-1"}),
                )
            }
        });
        let scene = Scene {
            file,
            ..Scene::new(Arc::new(http), "")
        };
        scene
            .file
            .set(&entry("https://a.example/token").to_string());
        let key = run(resolved(&scene.ring()));
        let mut left = entry("https://a.example/token");
        write(&mut left);
        if expected == Ok("at-1") {
            for (name, value) in [("access", "at-1"), ("refresh", "rt-1")] {
                left["p"][name] = json!(value);
            }
            left["p"]["expires"] = json!(NOW + 3_300_000);
        }
        match expected {
            Ok(text) => assert_eq!(key.unwrap(), text),
            Err(text) => assert!(key.unwrap_err().ends_with(text)),
        }
        assert_eq!(
            serde_json::from_str::<Value>(&scene.file.text()).unwrap(),
            left
        );
    }
}

/// A program that knows no lock, such as pi, has renewed it and the server refuses ours.
#[test]
fn after_a_refusal_the_file_is_read_again() {
    let file = MemoryFile::default();
    let written = file.clone();
    let http = server(move |_, _| {
        let mut value = entry("https://a.example/token");
        value["p"]["access"] = json!("at-theirs");
        value["p"]["expires"] = json!(NOW + 1);
        written.set(&value.to_string());
        async { answer(400, &json!({"error": "invalid_grant"})) }
    });
    let scene = Scene {
        file,
        ..Scene::new(Arc::new(http), "")
    };
    scene
        .file
        .set(&entry("https://a.example/token").to_string());
    assert_eq!(run(resolved(&scene.ring())).unwrap(), "at-theirs");
}

#[test]
fn a_lock_that_is_never_given_back_ends_in_an_error() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    scene.file.lock(true);
    let error = run(resolved(&scene.ring())).unwrap_err();
    assert!(
        error.ends_with("`auth.json` has been locked by another process for 90 seconds"),
        "{error}"
    );
    assert_eq!(authority.renewals(), 0);
}

#[test]
fn a_broken_file_is_not_written_over() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let store = crate::support::store(&scene.file, &scene.clock);
    for broken in ["{\"p\": ", "[]"] {
        scene.file.set(broken);
        let changed = run(store.change(|document| {
            document.put_key("q", "k");
            true
        }));
        assert!(
            changed
                .unwrap_err()
                .to_string()
                .contains("`auth.json`, line 1")
        );
        assert_eq!(scene.file.text(), broken);
    }
    // Nothing there yet is no obstacle.
    scene.file.set("");
    run(store.change(|document| {
        document.put_key("q", "k");
        true
    }))
    .unwrap();
    assert!(scene.file.text().contains("\"q\""));
    run(store.change(|document| document.remove("q"))).unwrap();
    assert_eq!(scene.file.text(), "{}\n");
    assert!(store.warnings().is_empty());
    scene.file.widen();
    assert_eq!(
        store.warnings(),
        ["`auth.json` can be read by others (mode 0644): run `chmod 600 'auth.json'`"]
    );
}

#[test]
fn copilot_renews_its_token_with_that_of_github() {
    let http = server(|request, _| {
        assert_eq!(
            request.url,
            "https://api.ghe.example/copilot_internal/v2/token"
        );
        assert_eq!(request.headers[0].1.reveal(), "Bearer gho-1");
        assert!(request.form.is_none());
        async {
            answer(
                200,
                &json!({"token": "t;proxy-ep=proxy.b.example", "expires_at": 20_000}),
            )
        }
    });
    let scene = Scene::new(Arc::new(http), "");
    scene.file.set(
        r#"{"github-copilot": {"type": "oauth", "access": "old", "refresh": "gho-1", "expires": 1,
        "enterpriseUrl": "https://GHE.example/"}}"#,
    );
    let ring = scene.ring();
    let auth = run(ring.resolve(&known("github-copilot"))).unwrap();
    assert_eq!(key(&auth).as_deref(), Some("t;proxy-ep=proxy.b.example"));
    assert_eq!(auth.base_url.as_deref(), Some("https://api.b.example"));
    let stored: Value = serde_json::from_str(&scene.file.text()).unwrap();
    let stored = &stored["github-copilot"];
    assert_eq!(stored["expires"], 20_000_000 - 300_000);
    assert_eq!(
        (&stored["refresh"], &stored["enterpriseUrl"]),
        (&json!("gho-1"), &json!("https://GHE.example/"))
    );
}

#[test]
fn a_refresh_token_goes_to_no_address_in_the_clear() {
    let http = server(|_, _| async { Err(PostError("asked".into())) });
    let asked = Arc::clone(&http.asked);
    let scene = Scene::new(Arc::new(http), "http://a.example/token");
    let error = run(resolved(&scene.ring())).unwrap_err();
    assert!(
        error.contains("`tokenUrl` must begin with https://"),
        "{error}"
    );
    assert!(asked.lock().unwrap().is_empty());
}

/// The server has replaced the token and its answer never came: nobody here can know the new one.
/// The server refuses the old one from then on, and what is stored stays for the user to see.
#[test]
fn an_answer_that_is_lost_after_the_token_was_replaced_wipes_nothing() {
    let authority = Authority::start();
    let scene = Scene::of(&authority);
    let before = scene.file.text();
    authority.fail_next(Fault::Lost);
    let ring = scene.ring();
    run(async {
        for _ in 0..2 {
            assert!(resolved(&ring).await.is_err());
            assert_eq!(scene.file.text(), before);
            assert!(!scene.file.is_locked());
        }
    });
    assert_eq!((authority.renewals(), authority.reuses()), (1, 1));
}
