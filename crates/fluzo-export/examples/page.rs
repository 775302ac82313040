//! Writes the page of a session file: `page SESSION OUT`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_types
)]
use fluzo_session::{JsonlStore, SessionStore};
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let store = JsonlStore::open(args[1].as_ref(), Arc::new(fluzo_stdx::ids::RandomIds)).unwrap();
    let store: &dyn SessionStore = &store;
    let leaf = store.look(|i| i.last().map(|n| n.id.to_string())).flatten();
    let tools = [fluzo_llm::tool::ToolSpec {
        name: "read".into(),
        description: "Read a file".into(),
        parameters: serde_json::json!({"type":"object","properties":{"path":{"type":"string"}}}),
    }];
    let extras = fluzo_export::Extras {
        system_prompt: Some("You are a coding agent.\n\nGuidelines:\n- Be concise"),
        tools: &tools,
    };
    let mut out = std::io::BufWriter::new(std::fs::File::create(&args[2]).unwrap());
    let report = fluzo_export::write_page(store, leaf.as_deref(), &extras, &mut out).unwrap();
    drop(out);
    let (a, b) = (
        std::fs::metadata(&args[1]).unwrap().len(),
        std::fs::metadata(&args[2]).unwrap().len(),
    );
    let st = std::fs::read_to_string("/proc/self/status").unwrap();
    println!(
        "{report:?} {a} -> {b} = {:.2} in {:?}; {}",
        b as f64 / a as f64,
        t.elapsed(),
        st.lines().find(|l| l.starts_with("VmHWM")).unwrap()
    );
}
