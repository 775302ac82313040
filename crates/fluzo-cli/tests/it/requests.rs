//! What variables and settings change in requests, in each dialect.

use fluzo_catalogue::dialect::{ANTHROPIC, AZURE, COMPLETIONS, GOOGLE, RESPONSES};
use fluzo_sim::{
    Endpoint, HeaderCheck, Model, Reply, RequestExpectation, Scenario, Simulator, Step,
};
use serde_json::{Value, json};

use crate::support::{Ran, Stage, bash, simulator};

/// A model behind one dialect, as the simulator serves it.
#[derive(Clone, Copy)]
struct Served {
    provider: &'static str,
    api: &'static str,
    endpoint: Endpoint,
    model: &'static str,
    /// Where the simulator serves.
    path: &'static str,
    /// The end of the base URL.
    base: &'static str,
}

const fn served(
    api: &'static str,
    endpoint: Endpoint,
    path: &'static str,
    base: &'static str,
) -> Served {
    Served {
        provider: "mine",
        api,
        endpoint,
        model: "m1",
        path,
        base,
    }
}

const MESSAGES: Served = served(ANTHROPIC, Endpoint::Messages, "/v1", "");
const CHAT: Served = served(COMPLETIONS, Endpoint::Chat, "/v1", "/v1");
const RESPONSE: Served = served(RESPONSES, Endpoint::Responses, "/v1", "/v1");
const GEMINI: Served = served(GOOGLE, Endpoint::Gemini, "/v1beta", "/v1beta");

impl Served {
    /// A simulator that answers each of `expected` requests once: calls first, then a text.
    fn simulator(self, expected: Vec<RequestExpectation>) -> Simulator {
        let mut scenario = Scenario::new("requests")
            .base_path(self.path)
            .offering(Model {
                id: self.model.to_owned(),
                images: false,
                reasoning: true,
                context_tokens: None,
            });
        let last = expected.len() - 1;
        for (place, expected) in expected.into_iter().enumerate() {
            let reply = match place == last {
                true => Reply::text("done"),
                false => Reply::calls([bash("call_1", "true")]),
            };
            scenario = scenario.step(Step::at(self.endpoint, reply).expecting(expected));
        }
        simulator(scenario)
    }

    fn stage(self, simulator: &Simulator) -> Stage {
        let stage = Stage::new();
        stage.models(&json!({"providers": {self.provider: {
            "baseUrl": format!("{}{}", simulator.origin(), self.base),
            "api": self.api, "apiKey": "k",
            "models": [{"id": self.model, "reasoning": true, "maxTokens": 64000}],
        }}}));
        stage
    }
}

/// What a request must have in its body.
fn body(facts: &[(&str, Value)], lacks: &[&str]) -> RequestExpectation {
    let facts = facts.iter();
    RequestExpectation {
        body: facts
            .map(|(at, value)| ((*at).to_owned(), value.clone()))
            .collect(),
        body_lacks: lacks.iter().map(|at| (*at).to_owned()).collect(),
        ..RequestExpectation::default()
    }
}

#[track_caller]
fn done(ran: &Ran, simulator: Simulator) {
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}\n{}", ran.err());
    ran.is(0, "done\n", "");
}

#[test]
fn long_caching_is_asked_for_when_the_variable_says_so() {
    let rows = [
        (MESSAGES, "/system/0/cache_control/ttl", json!("1h")),
        (CHAT, "/prompt_cache_retention", json!("24h")),
        (RESPONSE, "/prompt_cache_retention", json!("24h")),
    ];
    for (served, at, value) in rows {
        let settings: [(Option<&str>, _); 3] = [
            (Some("long"), body(&[(at, value)], &[])),
            (Some("short"), body(&[], &[at])),
            (None, body(&[], &[at])),
        ];
        for (variable, expected) in settings {
            let simulator = served.simulator(vec![expected]);
            let mut stage = served.stage(&simulator);
            if let Some(value) = variable {
                stage = stage.set("PI_CACHE_RETENTION", value);
            }
            done(&stage.pi(&["-p", "go"]), simulator);
        }
    }
}

#[test]
fn budgets_of_settings_take_the_place_of_the_usual_ones() {
    let budgets = json!({"minimal": 1100, "low": 2200, "medium": 3300, "high": 4400});
    let rows = [
        (MESSAGES, "/thinking/budget_tokens"),
        (GEMINI, "/generationConfig/thinkingConfig/thinkingBudget"),
    ];
    for (mut served, at) in rows {
        if served.api == GOOGLE {
            served.model = "gemini-2.5-flash";
        }
        let levels = [
            ("minimal", 1100),
            ("low", 2200),
            ("medium", 3300),
            ("high", 4400),
        ];
        for (level, tokens) in levels {
            let simulator = served.simulator(vec![body(&[(at, json!(tokens))], &[])]);
            let stage = served.stage(&simulator);
            stage.settings(&json!({"thinkingBudgets": budgets}));
            done(&stage.pi(&["--thinking", level, "-p", "go"]), simulator);
        }
    }
}

const ON_AZURE: Served = Served {
    provider: "azure-openai-responses",
    api: AZURE,
    endpoint: Endpoint::Responses,
    model: "my-deployment",
    path: "/openai/v1",
    base: "",
};

#[test]
fn version_and_deployment_of_azure_come_from_variables() {
    let version = ("AZURE_OPENAI_API_VERSION", "2025-04-01-preview");
    let map = (
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP",
        "gpt-4o=other, gpt-5.4 = my-deployment",
    );
    let with = "/openai/v1/responses?api-version=2025-04-01-preview";
    // What comes after the simulator's origin in the base URL, and the target.
    let rows = [
        ("/openai/v1", with),
        ("", with),
        (
            "/openai/v1?api-version=preview",
            "/openai/v1/responses?api-version=preview",
        ),
    ];
    for (base, target) in rows {
        let expected = RequestExpectation {
            target: Some(target.to_owned()),
            model: Some("my-deployment".to_owned()),
            ..RequestExpectation::default()
        };
        let simulator = ON_AZURE.simulator(vec![expected]);
        let stage = Stage::new()
            .set("AZURE_OPENAI_API_KEY", "k")
            .set(
                "AZURE_OPENAI_BASE_URL",
                &format!("{}{base}", simulator.origin()),
            )
            .set(version.0, version.1)
            .set(map.0, map.1);
        let ran = stage.pi(&["--model", "azure-openai-responses/gpt-5.4", "-p", "go"]);
        done(&ran, simulator);
    }
}

#[test]
fn a_version_of_azure_that_does_not_fit_is_named_and_nothing_is_sent() {
    let stage = Stage::new()
        .set("AZURE_OPENAI_API_KEY", "k")
        .set("AZURE_OPENAI_BASE_URL", "http://127.0.0.1:9")
        .set("AZURE_OPENAI_API_VERSION", "v1&x=y");
    let ran = stage.pi(&["--model", "azure-openai-responses/gpt-5.4", "-p", "go"]);
    assert_eq!(ran.code(), 1);
    let text = "environment variable `AZURE_OPENAI_API_VERSION` may hold letters, digits, `.`, `_` and `-` only";
    assert!(ran.err().contains(text), "{}", ran.err());
}

#[test]
fn copilot_is_told_who_began_each_request() {
    for mut served in [MESSAGES, CHAT, RESPONSE] {
        served.provider = "github-copilot";
        let who = |who: &str| RequestExpectation {
            headers: [("x-initiator", HeaderCheck::Equals(who.to_owned()))]
                .into_iter()
                .chain([("copilot-vision-request", HeaderCheck::Absent)])
                .map(|(name, check)| (name.to_owned(), check))
                .collect(),
            ..RequestExpectation::default()
        };
        let simulator = served.simulator(vec![who("user"), who("agent")]);
        let stage = served.stage(&simulator);
        let ran = stage.pi(&["--model", "github-copilot/m1", "-p", "go"]);
        done(&ran, simulator);
    }
}
