//! Which profile runs, and what it reads: models, keys, settings.

use std::path::Path;

use fluzo_sim::{HeaderCheck, Listener, Reply, RequestExpectation, Step};
use serde_json::json;

use crate::support::*;

#[test]
fn governed_commands_refuse_and_say_why() {
    let stage = Stage::new();
    for command in ["run", "serve"] {
        let ran = stage.fluzo(&[command, "do it"]);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""));
        let text =
            format!("error: `fluzo {command}` is not available in this version: permissions,");
        assert!(ran.err().starts_with(&text), "{}", ran.err());
        assert!(ran.err().contains("\nhint: "), "{}", ran.err());
    }
    assert!(stage.sessions().is_empty());
}

#[test]
fn commands_that_do_not_exist() {
    let stage = Stage::new();
    let rows: [(&[&str], &str); 9] = [
        (
            &["-p", "hi"],
            "`-p` is for `fluzo pi`\nhint: `fluzo pi -p \"MESSAGE\"`",
        ),
        (&["--print", "hi"], "hint: `fluzo pi -p \"MESSAGE\"`"),
        (&["@file"], "hint: `fluzo pi -p \"MESSAGE\"`"),
        (&["fix the bug"], "hint: `fluzo pi -p \"MESSAGE\"`"),
        (&["--frobnicate"], "unknown option `--frobnicate`\nhint: "),
        (&[], "the terminal interface is not part of this version"),
        (
            &["frobnicate"],
            "unknown command `frobnicate`\nhint: `fluzo --help`",
        ),
        (&["completion"], "did you mean `fluzo completions`?"),
        (&["dmeo"], "did you mean `fluzo demo`?"),
    ];
    for (arguments, text) in rows {
        let ran = stage.fluzo(arguments);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""));
        assert!(
            ran.err().starts_with("error: ") && ran.err().contains(text),
            "{}",
            ran.err()
        );
    }
}

/// As its first argument pi reads these words as subcommands; no model gets to see them.
#[test]
fn subcommands_of_pi_are_refused_and_are_no_prompts() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    for word in ["config", "auth", "mcp"] {
        let ran = stage.pi(&[word, "thing"]);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{word}");
        let text = format!("error: `pi {word}` is not available in this version\nhint: ");
        assert!(ran.err().starts_with(&text), "{}", ran.err());
    }
    assert!(stage.sessions().is_empty());
    stage.pi(&["-p", "install"]).is(0, "ok\n", "");
    assert_eq!(users(&simulator, 0), [text_block("install")]);
    approve(simulator);
}

#[test]
fn called_as_pi_it_is_fluzo_pi() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let pi = stage.path("pi");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fluzo"), &pi).unwrap();
    let run = |arguments: &[&str]| Ran(stage.command_of(&pi, arguments).output().unwrap());
    run(&["-p", "hi"]).is(0, "ok\n", "");
    run(&["--version"]).is(0, &format!("{}\n", env!("CARGO_PKG_VERSION")), "");
    assert_eq!(run(&["config"]).code(), 2);
    approve(simulator);
}

/// Files and variables that would choose something else, were they read.
#[test]
fn the_open_profile_reads_no_governed_file() {
    let poison = Listener::poisoned().unwrap();
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator)
        .set("OPENAI_BASE_URL", &poison.base_url())
        .set("HTTP_PROXY", &format!("http://{}", poison.address()))
        .set("http_proxy", &format!("http://{}", poison.address()));
    let toml = format!(
        "schema_version = 1\n[provider]\nendpoint = \"{}\"\n",
        poison.base_url()
    );
    stage.write("project/.fluzo", &toml);
    stage.write("home/.config/fluzo/auth.toml", &toml);
    stage.write("home/.config/fluzo/config.toml", &toml);
    stage.write(
        "project/.env",
        "OPENAI_API_KEY=leak\nPI_CODING_AGENT_DIR=/nowhere\n",
    );
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    assert!(poison.finish().unwrap().is_empty());
    approve(simulator);
}

/// The profile is a matter of the command's name: nothing else turns a governed command
/// into an open one, or the other way round.
#[test]
fn no_file_and_no_variable_chooses_the_profile() {
    let stage = Stage::new()
        .set("FLUZO_PROFILE", "open")
        .set("PI_PROFILE", "open")
        .set("PI_CODING_AGENT", "true");
    stage.settings(&json!({"profile": "open"}));
    stage.write("project/.fluzo", "profile = \"open\"\n");
    stage.write("project/.pi/settings.json", r#"{"profile": "open"}"#);
    assert_eq!(stage.fluzo(&["run", "x"]).code(), 2);
    assert_eq!(stage.fluzo(&[]).code(), 2);
}

#[test]
fn keys_and_headers_may_come_from_the_environment() {
    let expect = RequestExpectation {
        headers: [
            (
                "authorization".to_owned(),
                HeaderCheck::Equals("Bearer from-env".into()),
            ),
            ("x-literal".to_owned(), HeaderCheck::Equals("LIT".into())),
            (
                "x-variable".to_owned(),
                HeaderCheck::Equals("from-env".into()),
            ),
            ("x-model".to_owned(), HeaderCheck::Equals("from-env".into())),
        ]
        .into(),
        ..RequestExpectation::default()
    };
    let simulator = simulator(scenario().step(Step::new(Reply::text("ok")).expecting(expect)));
    let stage = Stage::new().set("MY_KEY", "from-env");
    stage.models(&json!({"providers": {"mine": {
        "baseUrl": simulator.base_url(), "api": "openai-completions", "apiKey": "$MY_KEY",
        "headers": {"X-Literal": "LIT", "X-Variable": "${MY_KEY}"},
        "models": [{"id": "m1", "headers": {"X-Model": "$MY_KEY"}}],
    }}}));
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn the_usual_key_is_used_where_the_known_provider_was_moved() {
    let auth = |key: &str| RequestExpectation {
        headers: [(
            "authorization".to_owned(),
            HeaderCheck::Equals(format!("Bearer {key}")),
        )]
        .into(),
        ..RequestExpectation::default()
    };
    let script = scenario()
        .model("openai/gpt-oss-120b")
        .step(Step::new(Reply::text("ok")).expecting(auth("sk-usual")))
        .step(Step::new(Reply::text("ok")).expecting(auth("sk-flag")));
    let simulator = simulator(script);
    let stage = Stage::new().set("GROQ_API_KEY", "sk-usual");
    stage.models(&json!({"providers": {"groq": {"baseUrl": simulator.base_url()}}}));
    stage
        .pi(&["--model", "openai/gpt-oss-120b", "-p", "hi"])
        .is(0, "ok\n", "");
    let flag = [
        "--api-key",
        "sk-flag",
        "--model",
        "groq/openai/gpt-oss-120b",
        "-p",
        "hi",
    ];
    stage.pi(&flag).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn without_a_key_the_prompt_is_refused_and_nothing_is_stored() {
    let rows = [
        (
            json!({}),
            "No models available.\nhint: ",
            "`export OPENAI_API_KEY=KEY`",
        ),
        (
            json!({"mine": {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions", "apiKey": "$NOT_SET", "models": [{"id": "m1"}]}}),
            "environment variable `NOT_SET` is not set",
            "hint: ",
        ),
    ];
    for (providers, problem, hint) in rows {
        let stage = Stage::new();
        stage.models(&json!({ "providers": providers }));
        let ran = stage.pi(&["-p", "hi"]);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
        assert!(
            ran.err().contains(problem) && ran.err().contains(hint),
            "{}",
            ran.err()
        );
        assert!(stage.sessions().is_empty());
    }
}

#[test]
fn a_schema_error_of_models_json_names_line_and_key() {
    let stage = Stage::new();
    let text = "{\"providers\": {\"fake\": {\n  \"baseUrl\": 1,\n  \"models\": [\n    {\"name\": \"x\"}]}}}";
    stage.write("agent/models.json", text);
    let ran = stage.pi(&["-p", "hi"]);
    let file = stage.path("agent/models.json");
    let expected = format!(
        "Warning: errors loading models.json:\n\
         Invalid models.json schema:\n  \
           - providers.fake.baseUrl: must be string\n  \
           - providers.fake.models.0.id: must have required properties id\n\
         \n\
         File: {}\n\
         Lines: 2, 4\n\
         Error: No models available.\n",
        file.display()
    );
    assert!(ran.err().starts_with(&expected), "{}", ran.err());
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
}

#[test]
fn what_is_broken_in_models_json_is_named_and_the_rest_is_used() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::new();
    let bad = json!({"baseUrl": 5, "models": [{"id": "x"}]});
    stage.models(&json!({"providers": {"bad": bad, "fake": fake(&simulator.base_url())}}));
    let ran = stage.pi(&["-p", "hi"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ok\n"));
    let err = ran.err();
    assert!(
        err.starts_with(
            "Warning: errors loading models.json:\nInvalid models.json schema:\n  - providers.bad"
        ),
        "{err}"
    );
    let file = format!("\n\nFile: {}\n", stage.path("agent/models.json").display());
    assert!(err.ends_with(&format!("{file}Line: 1\n")), "{err}");
    stage.write("agent/models.json", "{ broken");
    let ran = stage.pi(&["--list-models"]);
    assert_eq!(ran.code(), 0);
    let problem = "Warning: errors loading models.json:\nFailed to parse models.json: ";
    assert!(ran.err().starts_with(problem), "{}", ran.err());
    assert!(ran.err().contains(" at line 1 column 3"), "{}", ran.err());
    assert!(ran.err().ends_with(&file), "{}", ran.err());
    approve(simulator);
}

#[test]
fn broken_settings_are_passed_over_with_a_warning_and_left_as_they_are() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let file = stage.write("agent/settings.json", "{ broken");
    let ran = stage.pi(&["-p", "hi"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ok\n"));
    assert!(
        ran.err().contains("settings.json` is not valid JSON"),
        "{}",
        ran.err()
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "{ broken");
    approve(simulator);
}

/// A project that was merely cloned chooses no shell, no folder and no model.
#[test]
fn the_settings_of_a_project_count_only_when_it_is_trusted() {
    let always = json!({"defaultProjectTrust": "always"});
    let rows: [(_, &[&str], _); 4] = [
        (json!({}), &[], "m1"),
        (json!({"defaultProjectTrust": "never"}), &[], "m1"),
        (json!({}), &["--approve"], "eyes"),
        (always, &[], "eyes"),
    ];
    for (settings, arguments, model) in rows {
        let simulator = simulator(scenario().step(Reply::text("ok")));
        let stage = Stage::with_fake(&simulator);
        stage.settings(&settings);
        let project = json!({"defaultModel": "eyes", "defaultProjectTrust": "always"});
        stage.write("project/.pi/settings.json", project.to_string());
        let err = if model == "m1" {
            format!(
                "Warning: `{}` was passed over: this project is not trusted (--approve trusts it for one run)\n",
                stage.path("project/.pi").display()
            )
        } else {
            "Warning: setting `defaultProjectTrust` in the project settings was passed over: only the user's own settings choose it\n".to_owned()
        };
        stage
            .pi(&[arguments, &["-p", "hi"]].concat())
            .is(0, "ok\n", &err);
        assert_eq!(simulator.requests()[0].body["model"], model, "{settings}");
        approve(simulator);
    }
}

#[test]
fn the_model_of_new_sessions() {
    let rows = [
        (json!({}), "m1"),
        (json!({"defaultModel": "eyes"}), "eyes"),
        (
            json!({"defaultProvider": "fake", "defaultModel": "eyes"}),
            "eyes",
        ),
        (json!({"defaultProvider": "fake"}), "m1"),
    ];
    for (settings, model) in rows {
        let simulator = simulator(scenario().step(Reply::text("ok")));
        let stage = Stage::with_fake(&simulator);
        stage.settings(&settings);
        stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
        assert_eq!(simulator.requests()[0].body["model"], model, "{settings}");
        approve(simulator);
    }
}

/// All that a run writes is below the agent folder.
#[test]
fn a_run_writes_nothing_outside_the_agent_folder() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "hi"]).is(0, "ok\n", "");
    for name in ["home", "project", "tmp"] {
        assert!(is_empty(&stage.path(name)), "{name}");
    }
    approve(simulator);
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// An old form of `models.json`; the file stays as it is.
#[test]
fn a_bare_name_is_read_as_the_variable_if_there_is_one() {
    let equals = |name: &str, value: &str| (name.to_owned(), HeaderCheck::Equals(value.into()));
    let expect = RequestExpectation {
        headers: [
            equals("authorization", "Bearer from-env"),
            equals("x-a", "from-env"),
            equals("x-b", "NO_SUCH"),
        ]
        .into(),
        ..RequestExpectation::default()
    };
    let simulator = simulator(scenario().step(Step::new(Reply::text("ok")).expecting(expect)));
    let stage = Stage::new().set("MY_TOKEN", "from-env");
    let mut provider = fake(&simulator.base_url());
    provider["apiKey"] = json!("MY_TOKEN");
    provider["headers"] = json!({"X-A": "MY_TOKEN", "X-B": "NO_SUCH"});
    let file = json!({"providers": {"fake": provider}});
    stage.models(&file);
    let warning = "Warning: bare names in models.json are read as environment variables; write `$MY_TOKEN` instead\n";
    stage.pi(&["-p", "hi"]).is(0, "ok\n", warning);
    let kept = std::fs::read_to_string(stage.path("agent/models.json")).unwrap();
    assert_eq!(kept, file.to_string());
    approve(simulator);
}

/// Whoever waits for a pipe that nobody writes to waits for ever.
#[test]
fn settings_and_models_that_are_pipes_are_passed_over() {
    let stage = Stage::new();
    for name in ["settings.json", "models.json"] {
        let path = stage.write(&format!("agent/{name}"), "");
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let ran = stage.pi(&["--list-models"]);
        let text = format!(
            "`{}` was passed over: it is no regular file",
            path.display()
        );
        assert!(ran.err().contains(&text), "{}", ran.err());
        std::fs::remove_file(&path).unwrap();
    }
}
