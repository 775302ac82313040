//! What a session came to.

use fluzo_session::Stats;
use fluzo_session::stats::ContextUsage;
use serde_json::json;

use crate::support::{NOW, assistant, calls, memory_session, message, new_session, result, text};

#[test]
fn a_path_is_counted_as_a_whole() {
    let session = memory_session();
    let root = session.append_message(text("one"), NOW).unwrap();
    session
        .append_message(calls(&["a", "b"], "toolUse"), NOW)
        .unwrap();
    session.append_message(result("a"), NOW).unwrap();
    session.append_message(result("b"), NOW).unwrap();
    let compaction = fluzo_session::Compaction {
        summary: "s".to_owned(),
        ..Default::default()
    };
    // What a compaction leaves out of the context still counts.
    session.append_compaction(compaction, NOW).unwrap();
    session.append_message(assistant("done"), NOW).unwrap();
    let shell = r#"{"role":"bashExecution","command":"ls","output":"a","cancelled":false,"truncated":false,"timestamp":1}"#;
    session.append_message(message(shell), NOW).unwrap();
    let stats = session.stats().unwrap();
    let data = json!({
        "sessionId": session.header().id,
        "userMessages": 1,
        "assistantMessages": 2,
        "toolCalls": 2,
        "toolResults": 2,
        "totalMessages": 6,
        "tokens": {"input": 2, "output": 4, "cacheRead": 0, "cacheWrite": 0, "total": 6},
        "cost": 0.0,
    });
    assert_eq!(serde_json::to_value(&stats).unwrap(), data);
    // Another branch counts for the whole session, not for the path.
    session.branch(&root.id).unwrap();
    session.append_message(assistant("other"), NOW).unwrap();
    let path = session.stats().unwrap();
    assert_eq!((path.assistant_messages, path.total_messages), (1, 2));
    let all = Stats::of_all(&**session.store()).unwrap();
    assert_eq!((all.assistant_messages, all.tokens.total), (3, 9));
    session.reset_leaf();
    assert_eq!(session.stats().unwrap().total_messages, 0);
}

#[test]
fn the_context_comes_from_the_caller() {
    let mut stats = memory_session().stats().unwrap();
    stats.context_usage = Some(ContextUsage::new(Some(15), 100_000));
    let value = serde_json::to_value(&stats).unwrap();
    let want = json!({"tokens": 15, "contextWindow": 100_000, "percent": 0.015});
    assert_eq!(value["contextUsage"], want);
    stats.context_usage = Some(ContextUsage::new(None, 100_000));
    let value = serde_json::to_value(&stats).unwrap();
    let want = json!({"tokens": null, "contextWindow": 100_000, "percent": null});
    assert_eq!(value["contextUsage"], want);
}

#[test]
fn the_block_for_a_person() {
    let folder = tempfile::TempDir::new().unwrap();
    let session = new_session(folder.path());
    session.append_message(text("one"), NOW).unwrap();
    let priced = r#"{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1234,"output":56,"cacheRead":0,"cacheWrite":0,"totalTokens":1290,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.001346}},"stopReason":"stop","timestamp":2}"#;
    session.append_message(message(priced), NOW).unwrap();
    let text = session.stats().unwrap().text(Some("Name"));
    let (file, id) = (session.path().unwrap(), session.header().id);
    let want = format!(
        "Session Info\n\nName: Name\nFile: {}\nID: {id}\n\nMessages\nUser: 1\nAssistant: 1\nTool Calls: 0\nTool Results: 0\nTotal: 2\n\nTokens\nInput: 1,234\nOutput: 56\nTotal: 1,290\n\nCost\nTotal: 0.0013\n",
        file.display()
    );
    assert_eq!(text, want);
    let memory = memory_session().stats().unwrap().text(None);
    assert!(memory.contains("\nFile: In-memory\n"), "{memory}");
}
