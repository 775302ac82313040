use fluzo_sim::{
    Completion, Fragmenting, Outcome, Quirk, Reply, Step, ToolCall, Usage, Verdict, ViolationKind,
};
use serde_json::{Value, json};

use crate::client::{Client, ask, call, request, scenario, start};

fn post(quirk: Quirk, allowed: usize, bodies: &[&Value]) -> (Vec<(u16, Value)>, Verdict) {
    let script = scenario().quirk(quirk).max_quirk_refusals(allowed);
    let simulator = start(script.step(Reply::text("x")));
    let mut client = Client::new(&simulator);
    let answers = bodies.iter().map(|body| client.post(body));
    let answers = answers
        .map(|response| {
            let body = if response.status == 200 {
                Value::Null
            } else {
                response.json()
            };
            (response.status, body)
        })
        .collect();
    (answers, simulator.finish())
}

/// The bad request is refused in the words of such servers, and the good one is then answered.
fn check(quirk: Quirk, status: u16, words: &str, bad: &Value, good: &Value) {
    let (answers, verdict) = post(quirk, 1, &[bad, good]);
    assert_eq!(
        (answers[0].0, answers[1].0),
        (status, 200),
        "{quirk:?}: {answers:?}"
    );
    assert!(
        answers[0].1.to_string().contains(words),
        "{quirk:?}: {}",
        answers[0].1
    );
    assert!(verdict.passed && quirk.refuses(), "{quirk:?}: {verdict}");
    assert_eq!((verdict.quirk_refusals, verdict.steps_played), (1, 1));
    let (_, verdict) = post(quirk, 0, &[bad, good]);
    assert!(
        verdict.has(ViolationKind::QuirkRefused),
        "{quirk:?}: {verdict}"
    );
}

fn with(key: &str, value: Value) -> Value {
    let mut body = ask("go");
    body[key] = value;
    body
}

/// One turn with a call, with these changes to the assistant message.
fn turn(changes: &Value) -> Value {
    let mut said = json!({"role": "assistant", "content": "let me see", "tool_calls": [call("abcDEF123", "read", "{}")]});
    for (key, value) in changes.as_object().unwrap() {
        said[key.as_str()] = value.clone();
    }
    let result =
        json!({"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "r"});
    request(json!([{"role": "user", "content": "go"}, said, result]))
}

#[test]
fn forms_of_content_that_some_servers_refuse() {
    let good = turn(&json!({}));
    let null = turn(&json!({"content": null}));
    let empty = turn(&json!({"content": ""}));
    check(
        Quirk::RefusesNullContent,
        400,
        "but got null instead",
        &null,
        &empty,
    );
    check(
        Quirk::RefusesEmptyContent,
        400,
        "must not be empty",
        &empty,
        &null,
    );
    let parts = request(json!([{"role": "user", "content": [{"type": "text", "text": "go"}]}]));
    check(
        Quirk::RefusesTextParts,
        400,
        "expected a string, but got an array",
        &parts,
        &good,
    );
    let mut after_tool = turn(&json!({}));
    after_tool["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "and"}));
    check(
        Quirk::RefusesUserAfterTool,
        400,
        "Unexpected role 'user' after role 'tool'",
        &after_tool,
        &good,
    );
    let developer =
        request(json!([{"role": "developer", "content": "s"}, {"role": "user", "content": "go"}]));
    check(
        Quirk::RefusesDeveloperRole,
        400,
        "unknown variant `developer`",
        &developer,
        &good,
    );
}

#[test]
fn reasoning_that_some_servers_refuse_and_some_demand() {
    let without = turn(&json!({}));
    let with = turn(&json!({"reasoning_content": "hm"}));
    check(
        Quirk::RefusesReasoning,
        400,
        "property 'reasoning_content' is unsupported",
        &with,
        &without,
    );
    check(
        Quirk::DemandsReasoning,
        400,
        "Missing `reasoning_content` field in the assistant message at message index 1",
        &without,
        &with,
    );
}

#[test]
fn demanded_reasoning_is_unaltered() {
    let calls = Completion {
        thinking: Some("hm".to_owned()),
        tool_calls: vec![ToolCall::new("abcDEF123", "read", json!({}))],
        ..Completion::default()
    };
    for (given, status) in [("hm", 200), ("hm!", 400), ("", 400)] {
        let script = scenario()
            .quirk(Quirk::DemandsReasoning)
            .max_quirk_refusals(1);
        let script = script
            .step(Reply::completion(calls.clone()))
            .step(Reply::text("x"));
        let simulator = start(script);
        let mut client = Client::new(&simulator);
        assert_eq!(client.post(&ask("go")).status, 200);
        let body = turn(&json!({"reasoning_content": given}));
        assert_eq!(client.post(&body).status, status, "{given}");
    }
}

#[test]
fn parameters_that_some_servers_refuse() {
    let mut bare = ask("go");
    bare.as_object_mut().unwrap().shift_remove("stream_options");
    check(
        Quirk::RefusesStreamOptions,
        400,
        "Unrecognized request argument supplied: stream_options",
        &ask("go"),
        &bare,
    );
    let (old, new) = (
        with("max_tokens", json!(5)),
        with("max_completion_tokens", json!(5)),
    );
    check(
        Quirk::RefusesMaxTokens,
        400,
        "Use 'max_completion_tokens' instead",
        &old,
        &new,
    );
    check(
        Quirk::RefusesMaxCompletionTokens,
        400,
        "max_completion_tokens",
        &new,
        &old,
    );
    check(
        Quirk::RefusesReasoningEffort,
        400,
        "reasoning_effort",
        &with("reasoning_effort", json!("low")),
        &bare,
    );
    check(
        Quirk::RefusesStore,
        422,
        "extra_forbidden",
        &with("store", json!(false)),
        &bare,
    );
    check(
        Quirk::RefusesPromptCacheKey,
        422,
        "prompt_cache_key",
        &with("prompt_cache_key", json!("k")),
        &bare,
    );
    check(
        Quirk::RefusesParallelToolCalls,
        422,
        "parallel_tool_calls",
        &with("parallel_tool_calls", json!(true)),
        &bare,
    );
    let mut strict = ask("go");
    strict["tools"][1]["function"]["strict"] = json!(false);
    check(
        Quirk::RefusesStrict,
        400,
        "tools[1].function.strict",
        &strict,
        &bare,
    );
}

#[test]
fn some_servers_demand_ids_of_nine_letters_and_digits() {
    let good = turn(&json!({}));
    for id in ["call_1", "abcDEF12", "abc_EF123", "abcDEF1234"] {
        let bad = turn(&json!({"tool_calls": [call(id, "read", "{}")]}));
        check(
            Quirk::DemandsNineCharacterIds,
            400,
            "with a length of 9",
            &bad,
            &good,
        );
    }
}

#[test]
fn a_refusal_for_a_quirk_is_recorded_and_no_excuse_for_a_broken_rule() {
    let simulator = start(
        scenario()
            .quirk(Quirk::RefusesStore)
            .max_quirk_refusals(9)
            .step(Reply::text("x")),
    );
    let mut client = Client::new(&simulator);
    assert_eq!(client.post(&with("store", json!(true))).status, 422);
    assert_eq!(simulator.requests()[0].outcome, Outcome::Refused);
    let mut bad = with("store", json!(true));
    bad["n"] = json!(2);
    assert_eq!(client.post(&bad).status, 400);
    let verdict = simulator.finish();
    assert_eq!(verdict.quirk_refusals, 1);
    assert!(
        verdict.has(ViolationKind::InvalidParameter) && !verdict.has(ViolationKind::QuirkRefused)
    );
}

fn answered(quirk: Quirk, completion: Completion) -> Vec<Value> {
    assert!(!quirk.refuses());
    let simulator = start(
        scenario()
            .quirk(quirk)
            .step(Step::new(Reply::completion(completion))),
    );
    let chunks = Client::new(&simulator).post(&ask("go")).chunks_json();
    assert!(simulator.finish().passed);
    chunks
        .iter()
        .map(|chunk| chunk["choices"][0].clone())
        .collect()
}

fn calling() -> Completion {
    Completion {
        tool_calls: vec![ToolCall::new("a", "read", json!({"x": 1}))],
        fragmenting: Fragmenting {
            bytes: Some(4),
            ..Fragmenting::default()
        },
        ..Completion::default()
    }
}

#[test]
fn answers_with_habits() {
    let pluck = |quirk, pointer: &str| {
        let choices = answered(quirk, calling());
        let deltas = choices
            .iter()
            .filter_map(|choice| choice.pointer("/delta/tool_calls/0"));
        deltas
            .map(|delta| delta.pointer(pointer).cloned().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        pluck(Quirk::OmitsIndex, "/index"),
        [Value::Null, Value::Null]
    );
    assert_eq!(pluck(Quirk::RepeatsIds, "/id"), ["a", "a"]);
    assert_eq!(
        pluck(Quirk::SplitsNames, "/function/name"),
        [json!("re"), json!("ad"), Value::Null, Value::Null]
    );
    assert_eq!(
        pluck(Quirk::SplitsNames, "/function/arguments"),
        [Value::Null, Value::Null, json!("{\"x\""), json!(":1}")]
    );
    let reasons = |completion| {
        let choices = answered(Quirk::OddFinishReasons, completion);
        let reasons = choices.iter().map(|choice| choice["finish_reason"].clone());
        reasons
            .filter(|reason| !reason.is_null())
            .collect::<Vec<_>>()
    };
    assert_eq!(reasons(calling()), ["function_call"]);
    assert_eq!(
        reasons(Completion {
            text: Some("x".to_owned()),
            ..Completion::default()
        }),
        ["eos"]
    );
}

#[test]
fn usage_in_odd_places_and_words() {
    let usage = Usage {
        cached_tokens: Some(4),
        ..Usage::default()
    };
    let completion = || Completion {
        usage: usage.clone(),
        ..Completion::default()
    };
    let choices = answered(Quirk::UsageInChoice, completion());
    assert_eq!(
        (choices.len(), &choices[1]["usage"]["prompt_tokens"]),
        (2, &json!(12))
    );
    let script = scenario().quirk(Quirk::CountsCacheHits);
    let simulator = start(script.step(Reply::completion(completion())));
    let chunks = Client::new(&simulator).post(&ask("go")).chunks_json();
    let expected = json!({
        "prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19,
        "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 8,
    });
    assert_eq!(chunks.last().unwrap()["usage"], expected);
    assert!(simulator.finish().passed);
}
