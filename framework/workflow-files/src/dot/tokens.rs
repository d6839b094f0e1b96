//! Lexer for dot files.

use crate::error::{Error, ErrorKind, Result, SourceLocation, shown};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, number, or text in quotation marks or angle brackets.
    Id(String),
    Arrow,
    /// Sign with a meaning in dot: one of `{}[]=;,:`.
    Sign(char),
}

#[derive(Debug)]
pub(super) struct Tokens {
    all: Vec<Found>,
    at: usize,
}

#[derive(Debug)]
struct Found {
    token: Token,
    line: usize,
    /// True for a name without quotation marks, which may be a keyword.
    bare: bool,
}

impl Tokens {
    pub(super) fn of(text: &str) -> Result<Self> {
        let mut all = Vec::new();
        let (mut rest, mut line) = (text, 1);
        while let Some(first) = rest.chars().next() {
            let fault = |message: String| Error::new(ErrorKind::Syntax, SourceLocation::Line(line), message);
            let at_start = rest.len() == text.len() || text[..text.len() - rest.len()].ends_with('\n');
            let mut token = None;
            let length = if first.is_whitespace() || first == '\u{feff}' {
                first.len_utf8()
            } else if rest.starts_with("//") || (first == '#' && at_start) {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                2 + 2
                    + comment
                        .find("*/")
                        .ok_or_else(|| fault("a comment begins here: expected its end, */".into()))?
            } else if rest.starts_with("->") {
                token = Some((Token::Arrow, false));
                2
            } else if rest.starts_with("--") {
                return Err(fault("\"--\" is an edge without direction: expected \"->\"".into()));
            } else if "{}[]=;,:".contains(first) {
                token = Some((Token::Sign(first), false));
                1
            } else if first == '"' {
                let (word, length) = quoted(rest)
                    .ok_or_else(|| fault("a quotation begins here: expected its end, \"".into()))?;
                token = Some((Token::Id(word), false));
                length
            } else if first == '<' {
                let length =
                    html(rest).ok_or_else(|| fault("\"<\" begins a label: expected its end, >".into()))?;
                token = Some((Token::Id(rest[..length].into()), false));
                length
            } else {
                let length = word(rest);
                if length == 0 {
                    let there = shown(first.encode_utf8(&mut [0; 4]));
                    return Err(fault(format!(
                        "{there} cannot be part of a word: expected a name, in quotes if it is not a word"
                    )));
                }
                token = Some((Token::Id(rest[..length].into()), true));
                length
            };
            if let Some((token, bare)) = token {
                all.push(Found { token, line, bare });
            }
            line += rest.as_bytes()[..length].iter().filter(|&&byte| byte == b'\n').count();
            rest = &rest[length..];
        }
        Ok(Tokens { all, at: 0 })
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.all.get(self.at).map(|found| &found.token)
    }

    /// Returns the line of the next token, or of the last token at the end of the file.
    pub(super) fn line(&self) -> usize {
        self.all.get(self.at).or(self.all.last()).map_or(1, |found| found.line)
    }

    pub(super) fn take(&mut self, sign: char) -> bool {
        self.take_if(|found| found.token == Token::Sign(sign))
    }

    pub(super) fn take_arrow(&mut self) -> bool {
        self.take_if(|found| found.token == Token::Arrow)
    }

    /// Consumes a keyword if it is the next token. Returns true if it was. Keywords are case-insensitive.
    pub(super) fn take_keyword(&mut self, keyword: &str) -> bool {
        self.take_if(|found| {
            found.bare && matches!(&found.token, Token::Id(word) if word.eq_ignore_ascii_case(keyword))
        })
    }

    fn take_if(&mut self, is_it: impl Fn(&Found) -> bool) -> bool {
        let taken = self.all.get(self.at).is_some_and(is_it);
        self.at += usize::from(taken);
        taken
    }

    pub(super) fn expect(&mut self, sign: char) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("{sign:?}"))) }
    }

    pub(super) fn take_id(&mut self) -> Option<String> {
        let Some(Found { token: Token::Id(word), .. }) = self.all.get_mut(self.at) else { return None };
        self.at += 1;
        // Each token is consumed only once. Its text can therefore be moved out of the list of tokens.
        Some(std::mem::take(word))
    }

    pub(super) fn id(&mut self, expected: &str) -> Result<String> {
        self.take_id().ok_or_else(|| self.unexpected(expected))
    }

    pub(super) fn unexpected(&self, expected: &str) -> Error {
        let there = match self.peek() {
            None => "the end of the file".into(),
            Some(Token::Arrow) => "\"->\"".into(),
            Some(Token::Sign(sign)) => format!("\"{sign}\""),
            Some(Token::Id(word)) => shown(word),
        };
        let message = format!("found {there}: expected {expected}");
        Error::new(ErrorKind::Syntax, SourceLocation::Line(self.line()), message)
    }
}

/// Parses text in quotation marks. Returns the text, and its length including the quotation marks. As in Graphviz, `\"` is the only escape
/// sequence.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut word = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((place, c)) = characters.next() {
        match c {
            '"' => return Some((word, place + 1)),
            '\\' => match characters.peek() {
                Some((_, '"')) => {
                    word.push('"');
                    characters.next();
                }
                _ => word.push(c),
            },
            _ => word.push(c),
        }
    }
    None
}

/// Returns the length of an HTML label, which ends where its angle brackets are balanced.
fn html(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (place, c) in text.char_indices() {
        match c {
            '<' => open += 1,
            '>' if open == 1 => return Some(place + 1),
            '>' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the length of a word, or of a number with its sign.
fn word(text: &str) -> usize {
    let sign = usize::from(text.starts_with('-'));
    let inner = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let length = text[sign..].find(|c: char| !inner(c)).unwrap_or(text.len() - sign);
    if length == 0 { 0 } else { sign + length }
}
