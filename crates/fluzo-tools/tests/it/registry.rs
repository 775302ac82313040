//! The set of tools, their schemas, and what they cost in a request.

use fluzo_tools::registry::{ALL, DEFAULT, builtin};
use serde_json::json;

use crate::support::env;

#[test]
fn every_name_has_its_tool() {
    let dir = tempfile::tempdir().unwrap();
    for name in ALL {
        assert_eq!(builtin(name, &env(dir.path())).unwrap().spec().name, name);
    }
    assert!(builtin("other", &env(dir.path())).is_none());
}

#[test]
fn only_edit_expects_something_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let edits = |name: &&str| builtin(name, &env(dir.path())).unwrap().edits();
    assert_eq!(ALL.into_iter().filter(edits).collect::<Vec<_>>(), ["edit"]);
}

#[test]
fn schemas_of_read_edit_write_and_ls() {
    let dir = tempfile::tempdir().unwrap();
    let env = env(dir.path());
    let schema = |name| builtin(name, &env).unwrap().spec().parameters.clone();
    let text = json!({"type": "string"});
    assert_eq!(
        schema("read"),
        json!({"type": "object", "required": ["path"], "properties": {
            "path": text,
            "offset": {"type": "number", "description": "First line, from 1"},
            "limit": {"type": "number", "description": "Most lines"}}})
    );
    assert_eq!(
        schema("edit"),
        json!({"type": "object", "required": ["path", "edits"], "properties": {
            "path": text,
            "edits": {"type": "array", "items": {
                "type": "object", "required": ["oldText", "newText"],
                "properties": {"oldText": text, "newText": text},
                "additionalProperties": false}}},
            "additionalProperties": false})
    );
    assert_eq!(
        schema("write"),
        json!({"type": "object", "required": ["path", "content"], "properties": {"path": text, "content": text}})
    );
    assert_eq!(
        schema("ls"),
        json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Default: working folder"},
            "limit": {"type": "number", "description": "Most entries"}}})
    );
}

#[test]
fn the_default_tools_fit_into_a_small_request() {
    let dir = tempfile::tempdir().unwrap();
    let env = env(dir.path());
    let specs = DEFAULT.map(|name| builtin(name, &env).unwrap().spec().clone());
    let bytes: usize = specs
        .iter()
        .map(|spec| serde_json::to_string(spec).unwrap().len())
        .sum();
    assert!(bytes <= 2600, "{bytes} bytes");
}
