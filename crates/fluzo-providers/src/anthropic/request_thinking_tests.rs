//! Thinking: what is asked for, and what goes back.

use super::*;

/// The blocks of an answer between two user messages.
fn answer(changes: Value, provider: &str, content: Value, expected: Value) {
    let history = [
        user(json!("q")),
        assistant(provider, content.clone()),
        user(json!("on")),
    ];
    let blocks = json_of(&request(changes, &history))["messages"].clone();
    let given = blocks
        .as_array()
        .unwrap()
        .iter()
        .find(|message| message["role"] == "assistant");
    let given = given.map_or(json!(null), |message| message["content"].clone());
    assert_eq!(given, expected, "{content}");
}

#[test]
fn thinking_goes_back_signed_and_unaltered_to_the_same_model_only() {
    let signed = json!({"type": "thinking", "thinking": " hm\n", "signature": "sig"});
    let redacted = json!({"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "data", "redacted": true});
    let unsigned = json!({"type": "thinking", "thinking": "hm"});
    let own = json!([thinking(" hm\n", "sig"), redacted, text("a")]);
    answer(
        json!({}),
        "p",
        own.clone(),
        json!([signed, {"type": "redacted_thinking", "data": "data"}, text("a")]),
    );
    answer(json!({}), "q", own, json!([text(" hm\n"), text("a")]));
    answer(
        json!({}),
        "p",
        json!([thinking("", "sig"), text("a")]),
        json!([{"type": "thinking", "thinking": "", "signature": "sig"}, text("a")]),
    );
    answer(
        json!({}),
        "p",
        json!([unsigned, text("a")]),
        json!([text("hm"), text("a")]),
    );
    answer(
        json!({}),
        "p",
        json!([thinking("hm", ""), text("a")]),
        json!([text("hm"), text("a")]),
    );
    let compat = json!({"compat": {"allowEmptySignature": true}});
    answer(
        compat,
        "p",
        json!([unsigned, text("a")]),
        json!([{"type": "thinking", "thinking": "hm", "signature": ""}, text("a")]),
    );
    let no_data = json!([{"type": "thinking", "thinking": "x", "redacted": true}, text("a")]);
    answer(json!({}), "p", no_data, json!([text("a")]));
}

#[test]
fn thinking_stands_first_and_never_last() {
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    answer(
        json!({}),
        "p",
        json!([text("a"), thinking("hm", "sig"), text("b")]),
        json!([signed, text("a"), text("b")]),
    );
    answer(
        json!({}),
        "p",
        json!([thinking("hm", "sig"), text("a"), thinking("cut", "s")]),
        json!([signed, text("a")]),
    );
    answer(json!({}), "p", json!([thinking("hm", "sig")]), json!(null));
    answer(
        json!({}),
        "p",
        json!([text("a"), thinking("hm", "sig")]),
        json!([signed, text("a")]),
    );
}

#[test]
fn signatures_survive_the_session_file() {
    let signature = "EqQBCgIYAhIM+/=\u{00e9}\\\"";
    let mut message = fluzo_llm::AssistantMessage::begin(&model(json!({})), 1);
    let events = [
        fluzo_llm::StreamEvent::ThinkingStart { index: 0 },
        fluzo_llm::StreamEvent::ThinkingDelta {
            index: 0,
            delta: "hm 你".into(),
        },
        fluzo_llm::StreamEvent::ThinkingEnd {
            index: 0,
            signature: Some(signature.into()),
            redacted: false,
        },
        fluzo_llm::StreamEvent::ThinkingStart { index: 1 },
        fluzo_llm::StreamEvent::ThinkingEnd {
            index: 1,
            signature: Some("data==".into()),
            redacted: true,
        },
        fluzo_llm::StreamEvent::TextStart { index: 2 },
        fluzo_llm::StreamEvent::TextDelta {
            index: 2,
            delta: "a".into(),
        },
    ];
    events.iter().for_each(|event| message.apply(event));
    let line = serde_json::to_string(&Message::Assistant(message)).unwrap();
    let stored: Value = serde_json::from_str(&line).unwrap();
    let expected = json!([
        {"type": "thinking", "thinking": "hm 你", "signature": signature},
        {"type": "redacted_thinking", "data": "data=="}, text("a"),
    ]);
    answer(json!({}), "p", stored["content"].clone(), expected);
}

/// What a model with `changes` is asked at `level`: thinking, effort, output tokens.
fn asks(changes: Value, level: ThinkingLevel, expected: (Value, Value, u64)) {
    let mut request = request(changes.clone(), &[user(json!("hi"))]);
    request.options.thinking = level;
    let body = json_of(&request);
    let given = (
        body["thinking"].clone(),
        body["output_config"]["effort"].clone(),
        body["max_tokens"].as_u64().unwrap(),
    );
    assert_eq!(given, expected, "{changes} {level:?}");
}

#[test]
fn thinking_by_budget() {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
    let enabled =
        |budget: u64| json!({"type": "enabled", "budget_tokens": budget, "display": "summarized"});
    let disabled = json!({"type": "disabled"});
    let thinks = json!({"reasoning": true});
    asks(json!({}), High, (json!(null), json!(null), 32_000));
    asks(thinks.clone(), Off, (disabled.clone(), json!(null), 32_000));
    for (level, budget) in [
        (Minimal, 1024),
        (Low, 2048),
        (Medium, 8192),
        (High, 16_384),
        (Xhigh, 16_384),
    ] {
        asks(
            thinks.clone(),
            level,
            (enabled(budget), json!(null), 32_000),
        );
    }
    let mapped = json!({"reasoning": true, "thinkingLevelMap": {"xhigh": "max", "off": null}});
    asks(
        mapped.clone(),
        Xhigh,
        (enabled(16_384), json!(null), 32_000),
    );
    asks(mapped, Off, (enabled(1024), json!(null), 32_000));
    asks(
        json!({"reasoning": true, "maxTokens": 8192}),
        High,
        (enabled(7168), json!(null), 8192),
    );
    asks(
        json!({"reasoning": true, "maxTokens": 1500}),
        High,
        (disabled, json!(null), 1500),
    );
}

#[test]
fn budgets_may_be_set_and_make_room_for_the_answer() {
    let mut request = request(json!({"reasoning": true}), &[user(json!("hi"))]);
    request.options.thinking = ThinkingLevel::Medium;
    request.options.max_output_tokens = Some(4096);
    let mut ask = |budget: Option<u64>| {
        request.options.thinking_budgets = budget
            .map(|budget| (ThinkingLevel::Medium, budget))
            .into_iter()
            .collect();
        let body = json_of(&request);
        (
            body["thinking"]["budget_tokens"].as_u64().unwrap(),
            body["max_tokens"].as_u64().unwrap(),
        )
    };
    assert_eq!(ask(None), (8192, 12_288));
    assert_eq!(ask(Some(20_000)), (20_000, 24_096));
    assert_eq!(ask(Some(64_000)), (30_976, 32_000));
    assert_eq!(ask(Some(1)), (1024, 5120));
}

#[test]
fn thinking_that_the_model_measures_itself() {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let forced = json!({"reasoning": true, "compat": {"forceAdaptiveThinking": true}});
    let opus =
        json!({"reasoning": true, "id": "claude-opus-4-7", "thinkingLevelMap": {"xhigh": "xhigh"}});
    for model in [forced.clone(), opus.clone()] {
        for (level, effort) in [
            (Minimal, "low"),
            (Low, "low"),
            (Medium, "medium"),
            (High, "high"),
        ] {
            asks(
                model.clone(),
                level,
                (adaptive.clone(), json!(effort), 32_000),
            );
        }
        asks(
            model,
            Off,
            (json!({"type": "disabled"}), json!(null), 32_000),
        );
    }
    asks(forced, Xhigh, (adaptive.clone(), json!("high"), 32_000));
    asks(opus, Xhigh, (adaptive, json!("xhigh"), 32_000));
}

#[test]
fn a_turn_that_began_without_thinking_goes_on_without_a_budget() {
    let step = |provider: &str, id: &str, content: Value| {
        let mut blocks = content.as_array().unwrap().clone();
        blocks.push(call(id));
        [
            assistant(provider, json!(blocks)),
            result(id, json!([text("r")])),
        ]
    };
    let thought = json!([thinking("hm", "sig")]);
    let unsigned = json!([{"type": "thinking", "thinking": "hm"}]);
    let steps = |all: &[[Value; 2]], tail: &[Value]| {
        [&[user(json!("go"))], all.concat().as_slice(), tail].concat()
    };
    let rows = [
        (steps(&[step("p", "a", thought.clone())], &[]), "enabled"),
        (steps(&[step("p", "a", json!([]))], &[]), "disabled"),
        (steps(&[step("q", "a", thought.clone())], &[]), "disabled"),
        // Between its calls a model need not think.
        (
            steps(
                &[step("p", "a", thought.clone()), step("p", "b", json!([]))],
                &[],
            ),
            "enabled",
        ),
        (
            steps(
                &[step("p", "a", thought.clone()), step("q", "b", json!([]))],
                &[],
            ),
            "disabled",
        ),
        (
            steps(&[step("p", "a", json!([])), step("p", "b", thought)], &[]),
            "disabled",
        ),
        // A server that does not sign its thinking cannot ask for it.
        (steps(&[step("p", "a", unsigned)], &[]), "enabled"),
        (
            steps(&[step("p", "a", json!([]))], &[user(json!("on"))]),
            "enabled",
        ),
    ];
    for (history, expected) in rows {
        for (changes, expected) in [
            (json!({"reasoning": true}), expected),
            (
                json!({"reasoning": true, "compat": {"forceAdaptiveThinking": true}}),
                "adaptive",
            ),
        ] {
            let mut request = request(changes, &history);
            request.options.thinking = ThinkingLevel::High;
            assert_eq!(
                json_of(&request)["thinking"]["type"],
                expected,
                "{history:?}"
            );
        }
    }
}

#[test]
fn models_that_always_think_are_not_told_to_stop() {
    for id in ["claude-fable-5", "anthropic/claude-mythos-5"] {
        let model = json!({"reasoning": true, "id": id});
        asks(
            model.clone(),
            ThinkingLevel::Off,
            (json!(null), json!(null), 32_000),
        );
        let adaptive = json!({"type": "adaptive", "display": "summarized"});
        asks(model, ThinkingLevel::Low, (adaptive, json!("low"), 32_000));
    }
}

#[test]
fn a_turn_that_goes_on_without_thinking_leaves_its_thinking_out() {
    let round = |id: &str| {
        [
            assistant("p", json!([thinking("hm", "sig"), call(id)])),
            result(id, json!([text("r")])),
        ]
    };
    let history = [
        &[user(json!("q"))],
        &round("a")[..],
        &[user(json!("on"))],
        &round("b")[..],
        &round("c")[..],
    ]
    .concat();
    let mut request = request(json!({"reasoning": true}), &history);
    let mut thoughts = |level| {
        request.options.thinking = level;
        let messages = json_of(&request)["messages"].clone();
        let first = |message: &Value| message["content"][0]["type"].clone();
        [1, 4, 6].map(|at| first(&messages[at]) == "thinking")
    };
    assert_eq!(thoughts(ThinkingLevel::High), [true, true, true]);
    assert_eq!(thoughts(ThinkingLevel::Off), [true, false, false]);
}

#[test]
fn servers_that_do_not_sign_get_thinking_back_with_every_call() {
    let own = json!([{"type": "thinking", "thinking": "hm"}, call("a")]);
    let history = [
        user(json!("q")),
        assistant("p", own),
        result("a", json!([text("r")])),
        assistant("q", json!([call("b")])),
        result("b", json!([text("r")])),
    ];
    let rows = [
        json!({"baseUrl": "https://api.kimi.com/coding"}),
        json!({"baseUrl": "https://api.deepseek.com/anthropic"}),
        json!({"baseUrl": "https://token-plan-cn.xiaomimimo.com/anthropic"}),
        json!({"compat": {"allowEmptySignature": true}}),
    ];
    let wire = |thinking: &str| json!({"type": "thinking", "thinking": thinking, "signature": ""});
    for mut changes in rows {
        changes["reasoning"] = json!(true);
        let mut request = request(changes.clone(), &history);
        request.options.thinking = ThinkingLevel::High;
        let body = json_of(&request);
        assert_eq!(body["thinking"]["type"], "enabled", "{changes}");
        let contents = [1, 3].map(|at| body["messages"][at]["content"].clone());
        let expected = [
            json!([wire("hm"), wire_call("a")]),
            json!([wire(" "), wire_call("b")]),
        ];
        assert_eq!(contents, expected, "{changes}");
        request.options.thinking = ThinkingLevel::Off;
        let messages = json_of(&request)["messages"].clone();
        assert_eq!(messages[3]["content"], json!([wire_call("b")]), "{changes}");
    }
}
