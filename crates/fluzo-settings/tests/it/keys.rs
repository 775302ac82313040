//! Which settings there are, and what they take.

use fluzo_settings::{OPEN, Settings, Source, find};
use serde_json::{Value, json};

/// The reference's settings with their defaults; what it leaves to the surroundings or does
/// not publish is `null`.
const REFERENCE: &[(&str, &str)] = &[
    ("lastChangelogVersion", "null"),
    ("sessionDir", "null"),
    ("defaultProvider", "null"),
    ("defaultModel", "null"),
    ("defaultThinkingLevel", "\"medium\""),
    ("transport", "\"auto\""),
    ("steeringMode", "\"one-at-a-time\""),
    ("followUpMode", "\"one-at-a-time\""),
    ("theme", "null"),
    ("compaction.enabled", "true"),
    ("compaction.reserveTokens", "16384"),
    ("compaction.keepRecentTokens", "20000"),
    ("branchSummary.reserveTokens", "16384"),
    ("branchSummary.skipPrompt", "false"),
    ("retry.enabled", "true"),
    ("retry.maxRetries", "3"),
    ("retry.baseDelayMs", "2000"),
    ("retry.provider.timeoutMs", "null"),
    ("retry.provider.maxRetries", "0"),
    ("retry.provider.maxRetryDelayMs", "60000"),
    ("hideThinkingBlock", "false"),
    ("shellPath", "null"),
    ("shellCommandPrefix", "null"),
    ("quietStartup", "false"),
    ("npmCommand", "[\"npm\"]"),
    ("collapseChangelog", "false"),
    ("enableInstallTelemetry", "true"),
    ("packages", "[]"),
    ("extensions", "[]"),
    ("skills", "[]"),
    ("prompts", "[]"),
    ("themes", "[]"),
    ("enableSkillCommands", "true"),
    ("terminal.showImages", "true"),
    ("terminal.imageWidthCells", "60"),
    ("terminal.clearOnShrink", "false"),
    ("terminal.showTerminalProgress", "false"),
    ("images.autoResize", "true"),
    ("images.blockImages", "false"),
    ("enabledModels", "null"),
    ("doubleEscapeAction", "\"tree\""),
    ("treeFilterMode", "\"default\""),
    ("thinkingBudgets.minimal", "null"),
    ("thinkingBudgets.low", "null"),
    ("thinkingBudgets.medium", "null"),
    ("thinkingBudgets.high", "null"),
    ("editorPaddingX", "0"),
    ("autocompleteMaxVisible", "5"),
    ("showHardwareCursor", "false"),
    ("markdown.codeBlockIndent", "\"  \""),
    ("warnings.anthropicExtraUsage", "true"),
    ("httpIdleTimeoutMs", "300000"),
    ("websocketConnectTimeoutMs", "15000"),
    ("modelThinkingLevels", "{}"),
    ("showCacheMissNotices", "false"),
    ("externalEditor", "null"),
    ("defaultProjectTrust", "\"ask\""),
    ("defaultTools", "null"),
    ("codemode.mode", "null"),
    ("codemode.inlineBudget", "null"),
    ("sessionShareDestination", "null"),
    ("compaction.modelOverrides", "{}"),
    ("tuiMode", "null"),
    ("outputPad", "null"),
    ("terminal.hyperlinks", "\"auto\""),
    ("terminal.images", "\"auto\""),
    ("terminal.trueColor", "\"auto\""),
    ("markdown.mermaid", "null"),
    ("httpProxy", "null"),
    ("retry.maxAgentDelayMs", "null"),
    ("selfUpdateCommand", "null"),
    ("enableAnalytics", "false"),
    ("trackingId", "null"),
    ("deviceId", "null"),
    ("extensionChangelogVersions", "{}"),
];

#[test]
fn every_setting_of_the_reference_is_there_with_its_default() {
    for (key, default) in REFERENCE {
        let def = find(key).unwrap_or_else(|| panic!("{key}"));
        assert_eq!(def.default, *default, "{key}");
        assert!(!def.kind.words().is_empty(), "{key}");
    }
}

#[test]
fn settings_of_our_own_have_their_defaults() {
    for (key, default) in [
        ("loopGuard", "true"),
        ("compaction.summaryModel", "null"),
        ("envFile", "null"),
        ("cacheWarming", "\"off\""),
    ] {
        assert_eq!(find(key).unwrap().default, default, "{key}");
    }
}

/// Keys, a value that fits, and one that does not with what is said of it.
#[test]
fn values_are_taken_or_refused_by_kind() {
    let rows = [
        ("theme", json!("dark"), json!(1), "must be text"),
        (
            "loopGuard",
            json!(false),
            json!("no"),
            "must be true or false",
        ),
        (
            "quietStartup",
            json!("header"),
            json!("footer"),
            "must be true, false or header",
        ),
        (
            "editorPaddingX",
            json!(3),
            json!(4),
            "must be a whole number from 0 to 3",
        ),
        (
            "autocompleteMaxVisible",
            json!(3),
            json!(2),
            "must be a whole number from 3 to 20",
        ),
        (
            "httpIdleTimeoutMs",
            json!("disabled"),
            json!(-1),
            "must be a whole number from 0 to 86400000, or \"disabled\"",
        ),
        (
            "transport",
            json!("websocket-cached"),
            json!("udp"),
            "must be one of sse, websocket, websocket-cached, auto",
        ),
        (
            "npmCommand",
            json!(["mise", "exec", "--", "npm"]),
            json!(["npm", 1]),
            "must be a list of texts",
        ),
        (
            "packages",
            json!(["npm:a", {"source": "git:b", "skills": [], "themes": ["x"]}]),
            json!([{"skills": []}]),
            "must be a list of packages: texts, or objects with the text `source` and lists of texts",
        ),
        (
            "packages",
            json!([]),
            json!([{"source": "a", "skills": "x"}]),
            "must be a list of packages: texts, or objects with the text `source` and lists of texts",
        ),
        (
            "modelThinkingLevels",
            json!({"a/b": "high"}),
            json!({"a/b": "huge"}),
            "has the entry `a/b`, which must be one of off, minimal, low, medium, high, xhigh",
        ),
        (
            "compaction.modelOverrides",
            json!({"a/b": {"reserveTokens": 5.0}}),
            json!({"a/b": {"reserveTokens": "x"}}),
            "has the entry `a/b`, which has the entry `reserveTokens`, which must be a whole number from 0 to 4294967296",
        ),
    ];
    for (key, good, bad, said) in rows {
        let resolve = |value: &Value| {
            let layer = match key.split_once('.') {
                Some((parent, name)) => json!({ parent: { name: value } }),
                None => json!({ key: value }),
            };
            Settings::resolve(OPEN, &[(Source::Global, layer)])
        };
        let settings = resolve(&good);
        assert!(settings.problems().is_empty(), "{key} {good}");
        assert_eq!(settings.source(key), Some(Source::Global), "{key}");
        assert!(!settings.value(key).to_string().contains(".0"), "{key}");
        let settings = resolve(&bad);
        let told = settings.problems()[0].to_string();
        assert_eq!(
            told,
            format!("setting `{key}` in the global settings {said}")
        );
        assert_eq!(settings.source(key), Some(Source::Default), "{key}");
    }
}
