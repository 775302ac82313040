//! `fluzo pi discover`: asks a server for its models, because the user says so.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use clap::{Arg, ArgAction, Command};
use fluzo_catalogue::Host;
use fluzo_host::ModelRegistry;
use fluzo_llm::model::without_secrets;
use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, RequestAuth};
use fluzo_providers::{
    CallLimits, Discovery, DiscoveryError, ModelList, ModelServer, Probe, Resolver,
};
use fluzo_stdx::sanitize::terminal_text;
use fluzo_stdx::similar;
use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::agent_folder::AgentFolder;
use crate::arguments::Typed;
use crate::surroundings::Surroundings;
use crate::{network, open_profile, output, pi};

const FAILURE: i32 = 1;

/// `fluzo pi discover` as clap sees it.
pub(crate) fn command() -> Command {
    Command::new("discover")
        .about("Ask a server for its models; nothing is sent to a model")
        .arg(
            Arg::new("endpoint")
                .value_name("PROVIDER|URL")
                .required(true)
                .help("A provider of models.json or a built-in one such as ollama, or a base URL"),
        )
        .arg(
            Arg::new("accept-cleartext")
                .long("accept-cleartext")
                .action(ArgAction::SetTrue)
                .help(
                    "Go on although what is sent can be read on the way; holds for this run only",
                ),
        )
}

/// Runs it with the arguments after `discover`; returns the exit code.
pub(crate) fn run(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    let all = ["fluzo pi discover".to_owned()]
        .into_iter()
        .chain(arguments.iter().cloned());
    let matches = match command()
        .bin_name("fluzo pi discover")
        .try_get_matches_from(all)
    {
        Ok(matches) => matches,
        Err(error) if error.use_stderr() => {
            eprint!("{error}");
            return FAILURE;
        }
        Err(help) => return output::write(help.to_string().as_bytes()),
    };
    let asked = matches.get_one::<String>("endpoint").map(String::as_str);
    let accepted = matches.get_flag("accept-cleartext");
    match discover(surroundings, asked.unwrap_or_default(), accepted) {
        Ok(text) => output::write(text.as_bytes()),
        Err(text) => {
            eprintln!("error: {}", terminal_text(&text));
            FAILURE
        }
    }
}

fn discover(surroundings: &Surroundings, asked: &str, accepted: bool) -> Result<String, String> {
    let workspace = surroundings.cwd.clone().unwrap_or_default();
    let folder = AgentFolder::read(surroundings, &workspace);
    let models = ModelRegistry::new(folder.models_json.as_deref());
    pi::warn(pi::problems(&models, &folder.path.join("models.json")).iter());
    let http = network::client(surroundings, &folder.settings);
    let renewals = Arc::default();
    let access = Access::new(surroundings, &folder, &[], Arc::clone(&http), &renewals)?;
    let discovery = Discovery::new(
        Arc::clone(&http),
        Arc::new(SystemNames),
        network::call_limits(&folder.settings, CallLimits::discovery()),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let found = runtime.block_on(async {
        let server = server(&access, &models, asked).await?;
        let list = ask(&discovery, &server.endpoint, accepted).await?;
        Ok((server, list))
    });
    runtime.block_on(renewals.settle());
    // A name that is still being looked up must not hold the exit.
    runtime.shutdown_background();
    found.map(|(server, list)| shown(&server, &list))
}

/// A server and what models.json calls it.
struct Server {
    provider: String,
    endpoint: ModelServer,
    /// How models.json refers to its key.
    key: String,
}

/// What the words of the user mean.
async fn server(access: &Access, models: &ModelRegistry, asked: &str) -> Result<Server, String> {
    if asked.contains("://") {
        return Ok(Server {
            provider: "local".to_owned(),
            endpoint: ModelServer {
                base_url: asked.to_owned(),
                api: fluzo_catalogue::dialect::COMPLETIONS.to_owned(),
                auth: RequestAuth::default(),
            },
            key: "none".to_owned(),
        });
    }
    let host = fluzo_catalogue::host(asked);
    let all = models.models();
    let configured = all.iter().find(|model| model.provider == asked);
    let model = match (configured, host) {
        (Some(model), _) => Model::clone(model),
        (None, Some(host)) => model_of(host),
        (None, None) => return Err(unknown(models, asked)),
    };
    let keys = open_profile::keys(access, models, &Typed::default(), None);
    let optional = host.is_some_and(|host| !host.needs_key);
    let auth = match keys.resolve(&model).await {
        Err(CredentialError::Missing { .. }) if optional => RequestAuth::default(),
        resolved => resolved.map_err(|error| error.to_string())?,
    };
    let variable = host.and_then(|host| host.keys.first());
    Ok(Server {
        provider: asked.to_owned(),
        endpoint: ModelServer {
            base_url: auth.base_url.clone().unwrap_or(model.base_url),
            api: model.api,
            auth,
        },
        key: variable.map_or_else(|| "none".to_owned(), |name| format!("${name}")),
    })
}

fn model_of(host: &Host) -> Model {
    Model {
        id: String::new(),
        name: String::new(),
        api: host.api().to_owned(),
        provider: host.id.to_owned(),
        base_url: host.base_url().to_owned(),
        reasoning: false,
        input: Vec::new(),
        cost: fluzo_llm::model::Prices::default(),
        context_window: 0,
        max_tokens: 0,
        headers: host.header_map(),
        thinking_level_map: BTreeMap::new(),
        compat: fluzo_llm::Extra::new(),
    }
}

fn unknown(models: &ModelRegistry, asked: &str) -> String {
    let all = models.models();
    let mut known: Vec<&str> = all.iter().map(|model| model.provider.as_str()).collect();
    known.extend(fluzo_catalogue::HOSTS.iter().map(|host| host.id));
    known.sort_unstable();
    known.dedup();
    let hint = match similar::close(asked, known.iter().copied()).as_slice() {
        [] => format!("known are {}, or give a base URL", known.join(", ")),
        names => format!("did you mean `{}`?", names.join("`, `")),
    };
    // What is no name may be an address with a password.
    if asked.contains(['@', '?', '/']) {
        return format!("this is neither a provider nor an http or https address\nhint: {hint}");
    }
    format!("unknown provider `{asked}`\nhint: {hint}")
}

/// Tells where the endpoint leads, then asks it.
async fn ask(
    discovery: &Discovery,
    endpoint: &ModelServer,
    accepted: bool,
) -> Result<ModelList, String> {
    let probe = discovery.probe(endpoint).await.map_err(explained)?;
    eprintln!("{}", terminal_text(&told(&probe)));
    if probe.is_exposed() && !accepted {
        return Err(format!(
            "`{}` is reached without encryption: what is sent can be read and changed on the way, and nothing was sent\n\
             hint: use an https address, or say `--accept-cleartext` for this one run",
            probe.origin
        ));
    }
    discovery.list(endpoint, &probe).await.map_err(explained)
}

fn told(probe: &Probe) -> String {
    let transport = if probe.cleartext {
        "not encrypted"
    } else {
        "encrypted"
    };
    let key = if probe.authorized {
        "with your credentials"
    } else {
        "without credentials"
    };
    format!("{}: {}, {transport}, {key}", probe.origin, probe.reach)
}

/// The error with what to do next.
fn explained(error: DiscoveryError) -> String {
    let hint = match &error {
        DiscoveryError::Address => "give an address such as http://localhost:11434/v1",
        DiscoveryError::Unresolved { .. } => "check the name, or give the address itself",
        DiscoveryError::Changed { .. } => "run the command again to see where it leads now",
        DiscoveryError::Refused {
            status: 401 | 403, ..
        } => "the server wants a key: set it as for a request to a model",
        DiscoveryError::Refused { .. } | DiscoveryError::NoList { .. } => {
            "check the base URL; it often ends in /v1"
        }
        DiscoveryError::Request(error) if error.redirect.is_some() => {
            "if the new address is right, configure it"
        }
        DiscoveryError::Request(_) => "check that the server is running and can be reached",
    };
    let details = match &error {
        DiscoveryError::Request(error) => error.redirect.as_ref().map(|r| r.summary()),
        _ => None,
    };
    let details = details.map(|text| format!("\n{text}")).unwrap_or_default();
    format!("{error}{details}\nhint: {hint}")
}

fn shown(server: &Server, list: &ModelList) -> String {
    let width = list.models.iter().map(|model| model.id.chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = String::new();
    for model in &list.models {
        let context = model.context.map(|n| n.to_string()).unwrap_or_default();
        let name = model.name.as_deref().unwrap_or_default();
        let line = format!("{:width$}  {context:>9}  {name}", model.id);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if list.models.is_empty() {
        text.push_str("The server has no models.\n");
        return text;
    }
    if list.truncated {
        text.push_str("The server has more; these are the first.\n");
    }
    text.push_str("\nFor models.json:\n");
    text.push_str(&snippet(server, list));
    text.push('\n');
    text
}

/// What makes the models known to `fluzo pi`.
fn snippet(server: &Server, list: &ModelList) -> String {
    let models = list.models.iter().map(|model| {
        let mut row = Map::new();
        row.insert("id".into(), model.id.as_str().into());
        if let Some(name) = &model.name {
            row.insert("name".into(), name.as_str().into());
        }
        if let Some(context) = model.context {
            row.insert("contextWindow".into(), context.into());
        }
        Value::Object(row)
    });
    let provider = json!({
        "baseUrl": without_secrets(&server.endpoint.base_url),
        "api": server.endpoint.api,
        "apiKey": server.key,
        "models": models.collect::<Vec<_>>(),
    });
    let file = json!({"providers": {server.provider.as_str(): provider}});
    serde_json::to_string_pretty(&file).unwrap_or_default()
}

/// Names as the system knows them.
struct SystemNames;

impl Resolver for SystemNames {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await;
            let found = found.map_err(|error| error.to_string())?;
            let mut addresses: Vec<IpAddr> = found.map(|socket| socket.ip()).collect();
            addresses.dedup();
            Ok(addresses)
        })
    }
}
