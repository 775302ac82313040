//! Where keys, headers and endpoints come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluzo_credentials::{KeyRing, SecretValue};
use fluzo_llm::RequestAuth;
use serde_json::json;

use crate::support::{
    MemoryFile, Outputs, Variables, environment, key, keys, known, model, resolve, still,
};

const NOTHING: Variables = &[];

fn ring(variables: Variables, auth_json: &str, configured: &[(&str, &str)]) -> KeyRing {
    KeyRing::new(environment(variables), keys(configured), BTreeMap::new())
        .with_sign_ins(still(&MemoryFile::new(auth_json)))
}

#[track_caller]
fn check(ring: &KeyRing, provider: &str, expected: Result<&str, &str>) {
    match (resolve(ring, &known(provider)), expected) {
        (Ok(auth), Ok(text)) => assert_eq!(key(&auth).as_deref(), Some(text)),
        (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
        (got, expected) => panic!("{got:?} {expected:?}"),
    }
}

#[test]
fn the_first_place_with_a_key_wins() {
    let variables: Variables = &[("OPENAI_API_KEY", "env")];
    let stored = r#"{"openai": {"type": "api_key", "key": "stored"}}"#;
    let sign_in = r#"{"openai": {"type": "oauth", "access": "signed", "refresh": "r",
        "expires": 9999, "clientId": "mine", "tokenUrl": "https://a.example/t"}}"#;
    let file = &[("openai", "file")];
    let flag = ring(variables, stored, file).with_key("openai", "flag");
    check(&flag, "openai", Ok("flag"));
    check(&ring(variables, stored, file), "openai", Ok("stored"));
    check(&ring(variables, sign_in, file), "openai", Ok("signed"));
    check(&ring(variables, "{}", file), "openai", Ok("env"));
    check(&ring(NOTHING, "", file), "openai", Ok("file"));
    // A key for one provider says nothing of another.
    let other = ring(NOTHING, stored, &[]).with_key("openai", "flag");
    check(&other, "groq", Err("no API key found for `groq`"));
}

#[test]
fn values_of_models_json_and_auth_json() {
    let variables: Variables = &[("MY", "mine"), ("NONE", "")];
    let not_set = |name: &str| {
        format!("the API key of `x` cannot be resolved: environment variable `{name}` is not set")
    };
    let rows = [
        ("plain", Ok("plain")),
        ("$MY", Ok("mine")),
        ("${MY}", Ok("mine")),
        ("$$MY", Ok("$MY")),
        ("$!MY", Ok("!MY")),
        ("MY", Ok("mine")),
        ("NOT", Ok("NOT")),
        ("NONE", Ok("NONE")),
        ("My", Ok("My")),
        ("$NOT", Err(not_set("NOT"))),
        ("$NONE", Err(not_set("NONE"))),
    ];
    for (value, expected) in &rows {
        let expected = expected.as_ref().map(|text| *text).map_err(String::as_str);
        check(&ring(variables, "", &[("x", value)]), "x", expected);
        let stored = json!({"x": {"type": "api_key", "key": value}}).to_string();
        check(&ring(variables, &stored, &[]), "x", expected);
    }
}

/// The variables of PI-CONTRACT 11.8 that are keys as they stand.
#[test]
fn every_host_of_the_contract_takes_its_key_from_its_variable() {
    for (provider, variable) in [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("azure-openai-responses", "AZURE_OPENAI_API_KEY"),
        ("github-copilot", "COPILOT_GITHUB_TOKEN"),
        ("google", "GEMINI_API_KEY"),
        ("google-vertex", "GOOGLE_CLOUD_API_KEY"),
        ("amazon-bedrock", "AWS_BEARER_TOKEN_BEDROCK"),
        ("mistral", "MISTRAL_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("cerebras", "CEREBRAS_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("zai", "ZAI_API_KEY"),
        ("vercel-ai-gateway", "AI_GATEWAY_API_KEY"),
        ("minimax", "MINIMAX_API_KEY"),
        ("minimax-cn", "MINIMAX_CN_API_KEY"),
        ("moonshotai", "MOONSHOT_API_KEY"),
        ("moonshotai-cn", "MOONSHOT_API_KEY"),
        ("kimi-coding", "KIMI_API_KEY"),
        ("huggingface", "HF_TOKEN"),
        ("fireworks", "FIREWORKS_API_KEY"),
        ("opencode", "OPENCODE_API_KEY"),
        ("opencode-go", "OPENCODE_API_KEY"),
        ("cloudflare-workers-ai", "CLOUDFLARE_API_KEY"),
        ("cloudflare-ai-gateway", "CLOUDFLARE_API_KEY"),
        ("xiaomi", "XIAOMI_API_KEY"),
        ("xiaomi-token-plan-cn", "XIAOMI_TOKEN_PLAN_CN_API_KEY"),
        ("xiaomi-token-plan-ams", "XIAOMI_TOKEN_PLAN_AMS_API_KEY"),
        ("xiaomi-token-plan-sgp", "XIAOMI_TOKEN_PLAN_SGP_API_KEY"),
        ("ant-ling", "ANT_LING_API_KEY"),
        ("nvidia", "NVIDIA_API_KEY"),
        ("together", "TOGETHER_API_KEY"),
        ("zai-coding-cn", "ZAI_CODING_CN_API_KEY"),
    ] {
        let environment = Arc::new(move |name: &str| match name {
            name if name == variable => Some("the-key".to_owned()),
            // Parts of addresses.
            name if name.ends_with("KEY") || name.ends_with("TOKEN") => None,
            _ => Some("part".to_owned()),
        });
        let ring = KeyRing::new(environment, BTreeMap::new(), BTreeMap::new());
        check(&ring, provider, Ok("the-key"));
        assert!(ring.has(provider), "{provider}");
    }
}

#[test]
fn a_missing_key_names_its_variable() {
    let rows = [
        ("openai", Some("OPENAI_API_KEY")),
        ("anthropic", Some("ANTHROPIC_API_KEY")),
        ("nobody", None),
    ];
    for (provider, expected) in rows {
        let error = resolve(&ring(NOTHING, "", &[]), &known(provider)).unwrap_err();
        let fluzo_llm::CredentialError::Missing { variable, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(variable.as_deref(), expected);
    }
}

#[test]
fn local_servers_need_no_key() {
    for provider in ["ollama", "lmstudio", "llama.cpp", "llama-swap", "vllm"] {
        let ring = ring(NOTHING, "", &[]);
        let auth = resolve(&ring, &known(provider)).unwrap();
        assert!(auth.api_key.is_none() && auth.headers.is_empty());
        assert!(ring.has(provider));
        check(
            &self::ring(NOTHING, "", &[(provider, "k")]),
            provider,
            Ok("k"),
        );
    }
}

#[test]
fn whether_a_key_is_configured_is_told_without_running_anything() {
    let commands = Arc::new(Outputs::default());
    let stored = json!({
        "groq": {"type": "api_key", "key": "!never"},
        "xai": {"type": "oauth", "access": "a", "refresh": "r", "expires": 0},
        "mine": {"type": "oauth", "access": "a", "refresh": "r", "expires": 0,
            "clientId": "c", "tokenUrl": "https://a.example/t"},
        "zai": {"type": "unknown"},
    });
    let variables: Variables = &[("HF_TOKEN", "x"), ("ANTHROPIC_OAUTH_TOKEN", "sk-ant-oat01")];
    let ring = ring(
        variables,
        &stored.to_string(),
        &[("x", "!never"), ("y", "$NOT")],
    )
    .with_commands(commands.clone())
    .with_key("flagged", "k");
    let available = ring.available();
    for provider in ["groq", "mine", "huggingface", "x", "y", "flagged", "ollama"] {
        assert!(available.has(provider), "{provider}");
    }
    for provider in ["xai", "zai", "anthropic", "openai", "nobody"] {
        assert!(!available.has(provider), "{provider}");
    }
    assert!(commands.ran.lock().unwrap().is_empty());
}

#[test]
fn commands_give_keys_every_time_and_headers_once() {
    let commands = Arc::new(Outputs {
        known: [("key", "  the-key\n"), ("header", "h1\n"), ("empty", " \n")].into(),
        ..Outputs::default()
    });
    let headers = vec![("X-A".to_owned(), SecretValue::parse("!header"))];
    let ring = |value: &str| {
        KeyRing::new(
            environment(NOTHING),
            keys(&[("x", value)]),
            [("x".to_owned(), headers.clone())].into(),
        )
        .with_commands(commands.clone())
    };
    let used = ring("!key");
    for _ in 0..2 {
        let auth = resolve(&used, &known("x")).unwrap();
        assert_eq!(auth.api_key.unwrap().reveal(), "the-key");
        assert_eq!(auth.headers[0].1.reveal(), "h1");
    }
    assert_eq!(*commands.ran.lock().unwrap(), ["key", "header", "key"]);
    for command in ["empty", "fails"] {
        let expected =
            format!("Failed to resolve API key for provider \"x\" from shell command: {command}");
        check(&ring(&format!("!{command}")), "x", Err(&expected));
    }
}

#[test]
fn a_header_that_cannot_be_resolved_is_named() {
    let ring = |value: &str| {
        KeyRing::new(
            environment(NOTHING),
            keys(&[("x", "k")]),
            [(
                "x".to_owned(),
                vec![("X-A".to_owned(), SecretValue::parse(value))],
            )]
            .into(),
        )
    };
    let begin = "Failed to resolve provider \"x\" header \"X-A\"";
    check(
        &ring("$NOT"),
        "x",
        Err(&format!("{begin}: environment variable `NOT` is not set")),
    );
    check(
        &ring("!no"),
        "x",
        Err(&format!("{begin} from shell command: no")),
    );
}

fn header<'a>(auth: &'a RequestAuth, name: &str) -> Vec<&'a str> {
    let found = auth
        .headers
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.reveal()).collect()
}

#[test]
fn headers_of_the_model_win_over_those_of_the_provider() {
    let parse = |(name, value): &(&str, &str)| ((*name).to_owned(), SecretValue::parse(value));
    let of_provider: Vec<_> = [("X-A", "p"), ("X-B", "$MY")].iter().map(parse).collect();
    let ring = KeyRing::new(
        environment(&[("MY", "mine")]),
        keys(&[("x", "k")]),
        [("x".to_owned(), of_provider)].into(),
    )
    .with_bearers(["x".to_owned()]);
    let mut asked = known("x");
    asked.headers = [("x-a".to_owned(), "m".to_owned())].into();
    let auth = resolve(&ring, &asked).unwrap();
    assert_eq!(header(&auth, "X-A"), ["m"]);
    assert_eq!(header(&auth, "X-B"), ["mine"]);
    assert_eq!(header(&auth, "Authorization"), ["Bearer k"]);
    assert_eq!(auth.api_key.unwrap().reveal(), "k");
}

#[test]
fn keys_are_sent_as_the_host_wants_them() {
    let variables: Variables = &[
        ("CLOUDFLARE_API_KEY", "cf"),
        ("CLOUDFLARE_ACCOUNT_ID", "acc"),
        ("CLOUDFLARE_GATEWAY_ID", "gw"),
        ("COPILOT_GITHUB_TOKEN", "gh"),
        ("OPENAI_API_KEY", "sk"),
    ];
    let ring = ring(variables, "", &[]);
    let auth = |provider| resolve(&ring, &known(provider)).unwrap();
    let gateway = auth("cloudflare-ai-gateway");
    assert_eq!(header(&gateway, "cf-aig-authorization"), ["Bearer cf"]);
    assert!(gateway.api_key.is_none() && header(&gateway, "authorization").is_empty());
    assert_eq!(
        header(&auth("github-copilot"), "authorization"),
        ["Bearer gh"]
    );
    let plain = auth("openai");
    assert!(plain.headers.is_empty() && plain.base_url.is_none());
}

#[test]
fn endpoints_are_filled_from_variables_the_entry_and_the_token() {
    let entry = r#"{"cloudflare-workers-ai": {"type": "api_key", "key": "$K",
        "env": {"CLOUDFLARE_ACCOUNT_ID": "own", "K": "cf"}},
        "github-copilot": {"type": "oauth", "access": "t=1;proxy-ep=proxy.x.example", "refresh": "g",
        "expires": 9999}}"#;
    let variables: Variables = &[
        ("CLOUDFLARE_ACCOUNT_ID", "env"),
        ("AZURE_OPENAI_API_KEY", "az"),
        ("AZURE_OPENAI_RESOURCE_NAME", "res"),
    ];
    let url = |ring: &KeyRing, provider: &str| resolve(ring, &known(provider)).unwrap().base_url;
    let plain = ring(variables, entry, &[]);
    check(&plain, "cloudflare-workers-ai", Ok("cf"));
    let filled = url(&plain, "cloudflare-workers-ai").unwrap();
    assert!(filled.contains("/accounts/own/"), "{filled}");
    assert_eq!(
        url(&plain, "azure-openai-responses").as_deref(),
        Some("https://res.openai.azure.com/openai/v1")
    );
    assert_eq!(
        url(&plain, "github-copilot").as_deref(),
        Some("https://api.x.example")
    );
    let whole: Variables = &[
        ("AZURE_OPENAI_API_KEY", "az"),
        ("AZURE_OPENAI_BASE_URL", "https://own/v1"),
    ];
    assert_eq!(
        url(&ring(whole, "", &[]), "azure-openai-responses").as_deref(),
        Some("https://own/v1")
    );
    // What the user has configured stays.
    let own = model(
        "github-copilot",
        "openai-completions",
        "http://localhost:1/v1",
    );
    assert_eq!(resolve(&plain, &own).unwrap().base_url, None);
    let lacking = ring(&[("AZURE_OPENAI_API_KEY", "az")], "", &[]);
    let error = resolve(&lacking, &known("azure-openai-responses")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the address of `azure-openai-responses` is not complete: environment variable `AZURE_OPENAI_RESOURCE_NAME` is not set"
    );
}

#[test]
fn azure_takes_version_and_deployment_from_variables() {
    const KEY: (&str, &str) = ("AZURE_OPENAI_API_KEY", "az");
    const VERSION: (&str, &str) = ("AZURE_OPENAI_API_VERSION", "2025-04-01-preview");
    const URL: &str = "AZURE_OPENAI_BASE_URL";
    let rows: [(Variables, &str); 4] = [
        (
            &[KEY, VERSION, ("AZURE_OPENAI_RESOURCE_NAME", "res")],
            "https://res.openai.azure.com/openai/v1?api-version=2025-04-01-preview",
        ),
        (
            &[KEY, VERSION, (URL, "https://own?x=1")],
            "https://own?x=1&api-version=2025-04-01-preview",
        ),
        (
            &[KEY, VERSION, (URL, "https://own?api-version=v1")],
            "https://own?api-version=v1",
        ),
        (&[KEY, (URL, "https://own")], "https://own"),
    ];
    let model = known("azure-openai-responses");
    for (variables, expected) in rows {
        let auth = resolve(&ring(variables, "", &[]), &model).unwrap();
        assert_eq!(auth.base_url.as_deref(), Some(expected));
        assert_eq!(auth.deployment, None);
    }
    let unfit: Variables = &[
        KEY,
        ("AZURE_OPENAI_API_VERSION", "1&x=2"),
        (URL, "https://own"),
    ];
    let error = resolve(&ring(unfit, "", &[]), &model).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`AZURE_OPENAI_API_VERSION` may hold"),
        "{error}"
    );
    let named: Variables = &[
        KEY,
        (URL, "https://own"),
        ("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "other=x,m=mine"),
    ];
    let auth = resolve(&ring(named, "", &[]), &model).unwrap();
    assert_eq!(auth.deployment.as_deref(), Some("mine"));
}

#[test]
fn tokens_of_other_vendors_clients_are_reported_with_the_key_to_use() {
    let text = |named: &str| {
        format!(
            "the sign-in to `{named}` cannot be used: it belongs to another vendor's client, which Fluzo does not pretend to be"
        )
    };
    let stored = r#"{"anthropic": {"type": "oauth", "access": "sk-ant-oat01-x", "refresh": "r",
        "expires": 9999}, "openai-codex": {"type": "oauth", "access": "a", "refresh": "r",
        "expires": 9999, "accountId": "acc"}}"#;
    let variable = |ring: &KeyRing, provider: &str| match resolve(ring, &known(provider)) {
        Err(fluzo_llm::CredentialError::SignIn { variable, .. }) => variable.unwrap(),
        other => panic!("{other:?}"),
    };
    let plain = ring(NOTHING, stored, &[]);
    check(&plain, "anthropic", Err(&text("anthropic")));
    assert_eq!(variable(&plain, "anthropic"), "ANTHROPIC_API_KEY");
    assert_eq!(variable(&plain, "openai-codex"), "OPENAI_API_KEY");
    let token: Variables = &[("ANTHROPIC_OAUTH_TOKEN", "sk-ant-oat01-x")];
    check(&ring(token, "", &[]), "anthropic", Err(&text("anthropic")));
    // A key that stands elsewhere is used.
    let both: Variables = &[
        ("ANTHROPIC_OAUTH_TOKEN", "sk-ant-oat01-x"),
        ("ANTHROPIC_API_KEY", "k"),
    ];
    check(&ring(both, stored, &[]), "anthropic", Ok("k"));
}

#[test]
fn a_file_or_entry_that_cannot_be_used_is_reported_when_nothing_else_is_there() {
    let begin = "the API key of `openai` cannot be resolved: `auth.json`";
    let broken = "{\n\"openai\": x";
    let unusable = r#"{"openai": {"type": "api_key"}}"#;
    let rows = [
        (
            broken,
            format!("{begin}, line 2, column 11: not valid JSON"),
        ),
        (
            unusable,
            format!("{begin}: the entry of `openai` cannot be used: `key` must be text"),
        ),
    ];
    for (text, expected) in rows {
        check(&ring(NOTHING, text, &[]), "openai", Err(&expected));
        check(
            &ring(&[("OPENAI_API_KEY", "k")], text, &[]),
            "openai",
            Ok("k"),
        );
        let file = MemoryFile::new(text);
        assert_eq!(still(&file).store().warnings().len(), 1);
        assert_eq!(file.text(), text);
    }
}

#[test]
fn known_secrets_are_those_of_every_place_and_run_nothing() {
    let ring = ring(
        &[("OPENAI_API_KEY", "of-variable"), ("OWN", "of-own-variable"), ("PATH", "no-secret")],
        r#"{"a": {"type": "api_key", "key": "of-file"}, "b": {"type": "api_key", "key": "!exit 1"}}"#,
        &[("c", "of-models"), ("d", "$OWN"), ("e", "$MISSING")],
    )
    .with_key("f", "given");
    let known: BTreeSet<String> = ring
        .known_secrets()
        .iter()
        .map(|secret| secret.reveal().to_owned())
        .collect();
    let expected = [
        "given",
        "of-file",
        "of-models",
        "of-own-variable",
        "of-variable",
    ];
    assert_eq!(known, expected.map(str::to_owned).into());
}
