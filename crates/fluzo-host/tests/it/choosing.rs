//! Choosing models and how much they think.

use fluzo_llm::ThinkingLevel;
use fluzo_protocol::{Command, Direction, Event};
use fluzo_testkit::reply::text;
use serde_json::{Value, json};

use crate::life::{Kind, Place, Setup};
use crate::stage::Stage;

const MODELS: &str = r#"{"providers": {
    "fake": {"baseUrl": "http://localhost:1/v1", "api": "openai-completions", "apiKey": "k", "models": [
        {"id": "a", "reasoning": true}, {"id": "b"},
        {"id": "c", "reasoning": true, "thinkingLevelMap": {"low": null, "xhigh": "max"}}]},
    "locked": {"baseUrl": "http://localhost:1/v1", "api": "openai-completions", "apiKey": "k",
        "models": [{"id": "d"}]}}}"#;

fn stage(place: &Place, scope: &[&str]) -> Stage {
    let setup = Setup {
        models_json: Some(MODELS),
        scope: scope.iter().map(|&pattern| pattern.to_owned()).collect(),
        thinking: ThinkingLevel::Medium,
        ..Setup::new([])
    };
    Stage::begin(place, setup)
}

fn cycle(stage: &mut Stage, direction: Direction) -> Option<(String, String, bool)> {
    let data = stage.execute(Command::CycleModel { direction }).unwrap();
    if data == Value::Null {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let scoped = data["isScoped"].as_bool().unwrap();
    Some((
        text(&data["model"]["id"]),
        text(&data["thinkingLevel"]),
        scoped,
    ))
}

/// The scope, the steps, and model and level after each.
type Row = (
    &'static [&'static str],
    &'static [Direction],
    &'static [(&'static str, &'static str)],
);

#[test]
fn models_are_cycled_in_the_scope_or_among_all_that_can_be_used() {
    use Direction::{Backward, Forward};
    let rows: [Row; 4] = [
        // The model at first is none of these. A level that a model lacks is clamped, and
        // comes back behind it.
        (
            &[],
            &[Forward, Forward, Forward, Forward],
            &[
                ("a", "medium"),
                ("b", "off"),
                ("c", "medium"),
                ("a", "medium"),
            ],
        ),
        (
            &[],
            &[Forward, Backward, Backward],
            &[("a", "medium"), ("c", "medium"), ("b", "off")],
        ),
        (
            &["fake/c:high", "a"],
            &[Forward, Forward, Forward],
            &[("c", "high"), ("a", "high"), ("c", "high")],
        ),
        (
            &["fake/*:low", "locked/d"],
            &[Forward, Forward, Forward],
            &[("a", "low"), ("b", "off"), ("c", "medium")],
        ),
    ];
    for (scope, steps, expected) in rows {
        let place = Place::new(Kind::Memory);
        let mut stage = stage(&place, scope);
        let mut seen = Vec::new();
        for step in steps {
            let (id, level, scoped) = cycle(&mut stage, *step).unwrap();
            assert_eq!(scoped, !scope.is_empty());
            seen.push((id, level));
        }
        let seen: Vec<_> = seen.iter().map(|(id, level)| (&**id, &**level)).collect();
        assert_eq!(seen, expected, "{scope:?}");
    }
}

#[test]
fn a_scope_of_one_or_of_nothing_that_can_be_used_leaves_the_model() {
    for scope in [&["fake/a"][..], &["locked/d"], &["nothing"]] {
        let place = Place::new(Kind::Memory);
        let mut stage = stage(&place, &[]);
        let patterns = scope.iter().map(|&pattern| pattern.to_owned()).collect();
        stage
            .execute(Command::SetScopedModels { patterns })
            .unwrap();
        let expected = match scope {
            ["fake/a"] => None,
            // Patterns that mean no model are told, and all models are cycled.
            _ => Some("a"),
        };
        let cycled = cycle(&mut stage, Direction::Forward);
        assert_eq!(cycled.as_ref().map(|c| &*c.0), expected, "{scope:?}");
    }
}

#[test]
fn levels_are_clamped_cycled_and_shown_once_each() {
    let place = Place::new(Kind::Memory);
    let mut stage = stage(&place, &[]);
    stage.life.world.model.push(text(["ok"]));
    stage.prompt("go");
    let c = json!({"type": "set_model", "provider": "fake", "modelId": "c"});
    stage.execute(serde_json::from_value(c).unwrap()).unwrap();
    let known = stage.execute(Command::GetAvailableThinkingLevels).unwrap();
    let expected = ["off", "minimal", "medium", "high", "xhigh"];
    assert_eq!(known["levels"], json!(expected));
    let before = place.kinds().len();
    for (set, got) in [
        ("low", "medium"),
        ("xhigh", "xhigh"),
        ("xhigh", "xhigh"),
        ("off", "off"),
    ] {
        let json = json!({"type": "set_thinking_level", "level": set});
        stage
            .execute(serde_json::from_value(json).unwrap())
            .unwrap();
        assert_eq!(stage.life.session.snapshot().thinking_level, got, "{set}");
    }
    let cycled: Vec<_> = (0..5)
        .map(|_| stage.execute(Command::CycleThinkingLevel).unwrap()["level"].clone())
        .collect();
    assert_eq!(cycled, ["minimal", "medium", "high", "xhigh", "off"]);
    let levels: Vec<_> = stage
        .life
        .log
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::ThinkingLevelChanged { level } => Some(level.as_str()),
            _ => None,
        })
        .collect();
    let expected = ["xhigh", "off", "minimal", "medium", "high", "xhigh", "off"];
    assert_eq!(levels, expected);
    let stored = place.kinds()[before..].to_vec();
    assert_eq!(stored, ["thinking_level_change"; 7]);
    stage.check(&place);
}

/// Chosen before anything was said, model and level are stored once, with the first prompt.
#[test]
fn choices_before_the_first_prompt_are_stored_with_it() {
    let place = Place::new(Kind::Jsonl);
    let mut stage = stage(&place, &[]);
    for id in ["a", "b", "c"] {
        let json = json!({"type": "set_model", "provider": "fake", "modelId": id});
        stage
            .execute(serde_json::from_value(json).unwrap())
            .unwrap();
    }
    assert!(place.kinds().is_empty());
    let stage = stage.check(&place);
    assert_eq!(
        place.kinds(),
        ["model_change", "thinking_level_change", "user", "assistant"]
    );
    assert_eq!(stage.life.world.model.requests()[0].model.id, "c");
}
