//! Markdown as HTML that obeys nothing: no raw HTML, no address that is followed or loaded.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::escape;
use crate::highlight::{Highlighter, Language, most};

/// Deeper than this, or larger than its worth, the text is shown as it is.
const DEPTH: usize = 32;

/// Appends `source` as HTML.
pub(crate) fn render(out: &mut String, source: &str, highlighter: &mut Highlighter) {
    let plain = escape::escaped(source);
    let mut writer = Writer {
        out: String::with_capacity(source.len() + source.len() / 4),
        highlighter,
        most: most(source, &plain),
        depth: 0,
        code: None,
        links: Vec::new(),
        in_head: false,
    };
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut fits = true;
    for event in Parser::new_ext(source, options) {
        writer.event(event);
        fits = writer.depth <= DEPTH && writer.out.len() <= writer.most;
        if !fits {
            break;
        }
    }
    if fits {
        out.push_str("<div class=m>");
        out.push_str(&writer.out);
        out.push_str("</div>");
    } else {
        out.push_str("<div class=w>");
        out.push_str(&plain);
        out.push_str("</div>");
    }
}

struct Writer<'a> {
    out: String,
    highlighter: &'a mut Highlighter,
    most: usize,
    depth: usize,
    /// Language and text of the code block that is open.
    code: Option<(String, String)>,
    /// Where the text of each open link begins, and its address.
    links: Vec<(usize, String)>,
    in_head: bool,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                self.start(tag);
            }
            Event::End(tag) => {
                self.depth = self.depth.saturating_sub(1);
                self.end(tag);
            }
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => escape::text(&mut self.out, &text),
            },
            Event::Code(text) => {
                self.out.push_str("<code>");
                escape::text(&mut self.out, &text);
                self.out.push_str("</code>");
            }
            // HTML of a session is text.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => escape::text(&mut self.out, &text),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "☑ " } else { "☐ " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let opening = match tag {
            Tag::Paragraph | Tag::HtmlBlock => "<p>",
            Tag::Heading { level, .. } => heading(level).0,
            Tag::BlockQuote(_) => "<blockquote>",
            Tag::List(None) => "<ul>",
            Tag::List(Some(1)) => "<ol>",
            Tag::List(Some(first)) => {
                self.out.push_str(&format!("<ol start={first}>"));
                ""
            }
            Tag::Item => "<li>",
            Tag::Table(_) => "<table>",
            Tag::TableHead => {
                self.in_head = true;
                "<tr>"
            }
            Tag::TableRow => "<tr>",
            Tag::TableCell if self.in_head => "<th>",
            Tag::TableCell => "<td>",
            Tag::Emphasis => "<em>",
            Tag::Strong => "<strong>",
            Tag::Strikethrough => "<s>",
            Tag::CodeBlock(kind) => {
                self.code = Some((language(&kind), String::new()));
                ""
            }
            Tag::Link { dest_url, .. } => {
                self.links.push((self.out.len(), dest_url.into_string()));
                ""
            }
            Tag::Image { dest_url, .. } => {
                self.out.push_str("[image: ");
                self.links.push((self.out.len(), dest_url.into_string()));
                ""
            }
            _ => "",
        };
        self.out.push_str(opening);
    }

    fn end(&mut self, tag: TagEnd) {
        let closing = match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => "</p>",
            TagEnd::Heading(level) => heading(level).1,
            TagEnd::BlockQuote(_) => "</blockquote>",
            TagEnd::List(true) => "</ol>",
            TagEnd::List(false) => "</ul>",
            TagEnd::Item => "</li>",
            TagEnd::Table => "</table>",
            TagEnd::TableHead => {
                self.in_head = false;
                "</tr>"
            }
            TagEnd::TableRow => "</tr>",
            TagEnd::TableCell if self.in_head => "</th>",
            TagEnd::TableCell => "</td>",
            TagEnd::Emphasis => "</em>",
            TagEnd::Strong => "</strong>",
            TagEnd::Strikethrough => "</s>",
            TagEnd::CodeBlock => {
                self.code_block();
                ""
            }
            TagEnd::Link => {
                self.address();
                ""
            }
            TagEnd::Image => {
                self.address();
                "]"
            }
            _ => "",
        };
        self.out.push_str(closing);
    }

    fn code_block(&mut self) {
        let Some((language, code)) = self.code.take() else {
            return;
        };
        let html = self.highlighter.code(&code, Language::Name(&language));
        pre(&mut self.out, &html);
    }

    /// Shows where a link leads; it is nothing that can be followed by mistake.
    fn address(&mut self) {
        let Some((from, address)) = self.links.pop() else {
            return;
        };
        let address = escape::escaped(&address);
        if address.is_empty() || self.out.get(from..) == Some(&address) {
            return;
        }
        self.out.push_str(" <small>(");
        self.out.push_str(&address);
        self.out.push_str(")</small>");
    }
}

/// Appends a block of preformatted `html`.
pub(crate) fn pre(out: &mut String, html: &str) {
    out.push_str("<pre tabindex=0>");
    if html.starts_with('\n') {
        // The first line end behind the tag does not count.
        out.push('\n');
    }
    out.push_str(html);
    out.push_str("</pre>");
}

fn heading(level: HeadingLevel) -> (&'static str, &'static str) {
    // Headings of the page itself stand above those of a message.
    match level {
        HeadingLevel::H1 => ("<h4>", "</h4>"),
        HeadingLevel::H2 => ("<h5>", "</h5>"),
        _ => ("<h6>", "</h6>"),
    }
}

fn language(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Indented => String::new(),
        CodeBlockKind::Fenced(info) => {
            let mut words = info.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | ':'));
            words.next().unwrap_or_default().to_ascii_lowercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(source: &str) -> String {
        let mut out = String::new();
        render(&mut out, source, &mut Highlighter::default());
        out
    }

    #[test]
    fn marks_become_elements() {
        let rows = [
            ("# A *b*", "<h4>A <em>b</em></h4>"),
            ("- a\n- [x] b", "<ul><li>a</li><li>☑ b</li></ul>"),
            ("3. a", "<ol start=3><li>a</li></ol>"),
            (
                "```rust\nlet a;\n```",
                "<pre tabindex=0><k->let</k-> a;\n</pre>",
            ),
            (
                "|a|\n|-|\n|b|",
                "<table><tr><th>a</th></tr><tr><td>b</td></tr></table>",
            ),
            ("a\nb", "<p>a\nb</p>"),
            ("> a", "<blockquote><p>a</p></blockquote>"),
        ];
        for (source, want) in rows {
            assert_eq!(html(source), format!("<div class=m>{want}</div>"));
        }
    }

    #[test]
    fn nothing_leads_anywhere() {
        let rows = [
            (
                "[a](javascript:alert(1))",
                "<p>a <small>(javascript:alert(1))</small></p>",
            ),
            (
                "[a](https://x.test/?q=\"<)",
                "<p>a <small>(https://x.test/?q=\"&lt;)</small></p>",
            ),
            ("<https://x.test>", "<p>https://x.test</p>"),
            (
                "![a](http://x.test/p.png)",
                "<p>[image: a <small>(http://x.test/p.png)</small>]</p>",
            ),
            (
                "a <img src=x onerror=y> b",
                "<p>a &lt;img src=x onerror=y> b</p>",
            ),
            (
                "<script>\nx\n</script>",
                "<p>&lt;script>\nx\n&lt;/script></p>",
            ),
            (
                "<style>a{background:url(//x)}</style>",
                "<p>&lt;style>a{background:url(//x)}&lt;/style></p>",
            ),
        ];
        for (source, want) in rows {
            assert_eq!(html(source), format!("<div class=m>{want}</div>"));
        }
    }

    #[test]
    fn what_would_grow_too_much_is_shown_as_it_is() {
        for source in [
            ">".repeat(5_000),
            "|a".repeat(40) + "\n" + &"|-".repeat(40) + "\n" + &"|a".repeat(4_000),
            "- ".repeat(3_000),
            "*a* ".repeat(2_000),
            "[".repeat(20_000),
        ] {
            let html = html(&source);
            assert!(html.len() < source.len() * 9 / 4 + 128, "{}", html.len());
        }
    }
}
