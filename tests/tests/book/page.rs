//! Reads Markdown pages of the book: code spans, code blocks, links and headings.

/// Text between backticks on a page.
#[derive(Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) line: usize,
    pub(crate) text: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct CodeBlock {
    /// Line number of the opening fence (three backticks) of a code block.
    pub(crate) line: usize,
    /// Words after the opening fence of a code block, such as `rust,no_run` or `sh`.
    pub(crate) language: String,
    pub(crate) text: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) spans: Vec<Span>,
    pub(crate) blocks: Vec<CodeBlock>,
    pub(crate) links: Vec<Link>,
    /// Anchors (targets of links) of the headings of the page.
    pub(crate) anchors: Vec<String>,
}

impl Page {
    pub(crate) fn parse(text: &str) -> Page {
        let mut page = Page::default();
        let mut prose = String::new();
        let mut open: Option<CodeBlock> = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(CodeBlock {
                        line: number,
                        language: language.trim().into(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => page.blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {
                    if let Some(title) = line.starts_with('#').then(|| line.trim_start_matches('#').trim()) {
                        page.anchors.push(anchor(title));
                    }
                    prose.push_str(line);
                }
            }
            // A code block becomes empty lines in `prose`, so that line numbers stay those of the page.
            prose.push('\n');
        }
        page.read_prose(&prose);
        page
    }

    /// Code spans are removed before links are searched, because text in a span may look like a link.
    fn read_prose(&mut self, prose: &str) {
        let mut without_spans = String::new();
        let (mut rest, mut line) = (prose, 1);
        while let Some(start) = rest.find('`') {
            let ticks = rest[start..].bytes().take_while(|&b| b == b'`').count();
            let (before, behind) = rest.split_at(start + ticks);
            without_spans.push_str(&before[..start]);
            line += before.matches('\n').count();
            // A span ends in its paragraph; a backtick without a second one opens no span.
            let paragraph = &behind[..behind.find("\n\n").unwrap_or(behind.len())];
            let Some(end) = closing(paragraph, ticks) else {
                rest = behind;
                continue;
            };
            let inside = &behind[..end];
            let text = inside.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\|", "|");
            self.spans.push(Span { line, text });
            let lines = inside.matches('\n').count();
            line += lines;
            without_spans.extend(std::iter::repeat_n('\n', lines));
            rest = &behind[end + ticks..];
        }
        without_spans.push_str(rest);
        for (number, text) in (1..).zip(without_spans.lines()) {
            for piece in text.split("](").skip(1) {
                let target = piece.split(')').next().unwrap_or_default();
                self.links.push(Link { line: number, target: target.into() });
            }
        }
    }
}

/// Finds the end of a code span: as many backticks as at its beginning.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut place = 0;
    while let Some(found) = text[place..].find('`') {
        let run = text[place + found..].bytes().take_while(|&b| b == b'`').count();
        if run == ticks {
            return Some(place + found);
        }
        place += found + run;
    }
    None
}

/// Returns the anchor of a heading as the repository's web pages generate it.
fn anchor(title: &str) -> String {
    let letters = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    letters.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn page_is_parsed_into_spans_blocks_links_and_anchors() {
    let text = "# A `b` c, d\n\nSee `Farm::map` and `--bind\ncore` in [x](y.md#z).\n\n```sh\n`no`\n```\n\n\
                | `a \\| b` | ``c`d`` | ![p](q.svg) |\n";
    let page = Page::parse(text);
    let spans: Vec<_> = page.spans.iter().map(|s| (s.line, s.text.as_str())).collect();
    assert_eq!(spans, [(1, "b"), (3, "Farm::map"), (3, "--bind core"), (10, "a | b"), (10, "c`d")]);
    assert_eq!(page.blocks, [CodeBlock { line: 6, language: "sh".into(), text: "`no`\n".into() }]);
    let links: Vec<_> = page.links.iter().map(|l| (l.line, l.target.as_str())).collect();
    assert_eq!(links, [(4, "y.md#z"), (10, "q.svg")]);
    assert_eq!(page.anchors, ["a-b-c-d"]);
}
