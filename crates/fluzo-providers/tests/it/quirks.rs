//! The page of quirks.

/// The page is `docs/quirks.md`. When the table has changed, the new page is written beside the
/// test's other files and the failure says where.
#[test]
fn the_page_shows_the_table() {
    let page = fluzo_providers::quirks::page();
    let written = include_str!("../../../../docs/quirks.md");
    if page != written {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/quirks.md");
        std::fs::write(path, page).unwrap();
        panic!("docs/quirks.md is not what the table says; copy {path} there");
    }
}
