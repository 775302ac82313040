//! What every dialect must do, once for all of them, against the strict simulator. A dialect
//! that is added is one row of [`DIALECTS`].

use std::sync::Arc;

use fluzo_llm::{
    AbortSignal, AssistantMessage, Content, Message, ModelRequest, Provider, RequestAuth,
    RequestOptions, Secret, StreamErrorKind, StreamEvent, ThinkingLevel, ToolSpec, Transcript,
};
use fluzo_providers::{HttpClient, LimitPolicy, provider_for};
use fluzo_sim::{
    Completion, Delivery, Endpoint, Pieces, Point, Reply, RequestExpectation, Scenario, Simulator,
    Step, ToolCall, Usage, Writes,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::{collect, finish, kinds, message};

/// A dialect as the suite reaches it.
#[derive(Clone, Copy, Debug)]
struct Dialect {
    api: &'static str,
    endpoint: Endpoint,
    /// What the base URL has after the address.
    base: &'static str,
    model: &'static str,
}

const DIALECTS: [Dialect; 4] = [
    Dialect {
        api: "openai-completions",
        endpoint: Endpoint::Chat,
        base: "/v1",
        model: "m1",
    },
    Dialect {
        api: "anthropic-messages",
        endpoint: Endpoint::Messages,
        base: "",
        model: "claude-sonnet-4-5",
    },
    Dialect {
        api: "openai-responses",
        endpoint: Endpoint::Responses,
        base: "/v1",
        model: "m1",
    },
    Dialect {
        api: "google-generative-ai",
        endpoint: Endpoint::Gemini,
        base: "/v1",
        model: "gemini-3-flash-preview",
    },
];

impl Dialect {
    fn step(self, completion: Completion) -> Step {
        self.reply(Reply::completion(completion))
    }

    fn reply(self, reply: Reply) -> Step {
        Step::at(self.endpoint, reply)
    }

    fn provider(self) -> Arc<dyn Provider> {
        let http = Arc::new(HttpClient::new("fluzo-test"));
        provider_for(self.api, http, LimitPolicy::open(), Arc::new(|| 7)).unwrap()
    }

    fn request(self, simulator: &Simulator, messages: Vec<Message>) -> ModelRequest {
        let address = simulator.base_url();
        let base = address.strip_suffix("/v1").unwrap().to_owned() + self.base;
        let model = json!({
            "id": self.model, "name": "m", "api": self.api, "provider": "sim", "baseUrl": base,
            "input": ["text", "image"], "contextWindow": 200_000, "maxTokens": 32_000,
            "reasoning": true,
            "cost": {"input": 1.0, "output": 1.0, "cacheRead": 0.5, "cacheWrite": 0.0},
        });
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: name.into(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        ModelRequest {
            model: Arc::new(serde_json::from_value(model).unwrap()),
            system_prompt: "Be brief.".into(),
            transcript: Transcript::new(messages.into_iter().map(Arc::new).collect()).unwrap(),
            tools: Arc::new([tool("read"), tool("bash")]),
            options: RequestOptions {
                thinking: ThinkingLevel::Low,
                ..RequestOptions::default()
            },
            auth: RequestAuth {
                api_key: Some(Secret::new("sk-planted-test-key")),
                ..RequestAuth::default()
            },
        }
    }
}

/// A conversation over as many requests as are asked, kept as a session keeps it.
struct Talk {
    dialect: Dialect,
    simulator: Simulator,
    provider: Arc<dyn Provider>,
    messages: Vec<Message>,
}

impl Talk {
    fn with(dialect: Dialect, steps: impl IntoIterator<Item = Step>) -> Self {
        let scenario = Scenario::new("suite")
            .reasoning_model(dialect.model)
            .max_connections(1);
        let scenario = steps.into_iter().fold(scenario, Scenario::step);
        Self {
            dialect,
            simulator: Simulator::start(scenario).unwrap(),
            provider: dialect.provider(),
            messages: Vec::new(),
        }
    }

    async fn say(&mut self, messages: impl IntoIterator<Item = Message>) -> Vec<StreamEvent> {
        self.messages.extend(messages);
        let request = self.dialect.request(&self.simulator, self.messages.clone());
        let events = collect(&*self.provider, request.clone()).await;
        let answer = Message::Assistant(message(&request, &events));
        let line = serde_json::to_string(&answer).unwrap();
        self.messages.push(serde_json::from_str(&line).unwrap());
        events
    }

    fn answer(&self) -> &AssistantMessage {
        self.messages.last().unwrap().as_assistant().unwrap()
    }

    /// Results of the calls of the last answer, the last call's first.
    fn results(&self, content: impl Fn(usize) -> Value) -> Vec<Message> {
        let calls: Vec<_> = self.answer().tool_calls().collect();
        let result = |(at, call): (usize, &&fluzo_llm::ToolCall)| {
            let json = json!({
                "role": "toolResult", "toolCallId": call.id, "toolName": call.name,
                "content": content(at), "isError": false, "timestamp": 1,
            });
            serde_json::from_value(json).unwrap()
        };
        calls.iter().enumerate().map(result).rev().collect()
    }

    /// What the last answer was, without ids and signatures, and how it ended.
    fn shown(&self, events: &[StreamEvent]) -> String {
        let block = |block: &Content| match block {
            Content::Text(text) => format!("text:{}", text.text),
            Content::Thinking(thinking) => format!("thinking:{}", thinking.thinking),
            Content::ToolCall(call) => {
                let arguments = serde_json::to_string(&call.arguments).unwrap();
                let raw = call.raw_arguments.as_ref().map(|raw| format!("RAW {raw}"));
                format!("call {} {}", call.name, raw.unwrap_or(arguments))
            }
            other => format!("{other:?}"),
        };
        let mut parts: Vec<String> = self.answer().content.iter().map(block).collect();
        let finish = finish(events);
        parts.push(match &finish.error {
            Some(error) => format!("{:?}", error.kind),
            None => {
                let usage = &finish.usage;
                format!(
                    "{} {}/{}",
                    finish.stop_reason.as_str(),
                    usage.input,
                    usage.output
                )
            }
        });
        parts.join(" ; ")
    }

    #[track_caller]
    fn end(self) {
        let api = self.dialect.api;
        let verdict = self.simulator.finish();
        assert!(verdict.passed, "{api}: {verdict}");
    }
}

/// Sends one request, which `completion` answers as `expected` says.
async fn check(completion: Completion, expected: &str) {
    for dialect in DIALECTS {
        let mut talk = Talk::with(dialect, [dialect.step(completion.clone())]);
        let events = talk.say([Message::user("go", 1)]).await;
        assert_eq!(talk.shown(&events), expected, "{}", dialect.api);
        talk.end();
    }
}

fn text(text: &str) -> Completion {
    Completion {
        text: Some(text.into()),
        pieces: Pieces::Chars(2),
        ..Completion::default()
    }
}

fn three_calls() -> Completion {
    Completion {
        thinking: Some("hm 你".into()),
        text: Some("look 🌍".into()),
        pieces: Pieces::Chars(2),
        tool_calls: vec![
            ToolCall::new("c1", "read", json!({"path": "ü"})),
            ToolCall::new("c2", "read", json!({"path": "b"})),
            ToolCall::new("c3", "bash", json!({"command": "rm -r build"})),
        ],
        ..Completion::default()
    }
}

const THREE_CALLS: &str = r#"thinking:hm 你 ; text:look 🌍 ; call read {"path":"ü"} ; call read {"path":"b"} ; call bash {"command":"rm -r build"} ; toolUse 12/7"#;

/// Names of dialects whose bodies are those of a row, at another address.
const ELSEWHERE: [(&str, &str); 3] = [
    ("anthropic-vertex", "anthropic-messages"),
    ("azure-openai-responses", "openai-responses"),
    ("google-vertex", "google-generative-ai"),
];

#[test]
fn every_dialect_is_in_the_suite() {
    for api in fluzo_providers::dialects() {
        let same = ELSEWHERE.iter().find(|(name, _)| *name == api);
        let api = same.map_or(api, |(_, same)| same);
        assert!(DIALECTS.iter().any(|row| row.api == api), "{api}");
    }
}

#[tokio::test]
async fn text_and_thinking() {
    check(text("hello"), "text:hello ; stop 12/7").await;
    let thinking = Completion {
        thinking: Some("hm".into()),
        ..text("hello")
    };
    check(thinking, "thinking:hm ; text:hello ; stop 12/7").await;
}

#[tokio::test]
async fn one_call_and_three_at_once_and_what_follows() {
    for dialect in DIALECTS {
        let one = Completion {
            thinking: Some("hm".into()),
            tool_calls: vec![ToolCall::new("c9", "read", json!({}))],
            ..Completion::default()
        };
        let expect = RequestExpectation {
            tool_result_contains: vec!["R0".into(), "R1".into(), "R2".into()],
            ..RequestExpectation::default()
        };
        let steps = [
            dialect.step(three_calls()),
            dialect.step(one).expecting(expect),
            dialect.step(text("done")),
            dialect.step(text("more")),
        ];
        let mut talk = Talk::with(dialect, steps);
        let words = |at: usize| json!([{"type": "text", "text": format!("R{at}")}]);
        let events = talk.say([Message::user("go", 1)]).await;
        assert_eq!(talk.shown(&events), THREE_CALLS, "{}", dialect.api);
        let events = talk.say(talk.results(words)).await;
        let expected = "thinking:hm ; call read {} ; toolUse 12/7";
        assert_eq!(talk.shown(&events), expected, "{}", dialect.api);
        let events = talk.say(talk.results(words)).await;
        assert_eq!(
            talk.shown(&events),
            "text:done ; stop 12/7",
            "{}",
            dialect.api
        );
        let events = talk.say([Message::user("on", 1)]).await;
        assert_eq!(
            talk.shown(&events),
            "text:more ; stop 12/7",
            "{}",
            dialect.api
        );
        talk.end();
    }
}

#[tokio::test]
async fn images_of_the_user_and_of_tools() {
    for dialect in DIALECTS {
        let steps = [dialect.step(three_calls()), dialect.step(text("seen"))];
        let mut talk = Talk::with(dialect, steps);
        let image = || Content::image("aGk=", "image/png");
        let look = Message::user_blocks(vec![Content::text("look"), image()], 1);
        talk.say([look]).await;
        let image = serde_json::to_value(image()).unwrap();
        let results = talk.results(|at| match at {
            0 => json!([image]),
            1 => json!([{"type": "text", "text": "B"}, image]),
            _ => json!([{"type": "text", "text": "C"}]),
        });
        let events = talk.say(results).await;
        assert_eq!(
            talk.shown(&events),
            "text:seen ; stop 12/7",
            "{}",
            dialect.api
        );
        talk.end();
    }
}

#[tokio::test]
async fn usage_with_cached_and_thought_tokens() {
    for dialect in DIALECTS {
        let usage = Usage {
            prompt_tokens: 100,
            completion_tokens: 12,
            cached_tokens: Some(60),
            reasoning_tokens: Some(5),
            ..Usage::default()
        };
        let steps = [dialect.step(Completion {
            usage,
            ..text("ok")
        })];
        let mut talk = Talk::with(dialect, steps);
        let events = talk.say([Message::user("go", 1)]).await;
        let usage = &finish(&events).usage;
        let counts = [
            usage.input,
            usage.output,
            usage.cache_read,
            usage.total_tokens,
        ];
        assert_eq!(counts, [40, 12, 60, 112], "{}", dialect.api);
        assert!((usage.cost.total - 82e-6).abs() < 1e-12, "{}", dialect.api);
        talk.end();
    }
}

/// The connection breaks after each so many bytes, and the body ends there: a failure as long
/// as the answer is not whole, and no call that is cut off can run.
#[tokio::test]
async fn a_stream_that_is_cut_off() {
    const STEP: usize = 97;
    for dialect in DIALECTS {
        for properly in [false, true] {
            let mut whole = false;
            for at in (0..).step_by(STEP) {
                let point = Some(Point::Bytes(at));
                let delivery = match properly {
                    true => Delivery {
                        end_early: point,
                        ..Delivery::default()
                    },
                    false => Delivery {
                        cut_off: point,
                        ..Delivery::default()
                    },
                };
                let reply = Reply::completion(three_calls()).delivered(Delivery {
                    writes: Writes::Together,
                    ..delivery
                });
                let mut talk = Talk::with(dialect, [dialect.reply(reply)]);
                let events = talk.say([Message::user("go", 1)]).await;
                let context = format!("{} cut at {at}: {}", dialect.api, talk.shown(&events));
                for call in talk.answer().tool_calls() {
                    let arguments = serde_json::to_string(&call.arguments).unwrap();
                    let whole = format!("call {} {arguments} ", call.name);
                    let runs = call.raw_arguments.is_none();
                    assert!(!runs || THREE_CALLS.contains(&whole), "{context}");
                }
                match finish(&events).error.as_ref().map(|error| error.kind) {
                    None => {
                        // What was used may be told after the answer is whole.
                        let answer = THREE_CALLS.trim_end_matches("12/7");
                        assert!(talk.shown(&events).starts_with(answer), "{context}");
                        whole = true;
                        break;
                    }
                    Some(StreamErrorKind::Incomplete | StreamErrorKind::Connect) => {}
                    Some(_) => panic!("{context}"),
                }
                assert!(at < 20_000, "{context}");
            }
            assert!(whole);
        }
    }
}

#[tokio::test]
async fn errors_before_the_stream() {
    use StreamErrorKind::{Authentication, InvalidRequest, Overflow, RateLimit};
    let rows = [
        (400, "bad thing", InvalidRequest),
        (401, "no", Authentication),
        (429, "slow down", RateLimit),
        (400, "prompt is too long: 9 tokens > 8 maximum", Overflow),
    ];
    for dialect in DIALECTS {
        for (status, text, kind) in rows {
            let reply =
                Reply::error_from(dialect.endpoint, status, text).header("retry-after", "3");
            let mut talk = Talk::with(dialect, [dialect.reply(reply)]);
            let events = talk.say([Message::user("go", 1)]).await;
            let error = finish(&events).error.clone().unwrap();
            let seen = (error.kind, error.status, error.retry_after_ms);
            assert_eq!(
                seen,
                (kind, Some(status), Some(3000)),
                "{} {text}",
                dialect.api
            );
            assert!(
                error.message.starts_with(&format!("{status} {text}")),
                "{}",
                error.message
            );
            talk.end();
        }
    }
}

#[tokio::test]
async fn an_error_in_the_stream() {
    for dialect in DIALECTS {
        let error = json!({"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "rate limit reached"});
        let completion = Completion {
            error: Some(error),
            ..text("hello")
        };
        let mut talk = Talk::with(dialect, [dialect.step(completion)]);
        let events = talk.say([Message::user("go", 1)]).await;
        assert_eq!(
            talk.shown(&events),
            "text:hello ; RateLimit",
            "{}",
            dialect.api
        );
        talk.end();
    }
}

#[tokio::test]
async fn abort_closes_what_is_open() {
    for dialect in DIALECTS {
        let completion = Completion {
            pieces: Pieces::Chars(1),
            ..text("hello world")
        };
        let reply = Reply::completion(completion).delivered(Delivery {
            stall: Some(Point::Events(9)),
            ..Delivery::default()
        });
        let talk = Talk::with(dialect, [dialect.reply(reply)]);
        let request = dialect.request(&talk.simulator, vec![Message::user("go", 1)]);
        let abort = AbortSignal::new();
        let mut stream = talk.provider.stream(request, abort.clone());
        let mut events = Vec::new();
        while !matches!(events.last(), Some(StreamEvent::TextDelta { .. })) {
            events.push(stream.next().await.unwrap());
        }
        abort.cancel();
        events.extend(stream.collect::<Vec<_>>().await);
        let kinds = kinds(&events);
        assert!(kinds.ends_with("text_end error"), "{} {kinds}", dialect.api);
        let error = finish(&events).error.clone().unwrap();
        assert_eq!(error.message, "Request was aborted", "{}", dialect.api);
    }
}
