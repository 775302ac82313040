//! Every host that is known without configuration, through the program and against the
//! simulator: address, header of the key, one habit, and one round of tools.
//!
//! Of the address only scheme and authority are replaced by the simulator's; the rest is the
//! row's own. That the authority is the row's is shown by what the program asks a proxy for.

mod page;
mod script;
mod scripts;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};

use fluzo_catalogue::{HOSTS, Host, dialect, fill};
use fluzo_sim::{
    Completion, Endpoint, HeaderCheck, Model, Reply, RequestExpectation, Scenario, Signature,
    Simulator, Step,
};
use serde_json::{Value, json};

use crate::support::{Stage, approve, bash, simulator};
use script::Script;
use scripts::SCRIPTS;

/// The headers in which keys are sent.
const KEY_HEADERS: [&str; 5] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cf-aig-authorization",
];

/// A provider that nothing is known of.
const UNKNOWN: &str = "somewhere";

impl Script {
    fn row(&self) -> &'static Host {
        fluzo_catalogue::host(self.host).unwrap_or_else(|| panic!("no host `{}`", self.host))
    }

    fn base_url(&self) -> &'static str {
        let base = self.row().base_url_for(self.api);
        base.unwrap_or_else(|| panic!("`{}` does not speak `{}`", self.host, self.api))
    }

    fn endpoint(&self) -> Endpoint {
        match self.api {
            dialect::ANTHROPIC | dialect::ANTHROPIC_VERTEX => Endpoint::Messages,
            dialect::RESPONSES | dialect::AZURE => Endpoint::Responses,
            dialect::GOOGLE | dialect::GOOGLE_VERTEX => Endpoint::Gemini,
            _ => Endpoint::Chat,
        }
    }

    fn model_id(&self) -> &'static str {
        let default = || self.row().default_model;
        self.model.or_else(default).unwrap()
    }

    /// The table's facts of the model, when it is served through this dialect.
    fn known_model(&self) -> Option<fluzo_catalogue::ModelRow> {
        fluzo_catalogue::model(self.host, self.model_id()).filter(|row| row.api == self.api)
    }

    /// The model as the simulator serves it; one that is only configured thinks, if it is
    /// served by a host that has a default one.
    fn served(&self) -> Model {
        let row = self.known_model();
        Model {
            id: self.model_id().to_owned(),
            images: row.is_some_and(|row| row.images),
            reasoning: row.map_or(self.row().default_model.is_some(), |row| row.reasoning),
            context_tokens: None,
        }
    }

    /// Path and query.
    fn target(&self) -> &'static str {
        let (_, rest) = self.url.split_once("://").unwrap();
        &rest[rest.find('/').unwrap()..]
    }

    /// The path that the simulator serves below.
    fn base_path(&self) -> &'static str {
        let path = self.target();
        let end = match self.endpoint() {
            Endpoint::Chat => path.strip_suffix("/chat/completions"),
            Endpoint::Messages => path.strip_suffix("/messages"),
            Endpoint::Responses => path.strip_suffix("/responses"),
            _ => None,
        };
        end.or_else(|| Some(path.split_once("/models/")?.0))
            .unwrap()
    }

    fn expectation(&self, first: bool) -> RequestExpectation {
        let key = self.key.map(|(_, value)| format!("{}{value}", self.sent.1));
        let of_key = KEY_HEADERS.map(|name| match &key {
            Some(value) if name == self.sent.0 => (name, HeaderCheck::Equals(value.clone())),
            _ => (name, HeaderCheck::Absent),
        });
        let equal = self.headers.iter();
        let equal = equal.map(|(name, value)| (*name, HeaderCheck::Equals((*value).to_owned())));
        let present = self
            .present
            .iter()
            .map(|name| (*name, HeaderCheck::Present));
        let turns = self.turns.iter().map(|(name, before, after)| {
            let value = if first { before } else { after };
            (*name, HeaderCheck::Equals((*value).to_owned()))
        });
        let headers = of_key.into_iter().chain(equal).chain(present).chain(turns);
        let then = if first { &[] } else { self.then };
        let facts = self.body.iter().chain(then);
        RequestExpectation {
            target: Some(self.target().to_owned()),
            model: Some(self.model_id().to_owned()),
            stream: Some(true),
            tools: vec!["bash".to_owned()],
            tool_result_contains: if first {
                vec![]
            } else {
                vec!["six and 6".to_owned()]
            },
            headers: headers
                .map(|(name, check)| (name.to_owned(), check))
                .collect(),
            body: facts
                .map(|(pointer, text)| ((*pointer).to_owned(), serde_json::from_str(text).unwrap()))
                .collect(),
            body_lacks: self
                .lacks
                .iter()
                .map(|pointer| (*pointer).to_owned())
                .collect(),
            ..RequestExpectation::default()
        }
    }

    /// A call of a tool, then an answer.
    fn scenario(&self) -> Scenario {
        let call = Completion {
            thinking: self.thinks.then(|| "hm".to_owned()),
            signature: if self.thinks {
                Signature::Absent
            } else {
                Signature::Auto
            },
            tool_calls: vec![bash("call_1", "echo six and $((2 * 3))")],
            ..Completion::default()
        };
        let replies = [Reply::completion(call), Reply::text("done")];
        let mut scenario = Scenario::new(self.host)
            .base_path(self.base_path())
            .offering(self.served());
        scenario.quirks = self.quirks.to_vec();
        for (place, reply) in replies.into_iter().enumerate() {
            let step = Step::at(self.endpoint(), reply).expecting(self.expectation(place == 0));
            scenario = scenario.step(step);
        }
        scenario
    }

    /// The variables set, and the host led to the simulator.
    fn stage(&self, simulator: &Simulator) -> Stage {
        let base = elsewhere(self.base_url(), &simulator.origin());
        let mut provider = json!({"baseUrl": base});
        if self.known_model().is_none() {
            let model = self.served();
            provider["models"] =
                json!([{"id": model.id, "api": self.api, "reasoning": model.reasoning}]);
        }
        let mut stage = self.with_variables(Stage::new());
        stage.models(&json!({"providers": {self.host: provider}}));
        if let Some((variable, value)) = self.key {
            stage = stage.set(variable, value);
        }
        stage
    }

    fn with_variables(&self, stage: Stage) -> Stage {
        let variables = self.variables.iter();
        variables.fold(stage, |stage, (name, value)| stage.set(name, value))
    }

    /// The same server under a name that nothing is known of.
    fn unknown_stage(&self, simulator: &Simulator) -> Stage {
        let base = elsewhere(&self.filled(), &simulator.origin());
        let model = self.served();
        let stage = Stage::new();
        stage.models(&json!({"providers": {UNKNOWN: {
            "baseUrl": base, "api": self.api, "apiKey": self.key.map_or("x", |(_, value)| value),
            "models": [{"id": model.id, "reasoning": model.reasoning}],
        }}}));
        stage
    }

    /// The row's base URL with the script's variables.
    fn filled(&self) -> String {
        let variable = |name: &str| {
            let found = self.variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        fill(self.base_url(), &variable).unwrap()
    }

    /// Runs the program; what went wrong when something did.
    fn run(&self, stage: &Stage, provider: &str, simulator: Simulator) -> Result<(), String> {
        let mut arguments = vec!["--mode", "json", "--thinking", self.thinking];
        arguments.extend(["--provider", provider]);
        if self.model.is_some() || self.known_model().is_none() || provider == UNKNOWN {
            arguments.extend(["--model", self.model_id()]);
        }
        arguments.push("go");
        let ran = stage.pi(&arguments);
        let verdict = simulator.finish();
        let lines = ran.lines();
        let end = lines
            .last()
            .and_then(|end| end["messages"].as_array()?.last());
        let said = end.map_or(Value::Null, |last| last["content"].clone());
        let says = said
            .as_array()
            .and_then(|blocks| blocks.last()?["text"].as_str());
        if verdict.passed && ran.code() == 0 && says == Some("done") {
            return Ok(());
        }
        Err(format!(
            "{} through {} with {:?}: {verdict}\n  {says:?} {}",
            self.host,
            self.api,
            self.key.map(|(variable, _)| variable),
            ran.err()
        ))
    }
}

/// `url` with another scheme and authority.
fn elsewhere(url: &str, origin: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let path = rest.find('/').map_or("", |at| &rest[at..]);
    format!("{origin}{path}")
}

/// All that is wrong, at once.
#[track_caller]
fn check(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn scripts(endpoint: Endpoint) -> impl Iterator<Item = &'static Script> {
    SCRIPTS
        .iter()
        .filter(move |script| script.endpoint() == endpoint)
}

fn rounds(endpoint: Endpoint) {
    check(scripts(endpoint).filter_map(|script| {
        let simulator = simulator(script.scenario());
        let stage = script.stage(&simulator);
        script.run(&stage, script.host, simulator).err()
    }));
}

#[test]
fn every_host_has_a_script() {
    let rows: Vec<&str> = HOSTS.iter().map(|host| host.id).collect();
    let mut shown: Vec<&str> = SCRIPTS.iter().map(|script| script.host).collect();
    shown.dedup();
    assert_eq!(shown, rows);
}

#[test]
fn every_endpoint_and_every_variable_of_a_key_has_a_script() {
    let endpoints = |host: &'static Host| host.endpoints.iter().map(|(api, _)| (host.id, *api));
    let rows: BTreeSet<_> = HOSTS.iter().flat_map(endpoints).collect();
    let shown = SCRIPTS.iter().map(|script| (script.host, script.api));
    assert_eq!(shown.collect::<BTreeSet<_>>(), rows);

    let keys = |host: &'static Host| {
        let none = (!host.needs_key).then_some((host.id, None));
        host.keys
            .iter()
            .map(|key| (host.id, Some(*key)))
            .chain(none)
    };
    let rows: BTreeSet<_> = HOSTS.iter().flat_map(keys).collect();
    let key = |script: &Script| (script.host, script.key.map(|(variable, _)| variable));
    assert_eq!(SCRIPTS.iter().map(key).collect::<BTreeSet<_>>(), rows);
}

/// The whole address is the row's.
#[test]
fn addresses_are_those_of_the_rows() {
    check(SCRIPTS.iter().filter_map(|script| {
        let filled = script.filled();
        let below = script.url.strip_prefix(filled.as_str());
        let fits = below.is_some_and(|rest| rest.starts_with('/'));
        (!fits).then(|| format!("{} is not below {filled}", script.url))
    }));
}

#[test]
fn a_round_of_tools_through_chat_completions() {
    rounds(Endpoint::Chat);
}

#[test]
fn a_round_of_tools_through_messages() {
    rounds(Endpoint::Messages);
}

#[test]
fn a_round_of_tools_through_responses() {
    rounds(Endpoint::Responses);
}

#[test]
fn a_round_of_tools_through_gemini() {
    rounds(Endpoint::Gemini);
}

/// What a script asserts is a habit of its host: a server that nothing is known of gets
/// something else, unless the script says that it gets the same.
#[test]
fn a_server_that_is_not_known_gets_what_is_usual() {
    check(
        SCRIPTS
            .iter()
            .filter(|script| script.key.is_some())
            .filter_map(|script| {
                let simulator = simulator(script.scenario());
                let stage = script.unknown_stage(&simulator);
                let outcome = script.run(&stage, UNKNOWN, simulator);
                match (outcome, script.usual) {
                    (Ok(()), false) => {
                        Some(format!("{} {} is no different", script.host, script.api))
                    }
                    (Err(wrong), true) => Some(wrong),
                    _ => None,
                }
            }),
    );
}

/// A proxy that tells what it was asked for and refuses it.
struct Refusing {
    address: SocketAddr,
    asked: Receiver<String>,
}

impl Refusing {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.unwrap();
                let mut line = String::new();
                BufReader::new(&connection).read_line(&mut line).unwrap();
                if tell.send(line.trim_end().to_owned()).is_err() {
                    return;
                }
                // Whether the program still reads is not the question.
                let _ =
                    (&connection).write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Self { address, asked }
    }
}

/// What the program asks a proxy for on the way to the server of a script, in which the
/// stage names no address.
fn asked_of(proxy: &Refusing, stage: Stage, provider: &str, model: &str) -> Vec<String> {
    let stage = stage.set("https_proxy", &format!("http://{}", proxy.address));
    stage.settings(&json!({"retry": {"enabled": false}}));
    stage.pi(&["--provider", provider, "--model", model, "-p", "go"]);
    let mut asked: Vec<String> = proxy.asked.try_iter().collect();
    asked.dedup();
    asked
}

/// Without any configuration the program asks for the row's own server, and for no other.
#[test]
fn the_server_of_the_row_is_asked_for() {
    let proxy = Refusing::start();
    let hosted = SCRIPTS
        .iter()
        .filter(|script| script.url.starts_with("https://") && script.known_model().is_some());
    check(hosted.filter_map(|script| {
        let (variable, value) = script.key.unwrap();
        let stage = script.with_variables(Stage::new()).set(variable, value);
        let asked = asked_of(&proxy, stage, script.host, script.model_id());
        let (_, rest) = script.url.split_once("://").unwrap();
        let server = rest.split('/').next().unwrap();
        let expected = format!("CONNECT {server}:443 HTTP/1.1");
        (asked != [expected.as_str()]).then(|| format!("{}: {asked:?}", script.host))
    }));
}

#[test]
fn the_token_of_copilot_names_its_server() {
    let proxy = Refusing::start();
    let stage = Stage::new();
    let entry = json!({"github-copilot": {
        "type": "oauth", "access": "tid=1;proxy-ep=proxy.business.githubcopilot.com;x=y",
        "refresh": "r", "expires": 4_000_000_000_000_i64,
    }});
    let path = stage.write("agent/auth.json", entry.to_string());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        asked_of(&proxy, stage, "github-copilot", "gpt-5.4"),
        ["CONNECT api.business.githubcopilot.com:443 HTTP/1.1"]
    );
}

#[test]
fn a_variable_may_name_the_whole_address() {
    let with_variable = HOSTS.iter().filter(|host| host.base_url_variable.is_some());
    check(with_variable.filter_map(|host| {
        let script = SCRIPTS
            .iter()
            .find(|script| script.host == host.id)
            .unwrap();
        let simulator = simulator(script.scenario());
        let (variable, value) = script.key.unwrap();
        let base = elsewhere(&script.filled(), &simulator.origin());
        let stage = Stage::new()
            .set(variable, value)
            .set(host.base_url_variable.unwrap(), &base);
        script.run(&stage, host.id, simulator).err()
    }));
}

#[test]
fn azure_takes_version_and_deployment_from_variables() {
    let expect = RequestExpectation {
        target: Some("/openai/v1/responses?api-version=2025-04-01-preview".to_owned()),
        model: Some("mine".to_owned()),
        ..RequestExpectation::default()
    };
    let step = Step::at(Endpoint::Responses, Reply::text("ok")).expecting(expect);
    let simulator = simulator(Scenario::new("azure").reasoning_model("mine").step(step));
    let stage = Stage::new()
        .set("AZURE_OPENAI_API_KEY", "test-key")
        .set("AZURE_OPENAI_BASE_URL", &simulator.origin())
        .set("AZURE_OPENAI_API_VERSION", "2025-04-01-preview")
        .set("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "o3=x, gpt-5.4=mine");
    stage
        .pi(&["--provider", "azure-openai-responses", "-p", "go"])
        .is(0, "ok\n", "");
    approve(simulator);
}
