//! No secret in any error, `Debug` output or text of this crate.

use std::sync::Arc;

use fluzo_credentials::auth_json::Document;
use fluzo_credentials::outside::{PostError, StoredText, TokenAnswer, TokenRequest};
use fluzo_credentials::{KeyRing, SecretValue};
use fluzo_llm::Secret;
use serde_json::json;

use crate::support::{
    MemoryFile, Outputs, TestClock, answer, environment, keys, known, resolve, server, sign_ins,
};

const PLANTED: &str = "planted-9f3c2b7a";

#[track_caller]
fn clean(shown: &str) {
    let lower = shown.to_lowercase();
    assert!(!lower.contains("9f3c2b7a"), "{shown}");
}

#[test]
fn debug_output_holds_no_secret() {
    let token = json!({"p": {"type": "oauth", "access": PLANTED, "refresh": PLANTED,
        "expires": 1, "extra": PLANTED}, "q": {"type": "api_key", "key": PLANTED}});
    let document = Document::parse(token.to_string().as_bytes()).unwrap();
    clean(&format!(
        "{document:?} {:?} {:?}",
        document.get("p"),
        document.get("q")
    ));
    for value in [PLANTED.to_owned(), PLANTED.to_uppercase().replace('-', "_")] {
        clean(&format!("{:?}", SecretValue::parse(&value)));
    }
    let request = TokenRequest {
        url: "https://a.example".into(),
        headers: vec![("authorization".into(), Secret::new(PLANTED))],
        form: Some(vec![("code".into(), Secret::new(PLANTED))]),
    };
    let bytes = PLANTED.as_bytes().to_vec();
    let answer = TokenAnswer {
        status: 200,
        body: bytes.clone(),
    };
    clean(&format!(
        "{request:?} {answer:?} {:?}",
        StoredText { bytes, mode: 0 }
    ));
}

/// Whatever the file holds and the server says.
#[test]
fn errors_hold_no_secret() {
    let entry = |fields: serde_json::Value| json!({"openai": fields}).to_string();
    let sign_in = json!({"type": "oauth", "access": PLANTED, "refresh": PLANTED, "expires": 1,
        "clientId": "c", "tokenUrl": "https://a.example/t"});
    let mut clear = sign_in.clone();
    clear["tokenUrl"] = json!(format!("http://{PLANTED}.example/t"));
    let mut foreign = sign_in.clone();
    foreign["clientId"] = json!(null);
    let files = [
        PLANTED.to_owned(),
        format!("{{\"openai\": {PLANTED}"),
        format!("\"{PLANTED}\""),
        entry(json!(PLANTED)),
        entry(json!({"type": PLANTED})),
        entry(json!({"type": "api_key", "key": [PLANTED]})),
        entry(json!({"type": "api_key", "key": "k", "env": PLANTED})),
        entry(json!({"type": "api_key", "key": "!fails"})),
        entry(json!({"type": "api_key", "key": "$NOT", "env": {"PLANTED": PLANTED}})),
        entry(json!({"type": "oauth", "access": PLANTED, "refresh": PLANTED, "expires": PLANTED})),
        entry(clear),
        entry(foreign),
        entry(sign_in),
    ];
    let said = json!({"error": PLANTED, "error_description": format!("token {PLANTED} is bad")});
    for file in &files {
        for status in [200, 400, 500] {
            let said = said.clone();
            let http = server(move |_, _| {
                let answer = answer(status, &said);
                async { answer }
            });
            let file = MemoryFile::new(file);
            let store = sign_ins(&file, &TestClock::at(1000), Arc::new(http));
            let warnings = store.store().warnings();
            let ring = KeyRing::new(environment(&[]), keys(&[]), [].into())
                .with_sign_ins(store)
                .with_commands(Arc::new(Outputs::default()));
            let error = resolve(&ring, &known("openai")).unwrap_err();
            clean(&format!("{error} {error:?} {warnings:?}"));
        }
    }
    clean(&PostError("cut off".into()).to_string());
}
