//! Flags: what they change, and the texts of what is refused.

use fluzo_sim::{Reply, Simulator};
use serde_json::json;

use crate::support::*;

/// A run with one answer `ok`.
fn ok(arguments: &[&str]) -> (Simulator, Stage, Ran) {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&[arguments, &["-p", "hi"]].concat());
    (simulator, stage, ran)
}

#[test]
fn tools_on_offer() {
    let rows: [(&[&str], &[&str], &str); 6] = [
        (&["--tools", "read,grep"], &["read", "grep"], ""),
        (&["-t", "ls"], &["ls"], ""),
        (&["--exclude-tools", "bash,write"], &["read", "edit"], ""),
        (&["-t", "read,bash", "-xt", "bash"], &["read"], ""),
        (&["--no-tools"], &[], ""),
        (&["-nt", "--tools", "find"], &["find"], ""),
    ];
    for (arguments, names, err) in rows {
        let (simulator, _stage, ran) = ok(arguments);
        ran.is(0, "ok\n", err);
        assert_eq!(tools(&simulator, 0), names, "{arguments:?}");
        if names.is_empty() {
            assert!(simulator.requests()[0].body.get("tools").is_none());
        }
        approve(simulator);
    }
}

#[test]
fn a_tool_that_does_not_exist_is_named() {
    let (simulator, _stage, ran) = ok(&["--tools", "read,fly"]);
    ran.is(0, "ok\n", "Warning: unknown tool \"fly\"\n");
    assert_eq!(tools(&simulator, 0), ["read"]);
    approve(simulator);
}

#[test]
fn the_system_prompt_as_text_and_as_a_file() {
    let simulator = simulator(scenario().step(Reply::text("ok")).step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage.write("project/prompt.md", "FROM A FILE");
    let more = stage.write("more.md", "MORE");
    let text = &["--system-prompt", "CUSTOM", "-p", "hi"];
    stage.pi(text).is(0, "ok\n", "");
    let file = [
        "--system-prompt",
        "prompt.md",
        "--append-system-prompt",
        "FIRST",
        "--append-system-prompt",
        more.to_str().unwrap(),
        "-p",
        "hi",
    ];
    stage.pi(&file).is(0, "ok\n", "");
    let project = stage.project();
    for (request, beginning) in [(0, "CUSTOM"), (1, "FROM A FILE\n\nFIRST\n\nMORE")] {
        let prompt = system(&simulator, request);
        assert!(
            prompt.starts_with(&format!("{beginning}\nCurrent date: ")),
            "{prompt}"
        );
        let last = format!("\nCurrent working directory: {}", project.display());
        assert!(prompt.ends_with(&last), "{prompt}");
    }
    approve(simulator);
}

#[test]
fn the_printed_system_prompt_is_the_one_that_is_sent() {
    let (simulator, stage, _) = ok(&[]);
    let printed = stage.pi(&["--print-system-prompt"]);
    assert_eq!(printed.code(), 0);
    assert_eq!(printed.out(), system(&simulator, 0) + "\n");
    assert_eq!(stage.sessions().len(), 1, "printing leaves no session");
    approve(simulator);
}

#[test]
fn the_workspace_is_the_folder_of_session_and_tools() {
    let script = scenario()
        .step(Reply::calls([bash("c1", "pwd; cat here.txt")]))
        .step(Reply::text("ok"));
    let simulator = simulator(script);
    let stage = Stage::with_fake(&simulator);
    stage.write("elsewhere/here.txt", "content of here");
    let folder = stage.path("elsewhere");
    let arguments = ["--workspace", "../elsewhere", "-p", "@here.txt", "hi"];
    stage.pi(&arguments).is(0, "ok\n", "");
    let header = &entries(&stage.session())[0];
    assert_eq!(header["cwd"], folder.to_str().unwrap());
    let request = simulator.requests()[1].body.to_string();
    assert!(
        request.contains(&format!("{}\\ncontent of here", folder.display())),
        "{request}"
    );
    assert!(system(&simulator, 0).ends_with(folder.to_str().unwrap()));
    let missing = stage.pi(&["--workspace", "nowhere", "-p", "x"]);
    assert_eq!(missing.code(), 1);
    assert!(
        missing.err().starts_with("Error: no such folder: `"),
        "{}",
        missing.err()
    );
    approve(simulator);
}

#[test]
fn a_prompt_flag_is_a_message_whatever_it_begins_with() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage.pi(&["-p", "--prompt", "-x @y --z"]).is(0, "ok\n", "");
    assert_eq!(users(&simulator, 0), [text_block("-x @y --z")]);
    approve(simulator);
}

#[test]
fn flags_that_are_refused() {
    let listener = fluzo_sim::Listener::poisoned().unwrap();
    let stage = Stage::new();
    stage.models(&json!({"providers": {"fake": fake(&listener.base_url())}}));
    let use_list = "Use --list-models to see available";
    let there_are = fluzo_catalogue::HOSTS.iter().map(|host| host.id);
    let there_are = there_are.collect::<Vec<_>>().join(", ");
    let rows: [(&[&str], String); 15] = [
        (&["-z"], "Error: Unknown option: -z\n".into()),
        (&["--nope", "v"], "Error: Unknown option: --nope\n".into()),
        (&["--a", "--b"], "Error: Unknown options: --a, --b\n".into()),
        (
            &["--model=m1"],
            "Error: Unknown option: --model\nhint: write `--model m1`\n".into(),
        ),
        (
            &["-p", "hi", "--model"],
            "Error: Unknown option: --model\nhint: `--model` needs a value\n".into(),
        ),
        (
            &["--seesion", "x"],
            "Error: Unknown option: --seesion\nhint: did you mean `--session`?\n".into(),
        ),
        (
            &["--export", "nosuchfile"],
            format!("Error: File not found: {}\n", stage.path("project/nosuchfile").display()),
        ),
        (
            &["--tools", "fly", "-p", "hi"],
            "Error: no such tools: fly\nhint: the tools are read, bash, edit, write, grep, find, ls; `--no-tools` runs without\n".into(),
        ),
        (
            &["--session", "doesnotexist"],
            "No session found matching 'doesnotexist'\n".into(),
        ),
        (
            &["--provider", "nosuch"],
            format!("Error: Unknown provider \"nosuch\". {use_list} providers/models.\nhint: there are {there_are}, fake\n"),
        ),
        (
            &["--provider", "opnai", "--model", "m1"],
            format!("Error: Unknown provider \"opnai\". {use_list} providers/models.\nhint: did you mean \"openai\"? there are {there_are}, fake\n"),
        ),
        (
            &["--provider", "openai-codex"],
            "Error: the provider `openai-codex` is not supported: it needs the sign-in of another vendor's client; use the provider `openai` with OPENAI_API_KEY\n".into(),
        ),
        (
            &["--model", "nosuch"],
            format!("Error: Model \"nosuch\" not found. {use_list} models.\n"),
        ),
        (
            &["--api-key", "sk-x"],
            "Error: --api-key requires a model to be specified via --model, --provider/--model, or --models\n".into(),
        ),
        (
            &["--continue", "--no-session"],
            "Error: --continue cannot be combined with --no-session\n".into(),
        ),
    ];
    for (arguments, err) in rows {
        let ran = stage.pi(&[&["-p", "hi"], arguments].concat());
        ran.is(1, "", &err);
    }
    assert!(stage.sessions().is_empty());
    assert!(listener.finish().unwrap().is_empty());
}

#[test]
fn a_provider_may_be_named_in_any_case() {
    let (simulator, _stage, ran) = ok(&["--provider", "FAKE"]);
    ran.is(0, "ok\n", "");
    approve(simulator);
}

/// The shell that starts the program removes the folder it stands in.
#[test]
fn without_a_working_folder_one_must_be_named() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let start = |more: &[&str]| {
        let gone = stage.path("gone");
        std::fs::create_dir(&gone).unwrap();
        let mut arguments = vec!["-c", "rmdir ../gone; exec \"$0\" \"$@\""];
        arguments.extend([env!("CARGO_BIN_EXE_fluzo"), "pi", "-p", "hi"]);
        arguments.extend(more);
        let mut command = stage.command_of(std::path::Path::new("sh"), &arguments);
        Ran(command.current_dir(gone).output().unwrap())
    };
    let ran = start(&[]);
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    let text = "Error: the working folder cannot be used: ";
    assert!(ran.err().starts_with(text), "{}", ran.err());
    assert!(ran.err().contains("--workspace FOLDER"), "{}", ran.err());
    let project = stage.project();
    start(&["--workspace", project.to_str().unwrap()]).is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn a_thinking_level_that_does_not_exist_is_a_warning() {
    let (simulator, _stage, ran) = ok(&["--thinking", "huge"]);
    let levels = "off, minimal, low, medium, high, xhigh";
    let warning = format!("Warning: Invalid thinking level \"huge\". Valid values: {levels}\n");
    ran.is(0, "ok\n", &warning);
    approve(simulator);
}

#[test]
fn a_model_id_that_is_not_known_is_used_at_a_provider_that_is() {
    let simulator = simulator(scenario().model("zzz").step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let warning =
        "Warning: Model \"zzz\" not found for provider \"fake\". Using custom model id.\n";
    stage
        .pi(&["--model", "fake/zzz", "-p", "hi"])
        .is(0, "ok\n", warning);
    assert_eq!(simulator.requests()[0].body["model"], "zzz");
    approve(simulator);
}

#[test]
fn models_are_listed_on_standard_output() {
    let stage = Stage::new();
    stage.models(&json!({"providers": {"fake": fake("http://127.0.0.1:1/v1")}}));
    let list = "provider  model  context  max-out  thinking  images\n\
                fake      eyes   128K     16.4K    no        yes   \n\
                fake      m1     100K     4.1K     no        no    \n";
    stage.pi(&["--list-models", "fake/"]).is(0, list, "");
    stage
        .pi(&["--list-models", "zzzz"])
        .is(0, "No models matching \"zzzz\"\n", "");
    // In order, not side by side.
    stage.pi(&["--list-models", "fkm1"]).is(
        0,
        "provider  model  context  max-out  thinking  images\n\
         fake      m1     100K     4.1K     no        no    \n",
        "",
    );
    stage.pi(&["--list-models"]).is(0, list, "");
    // Models of a known provider are listed once it has a key.
    let stage = stage.set("GROQ_API_KEY", "k");
    let all = stage.pi(&["--list-models", "gpt oss 120"]).out();
    assert!(all.contains("\ngroq      openai/gpt-oss-120b  "), "{all}");
    assert!(!all.contains("openrouter"), "{all}");
}

#[test]
fn without_any_key_no_models_are_listed() {
    let stage = Stage::new();
    let ran = stage.pi(&["--list-models"]);
    let hint = "; `fluzo help` lists the variables\n";
    assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
    assert!(
        ran.out()
            .starts_with("No models available.\nhint: set the key of a provider"),
        "{}",
        ran.out()
    );
    assert!(ran.out().ends_with(hint), "{}", ran.out());
}

#[test]
fn version_and_help_are_on_standard_output() {
    let stage = Stage::new();
    let version = format!("{}\n", env!("CARGO_PKG_VERSION"));
    stage.pi(&["--version"]).is(0, &version, "");
    stage.pi(&["-v"]).is(0, &version, "");
    stage
        .fluzo(&["--version"])
        .is(0, &format!("fluzo {version}"), "");
    for arguments in [&["pi", "--help"][..], &["pi", "-h"], &["--help"]] {
        let ran = stage.fluzo(arguments);
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out().contains("Usage:"), "{}", ran.out());
    }
    let help = stage.pi(&["--help"]).out();
    for flag in ["--print", "-p", "--session", "--no-session", "-xt", "-nt"] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}

#[test]
fn completions_and_the_man_page_are_printed() {
    let stage = Stage::new();
    for arguments in [
        &["completions", "bash"][..],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["man"],
    ] {
        let ran = stage.fluzo(arguments);
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{arguments:?}");
        assert!(ran.out().contains("session"), "{arguments:?}");
    }
    for arguments in [&["completions", "tcsh"][..], &["completions"]] {
        let ran = stage.fluzo(arguments);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""));
        let shells = "bash, elvish, fish, powershell, zsh\n";
        assert!(ran.err().ends_with(shells), "{}", ran.err());
    }
}

#[test]
fn flags_that_switch_off_what_is_not_there_change_nothing() {
    let flags = ["--offline", "-ne", "--verbose"];
    let (simulator, _stage, ran) = ok(&flags);
    ran.is(0, "ok\n", "");
    approve(simulator);
}

#[test]
fn a_mode_that_does_not_exist_runs_as_text_with_a_warning() {
    let (simulator, _stage, ran) = ok(&["--mode", "xml"]);
    let warning = "Warning: unknown mode \"xml\" was passed over: text, json or rpc\n";
    ran.is(0, "ok\n", warning);
    approve(simulator);
}

#[test]
fn each_command_has_help() {
    let stage = Stage::new();
    for command in ["pi", "demo", "run", "serve", "completions", "man"] {
        let usage = format!("Usage: fluzo {command}");
        let named = stage.fluzo(&["help", command]);
        let asked = stage.fluzo(&[command, "--help"]);
        for ran in [&named, &asked] {
            assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{command}");
            assert!(ran.out().contains(&usage), "{}", ran.out());
        }
    }
    let ran = stage.fluzo(&["help", "nothing"]);
    assert_eq!((ran.code(), ran.out().as_str()), (2, ""));
}

/// A full device is a failure; a reader that is gone is none.
#[test]
fn output_that_cannot_be_written() {
    let stage = Stage::new();
    let rows: [&[&str]; 7] = [
        &["--help"],
        &["demo", "bugfix", "--help"],
        &["pi", "--help"],
        &["--version"],
        &["man"],
        &["completions", "bash"],
        &["pi", "--list-models"],
    ];
    for arguments in rows {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_fluzo"));
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = stage.command_of(program, arguments);
        let ran = Ran(command.stdout(full.unwrap()).output().unwrap());
        assert_eq!(ran.code(), 1, "{arguments:?}");
        let text = "error: standard output cannot be written: ";
        assert!(ran.err().starts_with(text), "{}", ran.err());

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = stage.command_of(program, arguments);
        let ran = Ran(command.stdout(writer).output().unwrap());
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{arguments:?}");
    }
}
