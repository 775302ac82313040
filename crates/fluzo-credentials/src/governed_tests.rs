//! Which file is used, and which endpoint gets which key.

use super::*;

const FILE: &str = r#"# credentials
[work]
endpoint = "https://API.example.com/"
key_env = "WORK_KEY"

[lab]
endpoint = "http://127.0.0.1:8080"
key = "planted-key"
not_encrypted = true
"#;

fn variable(name: &str) -> Option<String> {
    match name {
        "WORK_KEY" => Some("from-work".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

#[test]
fn a_file_that_others_may_use_is_refused() {
    let rows = [
        (0o600, None),
        (0o400, None),
        (0o100_600, None),
        (0o000, None),
        (0o640, Some("0640")),
        (0o604, Some("0604")),
        (0o660, Some("0660")),
        (0o644, Some("0644")),
        (0o700, Some("0700")),
        (0o100_644, Some("0644")),
        (0o4600, Some("4600")),
    ];
    for (mode, shown) in rows {
        let error = AuthToml::parse(FILE, mode).err();
        let expected = shown
            .map(|shown| format!("mode {shown} lets others use the file; set it with `chmod 600`"));
        assert_eq!(error.map(|error| error.to_string()), expected, "{mode:o}");
    }
}

#[test]
fn a_key_is_given_to_its_endpoint_and_to_no_other() {
    let file = AuthToml::parse(FILE, 0o600).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["lab", "work"]);
    let work = "the key is bound to `https://api.example.com` and is not given to ";
    let lab = "the key is bound to `http://127.0.0.1:8080` and is not given to ";
    let rows = [
        ("work", "https://api.example.com/v1/chat?x=1", Ok("from-work")),
        ("work", "https://api.example.com:443", Ok("from-work")),
        ("work", "HTTPS://Api.Example.Com/v1", Ok("from-work")),
        ("work", "http://api.example.com/v1", Err(format!("{work}`http://api.example.com`"))),
        ("work", "https://api.example.com:8443/v1", Err(format!("{work}`https://api.example.com:8443`"))),
        ("work", "https://example.com", Err(format!("{work}`https://example.com`"))),
        ("work", "https://api.example.com.evil.test/", Err(format!("{work}`https://api.example.com.evil.test`"))),
        ("work", "https://api.example.com@evil.test/", Err(format!("{work}`https://evil.test`"))),
        ("work", "https://evil.test\\@api.example.com/", Err(format!("{work}`https://evil.test`"))),
        ("work", "https://evil.test/https://api.example.com", Err(format!("{work}`https://evil.test`"))),
        ("work", "https://u:planted@evil.test/planted?planted", Err(format!("{work}`https://evil.test`"))),
        ("work", "ftp://api.example.com", Err("the key is bound to `https://api.example.com`, and the request has no http or https address".to_owned())),
        ("work", "", Err("the key is bound to `https://api.example.com`, and the request has no http or https address".to_owned())),
        ("lab", "http://127.0.0.1:8080/v1", Ok("planted-key")),
        ("lab", "http://127.0.0.1:8081/v1", Err(format!("{lab}`http://127.0.0.1:8081`"))),
        ("lab", "http://localhost:8080/v1", Err(format!("{lab}`http://localhost:8080`"))),
    ];
    for (name, url, expected) in rows {
        let key = file.get(name).unwrap().key(url, &variable);
        let key = key.as_ref().map(Secret::reveal);
        let key = key.map_err(ToString::to_string);
        assert_eq!(key, expected, "{name} {url}");
    }
    assert!(file.get("other").is_none());
    assert!(!format!("{file:?}").contains("planted"), "{file:?}");
}

#[test]
fn a_variable_is_bound_as_well() {
    let endpoint = EndpointOrigin::of("https://h/v1").unwrap();
    let key = |name: &str, url: &str| {
        let key = BoundKey::of_variable(name, endpoint.clone()).key(url, &variable);
        key.map(|key| key.reveal().to_owned())
            .map_err(|error| error.to_string())
    };
    assert_eq!(key("WORK_KEY", "https://h/v2").unwrap(), "from-work");
    let elsewhere = "the key is bound to `https://h` and is not given to `https://g`";
    assert_eq!(key("WORK_KEY", "https://g").unwrap_err(), elsewhere);
    // Elsewhere not even whether it is set is looked at.
    assert_eq!(key("NONE", "https://g").unwrap_err(), elsewhere);
    for name in ["NONE", "EMPTY"] {
        let expected = format!("environment variable `{name}` is not set");
        assert_eq!(key(name, "https://h").unwrap_err(), expected);
    }
}

#[test]
fn what_is_wrong_is_said_by_line_and_without_the_text() {
    const ORIGIN: &str =
        "`endpoint` must be scheme, host and port alone, such as \"https://api.example.com\"";
    const UNKNOWN: &str =
        "an unknown field; there are `endpoint`, `key_env`, `key` and `not_encrypted`";
    const PLAIN: &str = "this file is not encrypted: name a variable with `key_env`, or accept it with `not_encrypted = true`";
    let rows = [
        (
            "[a]\nendpoint = \"https://h\"\nkey = planted",
            3,
            "this is not TOML",
        ),
        ("[a]\n[a]\n", 2, "this is not TOML"),
        (
            "\nkey = \"planted\"",
            2,
            "a credential is a table, such as `[work]`",
        ),
        (
            "[[a]]\nkey = \"planted\"",
            1,
            "a credential is a table, such as `[work]`",
        ),
        ("# c\n[a]\nkey_env = \"A\"", 2, "`endpoint` is missing"),
        (
            "[a]\nendpoint = \"https://h\"",
            1,
            "`key_env` or `key` is missing",
        ),
        ("[a]\nendpoint = 1", 2, ORIGIN),
        ("[a]\nendpoint = \"h\"", 2, ORIGIN),
        ("[a]\nendpoint = \"ftp://h\"", 2, ORIGIN),
        ("[a]\nendpoint = \"https://planted@h\"", 2, ORIGIN),
        ("[a]\nendpoint = \"https://h/v1\"", 2, ORIGIN),
        ("[a]\nendpoint = \"https://h?planted\"", 2, ORIGIN),
        ("[a]\nendpoint = \"https://h#planted\"", 2, ORIGIN),
        (
            "[a]\nkey_env = \"planted key\"",
            2,
            "`key_env` must name a variable",
        ),
        (
            "[a]\nkey = [\"planted\"]",
            2,
            "`key` must be a text that is not empty",
        ),
        (
            "[a]\nkey = \" \"",
            2,
            "`key` must be a text that is not empty",
        ),
        (
            "[a]\nnot_encrypted = \"planted\"",
            2,
            "`not_encrypted` must be true or false",
        ),
        ("[a]\nplanted = 1", 2, UNKNOWN),
        ("[a]\nendpoint = \"https://h\"\nkey = \"planted\"", 3, PLAIN),
        (
            "[a]\nendpoint = \"https://h\"\nkey = \"planted\"\nnot_encrypted = false",
            3,
            PLAIN,
        ),
        (
            "[a]\nendpoint = \"https://h\"\nkey_env = \"A\"\nkey = \"planted\"",
            4,
            "`key` and `key_env` exclude each other",
        ),
    ];
    for (text, line, problem) in rows {
        let error = AuthToml::parse(text, 0o600).unwrap_err();
        assert_eq!(error, AuthTomlError::Line { line, problem }, "{text}");
        assert!(!format!("{error}{error:?}").contains("planted"), "{error}");
    }
    assert_eq!(AuthToml::parse("", 0o600).unwrap().names().count(), 0);
}
