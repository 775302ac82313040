//! Tests of the registry of models, `models.json` included.

use serde_json::json;

use super::*;

fn registry(providers: serde_json::Value) -> ModelRegistry {
    ModelRegistry::new(Some(&json!({ "providers": providers }).to_string()))
}

fn reports(registry: &ModelRegistry) -> Vec<String> {
    let problems = registry.problems().iter();
    problems
        .map(|problem| problem.report(std::path::Path::new("/f")))
        .collect()
}

fn clean(providers: serde_json::Value) -> ModelRegistry {
    let registry = registry(providers);
    assert!(registry.problems().is_empty(), "{:?}", registry.problems());
    registry
}

#[test]
fn of_models_with_one_id_the_last_counts() {
    let text = r#"{"providers": {"p": {"baseUrl": "http://h", "api": "openai-completions", "apiKey": "k",
        "models": [{"id": "a", "name": "old"}, {"id": "b"}, {"id": "a", "name": "new"}]}}}"#;
    let registry = ModelRegistry::new(Some(text));
    let models = registry.models_of("p");
    let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["b", "new"]);
}

#[test]
fn a_custom_provider_becomes_models_and_keys() {
    let text = r#"{ "providers": { "fake": { // local
        "name": "Fake", "authHeader": true,
        "baseUrl": "http://localhost:1/v1", "api": "openai-completions", "apiKey": "sk-x",
        "headers": {"X-A": "$A"}, "compat": {"supportsStore": false, "maxTokensField": "max_tokens"},
        "models": [ {"id": "m1", "contextWindow": 1000.0, "compat": {"supportsStore": true}},
                    {"id": "m2", "api": "anthropic-messages", "baseUrl": "http://localhost:2",
                     "name": "Two", "reasoning": true, "thinkingLevelMap": {"low": null, "xhigh": "max"},
                     "input": ["text", "image"], "maxTokens": 7, "headers": {"X-B": "b"},
                     "cost": {"input": 1, "output": 2.5, "cacheRead": 0.1, "cacheWrite": 3}}, ], } } }"#;
    let registry = ModelRegistry::new(Some(text));
    assert!(registry.problems().is_empty(), "{:?}", registry.problems());
    let one = serde_json::to_value(&*registry.find("fake", "m1").unwrap()).unwrap();
    let expected = json!({
        "id": "m1", "name": "m1", "api": "openai-completions", "provider": "fake",
        "baseUrl": "http://localhost:1/v1", "reasoning": false, "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 1000, "maxTokens": 16_384,
        "compat": {"supportsStore": true, "maxTokensField": "max_tokens"},
    });
    assert_eq!(one, expected);
    let two = serde_json::to_value(&*registry.find("fake", "m2").unwrap()).unwrap();
    let expected = json!({
        "id": "m2", "name": "Two", "api": "anthropic-messages", "provider": "fake",
        "baseUrl": "http://localhost:2", "reasoning": true, "input": ["text", "image"],
        "cost": {"input": 1, "output": 2.5, "cacheRead": 0.1, "cacheWrite": 3},
        "contextWindow": 128_000, "maxTokens": 7, "headers": {"X-B": "b"},
        "thinkingLevelMap": {"low": null, "xhigh": "max"},
        "compat": {"supportsStore": false, "maxTokensField": "max_tokens"},
    });
    assert_eq!(two, expected);
    assert!(registry.keys().contains_key("fake"));
    assert_eq!(registry.headers()["fake"][0].0, "X-A");
    assert!(registry.bearers().contains("fake"));
    assert_eq!(registry.provider_name("fake"), "Fake");
    assert_eq!(registry.provider_name("openai"), "OpenAI");
}

#[test]
fn a_known_provider_can_be_moved_and_its_models_changed() {
    let registry = clean(json!({"openrouter": {
        "baseUrl": "http://localhost:1/v1",
        "headers": {"x-openrouter-title": "Mine"},
        "compat": {"openRouterRouting": {"order": ["a"], "zdr": true}, "supportsStore": true},
        "modelOverrides": {"openai/gpt-5.4": {
            "name": "Mine", "reasoning": false, "input": ["text"], "contextWindow": 5, "maxTokens": 6,
            "cost": {"output": 1.5}, "headers": {"X-M": "m"}, "thinkingLevelMap": {"high": "most"},
            "compat": {"openRouterRouting": {"order": ["b"], "only": ["c"]}, "supportsStore": false},
        }},
    }}));
    let before = fluzo_catalogue::model("openrouter", "openai/gpt-5.4")
        .unwrap()
        .model();
    let after = registry.find("openrouter", "openai/gpt-5.4").unwrap();
    assert_eq!((after.name.as_str(), after.reasoning), ("Mine", false));
    assert_eq!((after.context_window, after.max_tokens), (5, 6));
    assert!((after.cost.output - 1.5).abs() < 1e-9);
    assert!((after.cost.input - before.cost.input).abs() < 1e-9 && before.cost.input > 0.0);
    assert_eq!(after.base_url, "http://localhost:1/v1");
    assert!(!after.takes_images());
    let expected = json!({
        "openRouterRouting": {"order": ["b"], "zdr": true, "only": ["c"]}, "supportsStore": false,
    });
    assert_eq!(serde_json::Value::Object(after.compat.clone()), expected);
    assert_eq!(
        after.thinking_level_map.get(&ThinkingLevel::High),
        Some(&Some("most".to_owned()))
    );
    assert!(after.thinking_level_map.len() >= before.thinking_level_map.len());
    // The provider's own header takes the place of the table's.
    let names: Vec<&str> = after.headers.keys().map(String::as_str).collect();
    assert_eq!(names, ["X-M", "X-OpenRouter-Categories"]);
    let other = registry.find("openrouter", "openai/gpt-5").unwrap();
    assert_eq!(other.base_url, "http://localhost:1/v1");
    assert_eq!(
        registry
            .find("groq", "openai/gpt-oss-120b")
            .unwrap()
            .base_url,
        "https://api.groq.com/openai/v1"
    );
}

#[test]
fn a_model_of_ones_own_replaces_the_known_one_of_that_id() {
    let registry = clean(json!({"openai": {"models": [
        {"id": "gpt-5.4", "contextWindow": 9}, {"id": "new", "api": "openai-completions"},
    ]}}));
    let replaced = registry.find("openai", "gpt-5.4").unwrap();
    assert_eq!((replaced.context_window, replaced.reasoning), (9, false));
    let of_id = registry
        .models()
        .iter()
        .filter(|m| m.provider == "openai" && m.id == "gpt-5.4");
    assert_eq!(of_id.count(), 1);
    let new = registry.find("openai", "new").unwrap();
    assert_eq!(
        (new.api.as_str(), new.base_url.as_str()),
        ("openai-completions", "https://api.openai.com/v1")
    );
    // A server of one's own needs neither key nor URL.
    let registry = clean(json!({"ollama": {"models": [{"id": "qwen3:8b"}]}}));
    let local = registry.find("ollama", "qwen3:8b").unwrap();
    assert_eq!(local.base_url, "http://localhost:11434/v1");
    assert_eq!(registry.default_of("OLLAMA").unwrap().id, "qwen3:8b");
}

#[test]
fn finding_one_and_listing_all_agree() {
    let registry = clean(json!({"anthropic": {"baseUrl": "http://localhost:1"}}));
    for model in registry.models() {
        let alone = ModelRegistry::find(&registry, &model.provider, &model.id).unwrap();
        assert_eq!(alone, *model);
    }
    let listed = registry
        .models()
        .iter()
        .filter(|m| m.provider == "anthropic");
    let of_provider = registry.models_of("anthropic");
    assert!(listed.eq(of_provider.iter()));
}

#[test]
fn a_part_that_is_ignored_is_named_and_its_provider_counts() {
    let text = "{\"providers\": {\"a\": {\"baseUrl\": \"u\", \"apiKey\": \"k\", \"api\": \"openai-completions\",\n\
        \"models\": [{\"id\": \"m\",\n\"colour\": 1}]},\n\"openai\": {\"modelOverrides\": {\n\"nosuch\": {\"reasoning\": true}}}}}";
    let registry = ModelRegistry::new(Some(text));
    let expected = "Invalid models.json schema:\n  \
        - providers.a.models.0.colour: unknown property\n  \
        - providers.openai.modelOverrides.nosuch: no known model has this id\n\
        \nFile: /f\nLines: 3, 5";
    assert_eq!(reports(&registry), [expected]);
    assert!(registry.find("a", "m").is_some());
}

/// Everywhere a person may put a key by mistake.
#[test]
fn a_value_in_the_wrong_place_is_not_shown() {
    let key = "sk-planted";
    let rows = [
        format!(r#"{{"providers": {{"a": {{"headers": "Bearer {key}"}}}}}}"#),
        format!(r#"{{"providers": {{"a": "{key}"}}}}"#),
        format!(r#"{{"providers": "{key}"}}"#),
        format!(r#""{key}""#),
        format!(r#"{{"providers": {{"a": {{"models": "{key}"}}}}}}"#),
        format!(r#"{{"providers": {{"a": {{"apiKey": "{key}" "#),
        format!(r#"{{"providers": {{"a": {{"apiKey" "{key}": "#),
        format!(r#"{{"providers": {{"a": {{"models": [{{"id": "m", "api": "{key}"}}]}}}}}}"#),
    ];
    for text in rows {
        let registry = ModelRegistry::new(Some(&text));
        let problems = reports(&registry).join("\n");
        assert!(!problems.is_empty(), "{text}");
        assert!(!problems.contains(key), "{problems}");
    }
    let keyed = registry(json!({"openai": {"apiKey": key, "headers": {"X": key}}}));
    assert!(!format!("{keyed:?}").contains(key));
}

#[test]
fn a_broken_part_is_named_with_its_line_and_the_rest_counts() {
    let rows = [
        (
            "{",
            "Failed to parse models.json: EOF while parsing an object at line 1 column 1\n\nFile: /f",
        ),
        (
            "{\"providers\": {\n\"a\": {\"baseUrl\": oops",
            "Failed to parse models.json: expected value at line 2 column 18, after \"baseUrl\"\n\nFile: /f",
        ),
        (
            "{\"providers\":\n{\"a\": {\"models\": [\n{\"id\": 3}]}}}",
            "Invalid models.json schema:\n  - providers.a.models.0.id: must be string\n\nFile: /f\nLine: 3",
        ),
        (
            r#"{"providers": {"a": {"apiKey": "k"}}}"#,
            "Failed to load models.json: Provider a: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\".\n\nFile: /f\nLine: 1",
        ),
        (
            r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "api": "x", "models": [{"id": "m", "contextWindow": -1}]}}}"#,
            "Failed to load models.json: Provider a, model m: invalid contextWindow\n\nFile: /f\nLine: 1",
        ),
        (
            r#"{"providers": {"a": {"apiKey": "k", "models": [{"id": "m"}]}}}"#,
            "Failed to load models.json: Provider a: \"baseUrl\" is required when defining custom models.\n\nFile: /f\nLine: 1",
        ),
        (
            r#"{"providers": {"a": {"baseUrl": "u", "models": [{"id": "m"}, {"id": "n"}]}}}"#,
            "Failed to load models.json: Provider a: \"apiKey\" is required when defining custom models.\n\nFile: /f\nLine: 1",
        ),
        (
            r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "models": [{"id": "m"}]}}}"#,
            "Failed to load models.json: Provider a, model m: no \"api\" specified. Set at provider or model level.\n\nFile: /f\nLine: 1",
        ),
        (
            r#"{"providers": {"a": {"baseUrl": "u", "apiKey": "k", "api": "openai-completions", "models": [{"id": "m", "maxTokens": 0}]}}}"#,
            "Failed to load models.json: Provider a, model m: invalid maxTokens\n\nFile: /f\nLine: 1",
        ),
        (
            "{\"providers\": {\"openai\": {\"modelOverrides\":\n {\"gpt-4o\": {\"maxTokens\": 0.5}}}}}",
            "Failed to load models.json: Provider openai, model gpt-4o: invalid maxTokens\n\nFile: /f\nLine: 2",
        ),
    ];
    for (text, problem) in rows {
        let registry = ModelRegistry::new(Some(text));
        let problems = reports(&registry);
        assert!(
            problems.iter().any(|p| p == problem),
            "{text}: {problems:#?}"
        );
        assert!(registry.find("openai", "gpt-4o").is_some(), "{text}");
    }
}

/// Each broken model alone is left out, and each broken provider alone.
#[test]
fn what_stands_beside_a_broken_part_is_used() {
    let good = json!({"baseUrl": "u", "apiKey": "k", "api": "openai-completions", "models": [{"id": "m"}]});
    let registry = registry(json!({
        "bad": {"baseUrl": 5, "models": [{"id": "x"}]},
        "half": {"baseUrl": "u", "apiKey": "k", "api": "openai-completions",
                 "models": [{"id": 1}, {"id": "a"}, {"id": "b", "contextWindow": -1}, {"id": ""}]},
        "good": good,
        "openai": {"modelOverrides": {"gpt-5": {"reasoning": "no"}, "gpt-4o": {"name": "Mine"}}},
    }));
    let ids: Vec<_> = ["bad", "half", "good"]
        .iter()
        .flat_map(|p| registry.models_of(p))
        .map(|m| format!("{}/{}", m.provider, m.id))
        .collect();
    assert_eq!(ids, ["half/a", "good/m"]);
    assert_eq!(registry.find("openai", "gpt-4o").unwrap().name, "Mine");
    assert!(registry.find("openai", "gpt-5").unwrap().reasoning);
    assert_eq!(registry.problems().len(), 3, "{:#?}", registry.problems());
}

#[test]
fn the_first_usable_default_follows_the_order_of_providers() {
    let own = json!({"baseUrl": "u", "apiKey": "k", "api": "openai-completions", "models": [{"id": "m"}, {"id": "n"}]});
    let registry = clean(json!({"mine": own}));
    let rows: [(&[&str], Option<&str>); 9] = [
        (&[], None),
        (&["openai", "anthropic"], Some("anthropic/claude-opus-4-7")),
        (
            &["openai", "azure-openai-responses"],
            Some("openai/gpt-5.4"),
        ),
        (&["groq", "xai"], Some("xai/grok-4.20-0309-reasoning")),
        (
            &["amazon-bedrock", "xiaomi"],
            Some("amazon-bedrock/us.anthropic.claude-opus-4-6-v1"),
        ),
        (&["mine"], Some("mine/m")),
        (&["mine", "zai-coding-cn"], Some("zai-coding-cn/glm-5.1")),
        // A token that serves other purposes chooses nothing, nor does a server with no models.
        (&["github-models"], None),
        (&["ollama"], None),
    ];
    for (keys, expected) in rows {
        let found = registry.first_usable(&|provider| keys.contains(&provider));
        let full = found.map(|m| format!("{}/{}", m.provider, m.id));
        assert_eq!(full.as_deref(), expected, "{keys:?}");
    }
}

#[test]
fn the_default_of_a_provider() {
    let registry = ModelRegistry::new(None);
    assert_eq!(registry.default_of("OpenAI").unwrap().id, "gpt-5.4");
    let models = registry.models_of("github-models");
    assert_eq!(registry.default_of("github-models").unwrap(), models[0]);
    let error = registry.default_of("vllm").unwrap_err();
    assert!(
        error.contains("no model of the provider `vllm` is known\nhint: "),
        "{error}"
    );
    assert!(
        registry
            .default_of("nosuch")
            .unwrap_err()
            .starts_with("Unknown provider \"nosuch\"")
    );
}
