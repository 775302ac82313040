//! Requests, and one-line views of what comes back.

use std::sync::Arc;
use std::time::Duration;

use fluzo_llm::{
    AbortSignal, AssistantMessage, Content, Finish, Message, Model, ModelRequest, Provider,
    RequestAuth, RequestOptions, Secret, StreamEvent, ThinkingLevel, ToolSpec, Transcript,
};
use fluzo_providers::{HttpClient, LimitPolicy, Limits, provider_for};
use fluzo_sim::{Reply, Scenario, Simulator, Step};
use futures_util::StreamExt;
use serde_json::{Value, json};

pub const KEY: &str = "sk-planted-test-key";

/// Only there so that a broken test ends.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn simulator(steps: impl IntoIterator<Item = Reply>) -> Simulator {
    let scenario = Scenario::new("test").model("m1").max_connections(1);
    let scenario = steps
        .into_iter()
        .fold(scenario, |scenario, reply| scenario.step(Step::new(reply)));
    Simulator::start(scenario).unwrap()
}

pub fn provider() -> Arc<dyn Provider> {
    let http = Arc::new(HttpClient::new("fluzo-test"));
    over(http)
}

/// A provider that sends over `http`.
pub fn over(http: Arc<HttpClient>) -> Arc<dyn Provider> {
    let limits = LimitPolicy::open();
    provider_for("openai-completions", http, limits, Arc::new(|| 0)).unwrap()
}

/// A provider of the dialect `api`, at the time 7.
pub fn speaker(api: &str) -> Arc<dyn Provider> {
    let http = Arc::new(HttpClient::new("fluzo-test"));
    provider_for(api, http, LimitPolicy::open(), Arc::new(|| 7)).unwrap()
}

pub fn limited(limits: Limits) -> Arc<dyn Provider> {
    let http = Arc::new(HttpClient::new("fluzo-test"));
    let limits = LimitPolicy::uniform(limits);
    provider_for("openai-completions", http, limits, Arc::new(|| 0)).unwrap()
}

pub fn model(base_url: &str) -> Model {
    serde_json::from_value(json!({
        "id": "m1", "name": "m1", "api": "openai-completions", "provider": "sim", "baseUrl": base_url,
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100, "reasoning": true,
    }))
    .unwrap()
}

pub fn request(base_url: &str, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: Arc::new(model(base_url)),
        system_prompt: "Be brief.".into(),
        transcript: Transcript::new(messages.into_iter().map(Arc::new).collect()).unwrap(),
        tools: Arc::new([tool("read"), tool("bash")]),
        options: RequestOptions::default(),
        auth: RequestAuth {
            api_key: Some(Secret::new(KEY)),
            ..RequestAuth::default()
        },
    }
}

/// A request to `model` that thinks a little, with tools whose schemas allow nothing else.
pub fn request_to(model: Value, messages: Vec<Message>) -> ModelRequest {
    let spec = |name: &str| ToolSpec {
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false}),
        ..tool(name)
    };
    ModelRequest {
        model: Arc::new(serde_json::from_value(model).unwrap()),
        tools: Arc::new(["read", "bash"].map(spec)),
        options: RequestOptions {
            thinking: ThinkingLevel::Low,
            ..RequestOptions::default()
        },
        ..request("http://unused", messages)
    }
}

pub fn ask(base_url: &str) -> ModelRequest {
    request(base_url, vec![Message::user("go", 1)])
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: name.into(),
        parameters: json!({"type": "object"}),
    }
}

pub async fn collect(provider: &dyn Provider, request: ModelRequest) -> Vec<StreamEvent> {
    provider.stream(request, AbortSignal::new()).collect().await
}

/// Sends `request` to a simulator with one `reply` and shows what came.
pub async fn answer_to(reply: Reply) -> String {
    let simulator = simulator([reply]);
    let events = collect(&*provider(), ask(&simulator.base_url())).await;
    assert!(simulator.finish().violations.is_empty());
    shown(&events)
}

pub fn finish(events: &[StreamEvent]) -> &Finish {
    match events.last() {
        Some(StreamEvent::Done(finish) | StreamEvent::Failed(finish)) => finish,
        other => panic!("no last event: {other:?}"),
    }
}

/// The message that the events add up to.
pub fn message(request: &ModelRequest, events: &[StreamEvent]) -> AssistantMessage {
    let mut message = AssistantMessage::begin(&request.model, 1);
    events.iter().for_each(|event| message.apply(event));
    message
}

/// Blocks, then how it ended.
pub fn shown(events: &[StreamEvent]) -> String {
    let message = message(&ask("http://h/v1"), events);
    let block = |block: &Content| match block {
        Content::Text(text) => format!("text:{}", text.text),
        Content::Thinking(thinking) => format!("thinking:{}", thinking.thinking),
        Content::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap();
            let raw = call.raw_arguments.as_ref().map(|raw| format!("RAW {raw}"));
            format!(
                "call {} {} {}",
                call.id,
                call.name,
                raw.unwrap_or(arguments)
            )
        }
        other => format!("{other:?}"),
    };
    let mut parts: Vec<String> = message.content.iter().map(block).collect();
    let finish = finish(events);
    parts.push(match &finish.error {
        Some(error) => format!("{:?}: {}", error.kind, error.message),
        None => format!(
            "{} {}/{}",
            finish.stop_reason.as_str(),
            finish.usage.input,
            finish.usage.output
        ),
    });
    parts.join(" ; ")
}

/// The kinds of the events, in pi's words.
pub fn kinds(events: &[StreamEvent]) -> String {
    let kind = |event: &StreamEvent| match event {
        StreamEvent::Start => "start",
        StreamEvent::TextStart { .. } => "text_start",
        StreamEvent::TextDelta { .. } => "text_delta",
        StreamEvent::TextEnd { .. } => "text_end",
        StreamEvent::ThinkingStart { .. } => "thinking_start",
        StreamEvent::ThinkingDelta { .. } => "thinking_delta",
        StreamEvent::ThinkingEnd { .. } => "thinking_end",
        StreamEvent::ToolCallStart { .. } => "toolcall_start",
        StreamEvent::ToolCallDelta { .. } => "toolcall_delta",
        StreamEvent::ToolCallEnd { .. } => "toolcall_end",
        StreamEvent::Done(_) => "done",
        StreamEvent::Failed(_) => "error",
    };
    events.iter().map(kind).collect::<Vec<_>>().join(" ")
}

pub fn result(id: &str, text: &str) -> Message {
    serde_json::from_value(json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read",
        "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 1,
    }))
    .unwrap()
}
