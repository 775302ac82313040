//! A strict reader of the pages: what it does not know is a finding.

/// Elements, each with whether it must be closed.
const ELEMENTS: &[(&str, bool)] = &[
    ("html", true),
    ("meta", false),
    ("style", true),
    ("title", true),
    ("body", true),
    ("header", true),
    ("main", true),
    ("footer", true),
    ("nav", true),
    ("h1", true),
    ("h2", true),
    ("h3", true),
    ("h4", true),
    ("h5", true),
    ("h6", true),
    ("dl", true),
    ("dt", false),
    ("dd", false),
    ("ol", true),
    ("ul", true),
    ("li", true),
    ("p", true),
    ("div", true),
    ("pre", true),
    ("code", true),
    ("details", true),
    ("summary", true),
    ("b", true),
    ("em", true),
    ("strong", true),
    ("s", true),
    ("small", true),
    ("mark", true),
    ("time", true),
    ("a", true),
    ("img", false),
    ("br", false),
    ("hr", false),
    ("blockquote", true),
    ("table", true),
    ("tr", true),
    ("th", true),
    ("td", true),
    ("ins", true),
    ("del", true),
    ("k-", true),
    ("s-", true),
    ("c-", true),
    ("n-", true),
    ("f-", true),
];

/// What the page is made of.
#[derive(Default)]
pub struct Seen {
    pub elements: Vec<String>,
    pub anchors: Vec<String>,
    pub links: Vec<String>,
    pub deepest: usize,
}

/// Reads `page` and fails on anything that could be obeyed, loaded or followed, on an
/// element that is not closed, and on a link that leads nowhere.
pub fn check(page: &str) -> Seen {
    let mut seen = Seen::default();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>").expect("a doctype");
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..];
        let end = end_of_tag(tag);
        let (inner, behind) = (&tag[..end], &tag[end + 1..]);
        rest = behind;
        if let Some(name) = inner.strip_prefix('/') {
            assert_eq!(
                open.pop(),
                Some(name),
                "closed by another: {:?}",
                &tag[..end.min(80)]
            );
            continue;
        }
        let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        let known = ELEMENTS.iter().find(|(known, _)| *known == name);
        let (name, closed) =
            known.unwrap_or_else(|| panic!("unknown element: {:?}", &inner[..inner.len().min(80)]));
        check_attributes(name, attributes, &mut seen);
        seen.elements.push((*name).to_owned());
        if *name == "style" {
            let (css, behind) = rest.split_once("</style>").unwrap();
            assert!(
                !css.contains("url(") && !css.contains('@')
                    || css.matches('@').count() == css.matches("@media").count()
            );
            rest = behind;
        } else if *closed {
            open.push(name);
            seen.deepest = seen.deepest.max(open.len());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for link in &seen.links {
        assert!(seen.anchors.contains(link), "leads nowhere: {link}");
    }
    let mut anchors = seen.anchors.clone();
    anchors.sort();
    anchors.dedup();
    assert_eq!(anchors.len(), seen.anchors.len(), "an anchor stands twice");
    seen
}

fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    for (at, c) in tag.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return at,
            _ => {}
        }
    }
    panic!("a tag that does not end: {:?}", &tag[..tag.len().min(80)]);
}

fn check_attributes(element: &str, mut text: &str, seen: &mut Seen) {
    while !text.is_empty() {
        let end = text.find(['=', ' ']).unwrap_or(text.len());
        let name = &text[..end];
        let (value, rest) = match text[end..].strip_prefix('=') {
            None => ("", text[end..].trim_start()),
            Some(rest) => match rest.strip_prefix('"') {
                Some(rest) => {
                    let (value, rest) = rest.split_once('"').unwrap();
                    (value, rest.trim_start())
                }
                None => {
                    let end = rest.find(' ').unwrap_or(rest.len());
                    (&rest[..end], rest[end..].trim_start())
                }
            },
        };
        text = rest;
        match (element, name) {
            ("meta", "charset" | "http-equiv" | "content" | "name") | ("html", "lang") => {}
            ("details", "open" | "class") | ("nav", "aria-label") | ("pre", "tabindex") => {}
            ("li", "aria-current") | ("img", "alt") => {}
            ("ol", "start") => assert!(value.bytes().all(|byte| byte.is_ascii_digit())),
            (_, "class") => assert!(value.len() == 1, "{value}"),
            ("li" | "div", "id") => seen.anchors.push(anchor(value)),
            ("a", "href") => seen.links.push(anchor(value.strip_prefix('#').unwrap())),
            ("img", "src") => {
                let data = value.strip_prefix("data:image/").unwrap();
                let (_, data) = data.split_once(";base64,").unwrap();
                assert!(
                    data.bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
                );
            }
            _ => panic!("unknown attribute {name} of {element}"),
        }
    }
}

fn anchor(value: &str) -> String {
    let number = value.strip_prefix('n').unwrap();
    assert!(number.bytes().all(|byte| byte.is_ascii_digit()), "{value}");
    value.to_owned()
}
