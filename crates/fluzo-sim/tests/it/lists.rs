use fluzo_sim::{Endpoint, Model, Reply, Scenario, ServerFamily, Simulator, Step};
use serde_json::{Value, json};

use crate::client::{Client, start};

fn server(family: ServerFamily) -> Simulator {
    let model = Model {
        id: "m:1b".to_owned(),
        images: true,
        context_tokens: Some(8192),
        ..Model::default()
    };
    start(Scenario::new("lists").offering(model).family(family))
}

fn check(family: ServerFamily, path: &str, pointer: &str, expected: Value) {
    let simulator = server(family);
    let response = Client::new(&simulator).get(path);
    assert_eq!(response.status, 200, "{path}");
    let found = response.json();
    assert_eq!(found.pointer(pointer), Some(&expected), "{path}: {found}");
    assert!(simulator.finish().passed);
}

#[test]
fn each_family_lists_its_models_in_its_own_form() {
    check(
        ServerFamily::Generic,
        "/v1/models",
        "/data/0/id",
        json!("m:1b"),
    );
    check(
        ServerFamily::Generic,
        "/v1beta/models",
        "/models/0/name",
        json!("models/m:1b"),
    );
    check(
        ServerFamily::Ollama,
        "/api/tags",
        "/models/0/name",
        json!("m:1b"),
    );
    check(
        ServerFamily::LmStudio,
        "/api/v0/models",
        "/data/0/max_context_length",
        json!(8192),
    );
    check(
        ServerFamily::LlamaCpp,
        "/v1/models",
        "/data/0/meta/n_ctx_train",
        json!(8192),
    );
    check(
        ServerFamily::LlamaCpp,
        "/props",
        "/default_generation_settings/n_ctx",
        json!(8192),
    );
    check(
        ServerFamily::Vllm,
        "/v1/models",
        "/data/0/max_model_len",
        json!(8192),
    );
    check(
        ServerFamily::LmStudio,
        "/api/v1/models",
        "/models/0/key",
        json!("m:1b"),
    );
    check(
        ServerFamily::Ollama,
        "/api/version",
        "/version",
        json!("0.12.0"),
    );
}

#[test]
fn local_servers_ask_for_no_key() {
    let body = json!({"model": "m:1b", "input": "go"});
    for (family, status) in [(ServerFamily::LmStudio, 200), (ServerFamily::Generic, 401)] {
        let model = Model {
            id: "m:1b".to_owned(),
            ..Model::default()
        };
        let script = Scenario::new("local").offering(model).family(family);
        let simulator = start(script.step(Step::at(Endpoint::Responses, Reply::text("x"))));
        let response = Client::new(&simulator).post_to("/v1/responses", &[], &body);
        assert_eq!(response.status, status, "{family:?}");
    }
}

#[test]
fn a_list_of_another_family_is_not_there_and_no_fault() {
    for path in ["/api/tags", "/api/v0/models", "/props"] {
        let simulator = server(ServerFamily::Generic);
        assert_eq!(Client::new(&simulator).get(path).status, 404, "{path}");
        let shown = Client::new(&simulator).post_to("/api/show", &[], &json!({"model": "m:1b"}));
        assert_eq!(shown.status, 404);
        assert!(simulator.finish().passed, "{path}");
    }
}

#[test]
fn ollama_shows_a_model() {
    let simulator = server(ServerFamily::Ollama);
    let mut client = Client::new(&simulator);
    let shown = client
        .post_to("/api/show", &[], &json!({"model": "m:1b"}))
        .json();
    assert_eq!(shown["model_info"]["sim.context_length"], 8192);
    assert_eq!(
        shown["capabilities"],
        json!(["completion", "tools", "vision"])
    );
    assert_eq!(
        client
            .post_to("/api/show", &[], &json!({"model": "x"}))
            .status,
        404
    );
    assert!(simulator.finish().passed);
}

#[test]
fn anthropic_clients_get_anthropics_list() {
    let simulator = server(ServerFamily::Generic);
    let mut client = Client::new(&simulator);
    client.send(b"GET /v1/models HTTP/1.1\r\nhost: sim\r\nanthropic-version: 2023-06-01\r\n\r\n");
    let list = client.response().json();
    assert_eq!(
        (&list["data"][0]["type"], &list["has_more"]),
        (&json!("model"), &json!(false))
    );
    assert!(simulator.finish().passed);
}

#[test]
fn a_models_step_scripts_the_lists_of_the_family() {
    let script = Scenario::new("lists")
        .model("m")
        .family(ServerFamily::Ollama)
        .step(Step::models(Reply::error(503, "down")));
    let simulator = start(script);
    let mut client = Client::new(&simulator);
    assert_eq!(client.get("/props").status, 404);
    assert_eq!(client.get("/api/tags").status, 503);
    assert_eq!(client.get("/api/tags").status, 200);
    assert!(simulator.finish().passed);
}

#[test]
fn another_base_path_moves_the_endpoints() {
    let simulator = start(Scenario::new("base").model("m").base_path("/openai/v1"));
    assert!(simulator.base_url().ends_with("/openai/v1"));
    let mut client = Client::new(&simulator);
    assert_eq!(client.get("/openai/v1/models").status, 200);
    assert!(simulator.verdict().passed);
    assert_eq!(client.get("/v1/models").status, 404);
    assert!(!simulator.finish().passed);
}
