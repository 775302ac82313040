//! The page of quirks, and servers that have them.

use fluzo_llm::{
    CacheRetention, FormSwitch, Message, ModelRequest, StreamErrorKind, StreamEvent, ThinkingLevel,
};
use fluzo_sim::{Body, Quirk, Reply, Scenario, Simulator, Step};
use serde_json::{Value, json};

use crate::support::{collect, finish, provider, request, result, shown};

/// The page is `docs/quirks.md`. When the table has changed, the new page is written beside the
/// test's other files and the failure says where.
#[test]
fn the_page_shows_the_table() {
    let page = fluzo_providers::quirks::page();
    let written = include_str!("../../../../docs/quirks.md");
    if page != written {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/quirks.md");
        std::fs::write(path, page).unwrap();
        panic!("docs/quirks.md is not what the table says; copy {path} there");
    }
}

fn server(quirk: Quirk) -> Simulator {
    let scenario = Scenario::new("quirk")
        .reasoning_model("m1")
        .quirk(quirk)
        .step(Step::new(Reply::text("ok")));
    Simulator::start(scenario).unwrap()
}

/// A request with everything that servers refuse: a round of tools whose answer has thinking
/// (unless `thought` is false) and no text, parts, caps, caching.
fn full(base_url: &str, provider: &str, thought: bool) -> ModelRequest {
    let thinking =
        json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"});
    let call =
        json!({"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "a"}});
    let content = if thought {
        json!([thinking, call])
    } else {
        json!([call])
    };
    let answer: Message = serde_json::from_value(json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": provider,
        "model": "m1", "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    }))
    .unwrap();
    let messages = vec![
        Message::user("go", 1),
        answer,
        result("call_1", "A"),
        Message::user("go on", 1),
    ];
    let mut request = request(base_url, messages);
    let mut model = (*request.model).clone();
    model.provider = provider.to_owned();
    request.model = model.into();
    request.options.thinking = ThinkingLevel::Low;
    request.options.max_output_tokens = Some(50);
    request.options.session_id = Some("s1".into());
    request.options.cache = CacheRetention::Long;
    request
}

async fn ask(request: &ModelRequest) -> Vec<StreamEvent> {
    collect(&*provider(), request.clone()).await
}

/// The server refuses the usual form, and takes the other one.
async fn check(quirk: Quirk, of: &str, thought: bool, switch: FormSwitch) {
    let simulator = server(quirk);
    let mut request = full(&simulator.base_url(), of, thought);
    let events = ask(&request).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(
        error.kind,
        StreamErrorKind::FormRefused,
        "{quirk:?}: {error}"
    );
    assert_eq!(error.alternative, Some(switch), "{quirk:?}: {error}");
    request.options.forms = vec![switch];
    let events = ask(&request).await;
    assert!(
        shown(&events).starts_with("text:ok"),
        "{quirk:?}: {}",
        shown(&events)
    );
    assert_eq!(simulator.finish().requests, 2, "{quirk:?}");
}

#[tokio::test]
async fn a_refused_form_comes_with_the_one_that_the_server_takes() {
    use FormSwitch as F;
    let rows = [
        (Quirk::RefusesNullContent, F::EmptyContent),
        (Quirk::RefusesTextParts, F::PlainUserContent),
        (Quirk::RefusesReasoning, F::NoReasoningBack),
        (Quirk::RefusesStreamOptions, F::NoStreamUsage),
        (Quirk::RefusesMaxCompletionTokens, F::MaxTokens),
        (Quirk::RefusesDeveloperRole, F::SystemRole),
        (Quirk::RefusesStore, F::NoStore),
        (Quirk::RefusesStrict, F::NoStrict),
        (Quirk::RefusesReasoningEffort, F::NoReasoningEffort),
        (Quirk::RefusesPromptCacheKey, F::NoLongCache),
        (Quirk::RefusesUserAfterTool, F::AnswerAfterResults),
        (Quirk::DemandsNineCharacterIds, F::ShortIds),
    ];
    for (quirk, switch) in rows {
        check(quirk, "sim", true, switch).await;
    }
    check(Quirk::DemandsReasoning, "sim", false, F::ReasoningBack).await;
    // Servers whose family has the other form from the start.
    check(Quirk::RefusesEmptyContent, "ollama", true, F::NullContent).await;
    check(
        Quirk::RefusesMaxTokens,
        "ollama",
        true,
        F::MaxCompletionTokens,
    )
    .await;
}

#[tokio::test]
async fn families_are_asked_in_their_form_from_the_start() {
    let rows = [
        (Quirk::DemandsNineCharacterIds, "mistral"),
        (Quirk::RefusesStreamOptions, "mistral"),
        (Quirk::RefusesReasoning, "mistral"),
        (Quirk::DemandsReasoning, "deepseek"),
        (Quirk::RefusesStore, "deepseek"),
        (Quirk::RefusesDeveloperRole, "cerebras"),
        (Quirk::RefusesNullContent, "ollama"),
        (Quirk::RefusesMaxCompletionTokens, "vllm"),
        (Quirk::RefusesStrict, "together"),
    ];
    for (quirk, of) in rows {
        let simulator = server(quirk);
        let mut request = full(&simulator.base_url(), of, quirk != Quirk::DemandsReasoning);
        // Each family asks for thinking in a way of its own, which is not at stake here.
        request.options.thinking = ThinkingLevel::Off;
        let mut model = (*request.model).clone();
        model
            .compat
            .insert("thinkingFormat".into(), json!("openai"));
        request.model = model.into();
        let events = ask(&request).await;
        assert!(
            shown(&events).starts_with("text:ok"),
            "{quirk:?}: {}",
            shown(&events)
        );
        assert_eq!(simulator.finish().requests, 1);
    }
}

#[tokio::test]
async fn a_key_that_the_user_has_set_is_not_switched() {
    let simulator = server(Quirk::RefusesStore);
    let mut request = full(&simulator.base_url(), "sim", true);
    let mut model = (*request.model).clone();
    model
        .compat
        .insert("supportsStore".into(), Value::Bool(true));
    request.model = model.into();
    let events = ask(&request).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(
        (error.kind, error.alternative),
        (StreamErrorKind::InvalidRequest, None)
    );
    assert_eq!(simulator.finish().requests, 1);
}

#[tokio::test]
async fn odd_habits_of_calls_and_finish_reasons_are_read() {
    let habits = [
        Quirk::OmitsIndex,
        Quirk::RepeatsIds,
        Quirk::SplitsNames,
        Quirk::OddFinishReasons,
    ];
    let call = fluzo_sim::ToolCall::new("call_9", "read", json!({"path": "b"}));
    for quirk in habits {
        let scenario = Scenario::new("habit")
            .model("m1")
            .quirk(quirk)
            .step(Step::new(Reply::calls([call.clone()])))
            .step(Step::new(Reply::text("ok")));
        let simulator = Simulator::start(scenario).unwrap();
        let mut request = crate::support::ask(&simulator.base_url());
        let model = json!({
            "id": "m1", "name": "m1", "api": "openai-completions", "provider": "sim",
            "baseUrl": simulator.base_url(), "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
        });
        request.model = std::sync::Arc::new(serde_json::from_value(model).unwrap());
        let events = ask(&request).await;
        let text = shown(&events);
        assert!(
            text.starts_with(r#"call call_9 read {"path":"b"} ; toolUse"#),
            "{quirk:?}: {text}"
        );
        let text = shown(&ask(&request).await);
        assert!(text.starts_with("text:ok ; stop"), "{quirk:?}: {text}");
        assert!(simulator.finish().violations.is_empty());
    }
}

#[tokio::test]
async fn an_answer_without_a_byte_is_asked_for_in_plain_text() {
    let body = Body::Raw {
        content_type: "text/event-stream".into(),
        text: String::new(),
    };
    let scenario = Scenario::new("silent")
        .model("m1")
        .step(Step::new(Reply::with_body(200, body)))
        .step(Step::new(Reply::text("ok")));
    let simulator = Simulator::start(scenario).unwrap();
    let mut request = request(&simulator.base_url(), vec![Message::user("go", 1)]);
    let events = collect(&*provider(), request.clone()).await;
    let error = finish(&events).error.clone().unwrap();
    assert_eq!(error.kind, StreamErrorKind::FormRefused);
    assert_eq!(error.alternative, Some(FormSwitch::PlainUserContent));
    request.options.forms.extend(error.alternative);
    let events = collect(&*provider(), request).await;
    assert_eq!(shown(&events), "text:ok ; stop 12/7");
    let sent = &simulator.requests()[1].body;
    assert_eq!(sent["messages"][1]["content"], json!("go"));
    assert!(simulator.finish().passed);
}
