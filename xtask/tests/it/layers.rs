//! Layers: the rules on made-up workspaces, then the workspace itself.

use super::{assert_clean, assert_findings};
use xtask::layers;
use xtask::metadata::{self, Package};
use xtask::table::Table;

const TABLE: &str = r#"
    [groups]
    network = ["reqwest"]
    [crates.low]
    level = 0
    [crates.low-too]
    level = 0
    beside = ["low"]
    [crates.mid]
    level = 1
    forbids = ["network"]
    features.tokio = ["sync"]
    [crates.leaf]
    level = 2
    known_by = ["top"]
    [crates.front]
    level = 3
    knows = ["mid"]
    [crates.top]
    level = 4
    [crates.pure]
    level = 0
    external = ["serde"]
    [crates.fluzo-sim]
    knows = []
    dev = []
    known_by = ["top"]
    [crates.fluzo-testkit]
    knows = ["mid"]
    known_by = []
"#;

/// A workspace with the table's crates, in which `from` declares one dependency.
fn workspace(from: &str, dependency: &str) -> Vec<Package> {
    let table = Table::parse(TABLE).unwrap();
    let describe = |name: &String| {
        let dependencies = if name == from { dependency } else { "" };
        format!(
            r#"{{"name":"{name}","license":"MIT","manifest_path":"/x/Cargo.toml","dependencies":[{dependencies}]}}"#
        )
    };
    let all: Vec<String> = table.crates.keys().map(describe).collect();
    metadata::parse(format!(r#"{{"packages":[{}]}}"#, all.join(",")).as_bytes()).unwrap()
}

fn check(from: &str, dependency: &str, expected: &[&str]) {
    let table = Table::parse(TABLE).unwrap();
    let findings = layers::check(&table, &workspace(from, dependency));
    assert_findings(&findings, expected);
}

fn on(name: &str) -> String {
    format!(r#"{{"name":"{name}","kind":null}}"#)
}

fn tests_on(name: &str) -> String {
    format!(r#"{{"name":"{name}","kind":"dev"}}"#)
}

#[test]
fn arrows_run_strictly_downward() {
    check("mid", &on("low"), &[]);
    check(
        "low",
        &on("mid"),
        &["`low` must not know `mid`: level 1 is not below level 0"],
    );
    check("low", &on("low-too"), &["level 0 is not below level 0"]);
    check("low-too", &on("low"), &[]);
    check("mid", &on("mid"), &["level 1 is not below level 1"]);
    check(
        "mid",
        r#"{"name":"top","kind":"build"}"#,
        &["level 4 is not below level 1"],
    );
}

#[test]
fn who_may_know_whom_is_stated() {
    check("front", &on("mid"), &[]);
    check("front", &on("low"), &["not in its `knows`"]);
    check("top", &on("leaf"), &[]);
    check(
        "front",
        &on("leaf"),
        &["not in its `knows`", "not in the other's `known_by`"],
    );
    check("top", &on("fluzo-sim"), &[]);
    check("mid", &on("fluzo-sim"), &["not in the other's `known_by`"]);
    check("fluzo-sim", &on("low"), &["not in its `knows`"]);
    check(
        "top",
        &on("fluzo-testkit"),
        &["not in the other's `known_by`"],
    );
}

#[test]
fn tests_may_use_test_crates_and_lower_ones() {
    check("mid", &tests_on("fluzo-testkit"), &[]);
    check("mid", &tests_on("fluzo-sim"), &[]);
    check("mid", &tests_on("low"), &[]);
    check("low", &tests_on("low-too"), &[]);
    check(
        "mid",
        &tests_on("leaf"),
        &["`mid` must not know `leaf`: not even in its tests"],
    );
    check("fluzo-sim", &tests_on("low"), &["not even in its tests"]);
    check("fluzo-testkit", &tests_on("mid"), &[]);
    check(
        "fluzo-testkit",
        &tests_on("low"),
        &["not even in its tests"],
    );
}

#[test]
fn foreign_crates_and_features_are_limited() {
    check(
        "mid",
        &on("reqwest"),
        &["`mid` must not know `reqwest`: it forbids `network`"],
    );
    check("mid", &tests_on("reqwest"), &[]);
    check("pure", &on("serde"), &[]);
    check("pure", &on("tokio"), &["not in its `external`"]);
    let tokio = |features: &str, default: bool| {
        format!(
            r#"{{"name":"tokio","kind":null,"features":[{features}],"uses_default_features":{default}}}"#
        )
    };
    check("mid", &tokio(r#""sync""#, false), &[]);
    check(
        "mid",
        &tokio(r#""sync","rt","time""#, false),
        &["features of `tokio`: rt, time"],
    );
    check(
        "mid",
        &tokio(r#""sync""#, true),
        &["features of `tokio`: default"],
    );
}

#[test]
fn table_and_workspace_name_the_same_crates() {
    let mut packages = workspace("", "");
    packages.retain(|p| p.name != "low");
    packages[0].name = "stranger".to_owned();
    let findings = layers::check(&Table::parse(TABLE).unwrap(), &packages);
    assert_findings(
        &findings,
        &[
            "`stranger` has no rule",
            "a rule for `fluzo-sim`",
            "a rule for `low`",
        ],
    );
    let table = Table::parse("[crates.a]\nforbids = []").unwrap();
    assert_findings(
        &layers::check(&table, &[]),
        &["no crate", "needs `level` or `knows`"],
    );
    assert!(Table::parse("[crates.a]\nlevle = 1").is_err());
}

#[test]
fn this_workspace_keeps_its_layers() {
    assert_clean(&layers::check(&super::table(), &super::packages()));
}

#[test]
fn front_ends_know_protocol_and_messages_only() {
    let table = super::table();
    let rule = &table.crates["fluzo-modes"];
    let allowed = ["fluzo-protocol", "fluzo-llm", "fluzo-stdx"];
    assert_eq!(rule.knows.as_deref().unwrap(), allowed);
}

#[test]
fn agent_loop_knows_no_session_settings_or_executor() {
    let table = super::table();
    let rule = &table.crates["fluzo-agent"];
    let known = rule.knows.as_ref().unwrap();
    assert_eq!(known, &["fluzo-llm", "fluzo-policy", "fluzo-stdx"]);
    assert_eq!(rule.features["tokio"], ["sync"]);
    assert!(rule.features["tokio-util"].is_empty());
    assert!(rule.forbids.contains(&"network".to_owned()));
}

#[test]
fn simulator_shares_no_code_with_providers() {
    let table = super::table();
    assert!(table.crates["fluzo-sim"].knows.as_ref().unwrap().is_empty());
    assert!(table.crates["fluzo-sim"].dev.as_ref().unwrap().is_empty());
    assert!(
        !table.crates["fluzo-providers"]
            .known_by
            .as_ref()
            .unwrap()
            .contains(&"fluzo-sim".into())
    );
}
