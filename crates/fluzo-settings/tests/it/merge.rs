//! How layers come together.

use fluzo_settings::{OPEN, Settings, Source, key};
use serde_json::{Value, json};

/// Settings of a global and a project file.
fn files(global: Value, project: Value) -> Settings {
    Settings::resolve(
        OPEN,
        &[(Source::Global, global), (Source::Project, project)],
    )
}

#[track_caller]
fn problems(settings: &Settings, expected: &[&str]) {
    let found = settings.problems().iter().map(ToString::to_string);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn objects_merge_one_level_deep_and_everything_else_is_replaced() {
    let rows = [
        // Global, project, key, value, source.
        (
            json!({"compaction": {"enabled": false, "reserveTokens": 1}}),
            json!({"compaction": {"reserveTokens": 2}}),
            vec![
                (key::COMPACTION_ENABLED, json!(false), Source::Global),
                (key::COMPACTION_RESERVE_TOKENS, json!(2), Source::Project),
                (
                    key::COMPACTION_KEEP_RECENT_TOKENS,
                    json!(20000),
                    Source::Default,
                ),
            ],
        ),
        (
            json!({"enabledModels": ["a", "b"], "npmCommand": ["bun"]}),
            json!({"enabledModels": ["c"]}),
            vec![
                (key::ENABLED_MODELS, json!(["c"]), Source::Project),
                (key::NPM_COMMAND, json!(["bun"]), Source::Global),
            ],
        ),
        // The second level is replaced as a whole.
        (
            json!({"retry": {"maxRetries": 9, "provider": {"maxRetries": 5, "timeoutMs": 7}}}),
            json!({"retry": {"provider": {"timeoutMs": 8}}}),
            vec![
                (key::RETRY_MAX, json!(9), Source::Global),
                (key::RETRY_PROVIDER_TIMEOUT_MS, json!(8), Source::Project),
                (key::RETRY_PROVIDER_MAX, json!(0), Source::Default),
            ],
        ),
        (
            json!({"retry": {"provider": {"maxRetries": 5}}}),
            json!({"retry": {"maxRetries": 1}}),
            vec![(key::RETRY_PROVIDER_MAX, json!(5), Source::Global)],
        ),
        // An object whose names are the user's own is an object all the same.
        (
            json!({"modelThinkingLevels": {"a/b": "low", "c/d": "off"}}),
            json!({"modelThinkingLevels": {"a/b": "high"}}),
            vec![(
                key::MODEL_THINKING_LEVELS,
                json!({"a/b": "high", "c/d": "off"}),
                Source::Project,
            )],
        ),
        // What cannot be used leaves what is below.
        (
            json!({"theme": "dark", "httpIdleTimeoutMs": "disabled"}),
            json!({"theme": 1, "httpIdleTimeoutMs": "never"}),
            vec![
                (key::THEME, json!("dark"), Source::Global),
                (key::HTTP_IDLE_TIMEOUT_MS, json!(0), Source::Global),
            ],
        ),
    ];
    for (global, project, expected) in rows {
        let settings = files(global.clone(), project.clone());
        for (key, value, source) in expected {
            assert_eq!(settings.value(key), &value, "{key}: {global} {project}");
            assert_eq!(
                settings.source(key),
                Some(source),
                "{key}: {global} {project}"
            );
        }
    }
}

#[test]
fn variables_and_flags_are_layers_with_their_own_name() {
    let settings = Settings::resolve(
        OPEN,
        &[
            (
                Source::Environment,
                json!({"showHardwareCursor": true, "terminal": {"clearOnShrink": true}}),
            ),
            (
                Source::Global,
                json!({"terminal": {"clearOnShrink": false}, "sessionDir": "a"}),
            ),
            (Source::Environment, json!({"sessionDir": "b"})),
            (Source::Flag, json!({"quietStartup": false})),
        ],
    );
    for (key, value, source) in [
        (
            key::SHOW_HARDWARE_CURSOR,
            json!(true),
            Some(Source::Environment),
        ),
        (
            key::TERMINAL_CLEAR_ON_SHRINK,
            json!(false),
            Some(Source::Global),
        ),
        (key::SESSION_DIR, json!("b"), Some(Source::Environment)),
        (key::QUIET_STARTUP, json!(false), Some(Source::Flag)),
        (key::THEME, Value::Null, Some(Source::Default)),
    ] {
        assert_eq!(settings.value(key), &value, "{key}");
        assert_eq!(settings.source(key), source, "{key}");
    }
    assert!(settings.is_set(key::SESSION_DIR) && !settings.is_set(key::THEME));
    assert_eq!(settings.source("noSuchKey"), None);
}

#[test]
fn lists_of_resources_keep_their_layers_the_project_first() {
    let filtered = json!({"source": "npm:b", "skills": []});
    let settings = files(
        json!({"packages": ["npm:a"], "skills": ["~/s"], "themes": "x"}),
        json!({"packages": [filtered, "npm:c"], "prompts": ["p"]}),
    );
    let lists = |key| {
        let lists = settings.lists(key).into_iter();
        lists
            .map(|(source, list)| (source, Value::from(list.to_vec())))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        lists(key::PACKAGES),
        [
            (Source::Project, json!([filtered, "npm:c"])),
            (Source::Global, json!(["npm:a"]))
        ]
    );
    assert_eq!(lists(key::SKILLS), [(Source::Global, json!(["~/s"]))]);
    assert_eq!(lists(key::PROMPTS), [(Source::Project, json!(["p"]))]);
    assert_eq!(lists(key::THEMES), []);
    assert_eq!(settings.texts(key::SKILLS), Some(vec!["~/s"]));
    problems(
        &settings,
        &["setting `themes` in the global settings must be a list of texts"],
    );
}

#[test]
fn a_project_does_not_choose_what_is_the_users() {
    let settings = files(
        json!({"httpProxy": "http://mine:1"}),
        json!({"httpProxy": "http://theirs:1", "envFile": ".env", "defaultProjectTrust": "always"}),
    );
    assert_eq!(settings.text(key::HTTP_PROXY), Some("http://mine:1"));
    assert_eq!(settings.text(key::ENV_FILE), None);
    assert_eq!(settings.text(key::PROJECT_TRUST), Some("ask"));
    let passed = "in the project settings was passed over: only the user's own settings choose it";
    problems(
        &settings,
        &["envFile", "defaultProjectTrust", "httpProxy"]
            .map(|key| format!("setting `{key}` {passed}"))
            .each_ref()
            .map(String::as_str),
    );
}

#[test]
fn keys_that_are_not_known_are_kept_and_slips_are_told() {
    let layer = json!({
        "compactoin": {"enabled": false},
        "DefaultModel": "x",
        "retry": {"maxRetrys": 1, "provider": {"timeoutms": 1}},
        "modelThinkingLevels": {"themes": "low"},
        "mine": 1,
        "fullscreenScrollbar": "auto",
        "$schema": "s",
        "queueMode": "all",
        "apiKeys": {},
    });
    let settings = Settings::resolve(OPEN, &[(Source::Global, layer.clone())]);
    problems(
        &settings,
        &[
            "setting `compactoin` in the global settings is not known: did you mean `compaction`?",
            "setting `DefaultModel` in the global settings is not known: did you mean `defaultModel`?",
            "setting `retry.maxRetrys` in the global settings is not known: did you mean `retry.maxRetries`?",
            "setting `retry.provider.timeoutms` in the global settings is not known: did you mean `retry.provider.timeoutMs`?",
        ],
    );
    assert_eq!(settings.layer(Source::Global), Some(&layer));
    assert_eq!(settings.layer(Source::Project), None);
}
