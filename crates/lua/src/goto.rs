//! Translation of Lua 5.2's `goto`, which Argo CD's interpreter supports, to Lua 5.1.
//!
//! The code between a `goto` and its label becomes the body of a loop that runs once, and the `goto` becomes the
//! `break` of that loop:
//!
//! ```lua
//! for _, part in ipairs(parts) do           for _, part in ipairs(parts) do
//!   if part.done then goto continue end       repeat if part.done then do break end end
//!   count = count + 1                         count = count + 1
//!   ::continue::                              until true
//! end                                       end
//! ```
//!
//! A `goto` out of several loops, or out of an existing loop, sets a flag, which each loop on the way checks after it
//! ends. Line numbers do not change. Backward jumps are rejected: write them as loops.

use std::collections::HashMap;
use std::ops::Range;

use crate::{Error, MAX_JUMPS, too_many_jumps};

/// Maximum nesting of blocks in a script with `goto`, the limit of Lua's parser.
const MAX_NESTING: usize = 200;

/// The script without `goto`; `None` if there is none in it.
pub(crate) fn lower(source: &str) -> Result<Option<String>, Error> {
    // Most scripts have neither a jump nor a label.
    if ["goto", "::"].iter().all(|word| memchr::memmem::find(source.as_bytes(), word.as_bytes()).is_none()) {
        return Ok(None);
    }
    let Some(mut blocks) = Blocks::read(source)? else { return Ok(None) };
    if blocks.gotos.is_empty() && blocks.labels.is_empty() {
        return Ok(None);
    }
    blocks.find_targets()?;
    let mut edits = blocks.edits()?;
    edits.sort_by_key(|edit| (edit.at.start, edit.order));
    let mut lowered = String::with_capacity(source.len() + 64 * edits.len());
    let mut written = 0;
    for edit in edits {
        lowered.push_str(&source[written..edit.at.start]);
        lowered.push_str(&edit.text);
        written = edit.at.end;
    }
    lowered.push_str(&source[written..]);
    Ok(Some(lowered))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    /// A branch of an `if`, or a plain `do` block.
    Plain,
    /// The body of a `while` or `for`.
    Loop,
    Repeat,
}

/// List of statements.
struct Block {
    kind: Kind,
    parent: usize,
    /// Start of the statement that contains the block.
    statement: usize,
    /// Position after the `end` or `until` that closes the statement.
    end: usize,
    /// Token after `local`.
    locals: Vec<usize>,
    labels: Vec<usize>,
    /// Generated loops, each nested in or disjoint from the others.
    regions: Vec<usize>,
}

struct Label {
    name: String,
    at: Range<usize>,
    block: usize,
    /// Whether the label ends its block.
    is_last: bool,
    /// Start of the generated loop, if a `goto` targets the label.
    from: Option<usize>,
    /// Text to insert at the beginning, around `repeat`, and after the end.
    before: String,
    inside: String,
    behind: String,
}

struct Goto {
    name: String,
    at: Range<usize>,
    block: usize,
}

/// Blocks, labels and jumps of a script.
struct Blocks<'s> {
    source: &'s str,
    blocks: Vec<Block>,
    labels: Vec<Label>,
    gotos: Vec<Goto>,
    breaks: Vec<(Range<usize>, usize)>,
    /// One per goto.
    targets: Vec<usize>,
    /// Number of loops that other jumps leave through a flag.
    crossed: usize,
}

struct Edit {
    at: Range<usize>,
    /// Order of insertions at the same position.
    order: usize,
    text: String,
}

/// Blocks that are open while the source is scanned.
struct Open {
    block: usize,
    /// `while` or `for` before its `do`, `if` before its `then`.
    header: bool,
}

impl<'s> Blocks<'s> {
    /// `None` if the source is not valid Lua: Lua's own parser has the better message.
    fn read(source: &'s str) -> Result<Option<Self>, Error> {
        let mut all = Self {
            source,
            blocks: vec![Block::new(Kind::Function, 0, 0)],
            labels: Vec::new(),
            gotos: Vec::new(),
            breaks: Vec::new(),
            targets: Vec::new(),
            crossed: 0,
        };
        let mut open = vec![Open { block: 0, header: false }];
        let mut tokens = Tokens { source, at: 0 }.peekable();
        // Labels followed only by labels end their block.
        let mut last_labels: Vec<usize> = Vec::new();
        while let Some(at) = tokens.next() {
            let text = &source[at.clone()];
            let Some(top) = open.last_mut() else { return Ok(None) };
            let block = top.block;
            // The condition after `until` can use the locals of its block.
            if matches!(text, "end" | "else" | "elseif") {
                last_labels.iter().for_each(|&label| all.labels[label].is_last = true);
            }
            if !matches!(text, "::" | ";") {
                last_labels.clear();
            }
            match text {
                "function" => open.push(all.open(Kind::Function, block, at.start)),
                "repeat" => open.push(all.open(Kind::Repeat, block, at.start)),
                "while" | "for" => {
                    open.push(all.open(Kind::Loop, block, at.start));
                    open.last_mut().into_iter().for_each(|top| top.header = true);
                }
                "if" => {
                    open.push(all.open(Kind::Plain, block, at.start));
                    open.last_mut().into_iter().for_each(|top| top.header = true);
                }
                "do" if top.header => top.header = false,
                "do" => open.push(all.open(Kind::Plain, block, at.start)),
                "then" => top.header = false,
                // Next branch of the same statement.
                "else" | "elseif" => {
                    let (parent, statement) = (all.blocks[block].parent, all.blocks[block].statement);
                    *top = all.open(Kind::Plain, parent, statement);
                    top.header = text == "elseif";
                }
                "end" | "until" => {
                    all.blocks[block].end = at.end;
                    if open.len() == 1 {
                        return Ok(None);
                    }
                    open.pop();
                }
                "local" => all.blocks[block].locals.push(at.start),
                "break" => all.breaks.push((at.clone(), block)),
                "goto" => {
                    // A lone `goto` is an ordinary name.
                    if let Some(name) = tokens.next_if(|next| is_name(&source[next.clone()])) {
                        let at = at.start..name.end;
                        all.gotos.push(Goto { name: source[name].to_owned(), at, block });
                    }
                }
                "::" => {
                    let (Some(name), Some(close)) = (tokens.next(), tokens.next()) else { return Ok(None) };
                    if !is_name(&source[name.clone()]) || &source[close.clone()] != "::" {
                        return Ok(None);
                    }
                    all.blocks[block].labels.push(all.labels.len());
                    last_labels.push(all.labels.len());
                    all.labels.push(Label {
                        name: source[name].to_owned(),
                        at: at.start..close.end,
                        block,
                        is_last: false,
                        from: None,
                        before: String::new(),
                        inside: String::new(),
                        behind: String::new(),
                    });
                }
                _ => {}
            }
            if open.len() > MAX_NESTING {
                return Err(all.error("chunk has too many syntax levels", at.start));
            }
        }
        last_labels.iter().for_each(|&label| all.labels[label].is_last = true);
        Ok((open.len() == 1).then_some(all))
    }

    fn open(&mut self, kind: Kind, parent: usize, statement: usize) -> Open {
        self.blocks.push(Block::new(kind, parent, statement));
        Open { block: self.blocks.len() - 1, header: false }
    }

    fn error(&self, message: impl Into<String>, at: usize) -> Error {
        let lines = memchr::memchr_iter(b'\n', &self.source.as_bytes()[..at]).count();
        Error::Syntax { message: message.into(), line: u32::try_from(lines + 1).ok() }
    }

    /// Finds the label of each goto and the loops to generate for it.
    fn find_targets(&mut self) -> Result<(), Error> {
        let mut names = HashMap::new();
        for (index, label) in self.labels.iter().enumerate() {
            if names.insert((label.block, &*label.name), index).is_some() {
                return Err(self.error(format!("label '{}' is there twice", label.name), label.at.start));
            }
        }
        let mut targets = Vec::new();
        let mut begins = vec![None; self.labels.len()];
        for goto in &self.gotos {
            let (mut block, mut at) = (goto.block, goto.at.start);
            let label = loop {
                if let Some(&label) = names.get(&(block, &*goto.name)) {
                    break label;
                }
                // Jumps do not cross function boundaries.
                if self.blocks[block].kind == Kind::Function {
                    let what = format!("no visible label '{}' for goto", goto.name);
                    return Err(self.error(what, goto.at.start));
                }
                at = self.blocks[block].statement;
                block = self.blocks[block].parent;
            };
            if self.labels[label].at.start < at {
                let what =
                    format!("goto '{}' jumps backwards, which is not supported: use a loop", goto.name);
                return Err(self.error(what, goto.at.start));
            }
            begins[label] = Some(begins[label].map_or(at, |from: usize| from.min(at)));
            targets.push(label);
        }
        self.targets = targets;
        for (index, from) in begins.into_iter().enumerate() {
            let Some(mut from) = from else { continue };
            let label = &self.labels[index];
            let is_crossed = |local: &&usize| (from..label.at.start).contains(*local);
            if !label.is_last && self.blocks[label.block].locals.iter().any(|local| is_crossed(&local)) {
                let what = format!("goto '{}' jumps into the scope of a local", label.name);
                return Err(self.error(what, label.at.start));
            }
            // Loops are nested or disjoint.
            for &region in &self.blocks[label.block].regions {
                let other = &self.labels[region];
                if let Some(other_from) = other.from
                    && (other_from..other.at.start).contains(&from)
                {
                    from = other_from;
                }
            }
            self.labels[index].from = Some(from);
            let block = self.labels[index].block;
            self.blocks[block].regions.push(index);
        }
        Ok(())
    }

    /// Loops around a position of a block, innermost first, up to the enclosing function.
    fn around(&self, mut block: usize, mut at: usize) -> Vec<Loop> {
        let mut loops = Vec::new();
        loop {
            let Block { kind, parent, statement, ref regions, .. } = self.blocks[block];
            // Labels are sorted, and so are the ends of their loops.
            let within = regions.iter().copied().filter(|&region| {
                let label = &self.labels[region];
                label.from.is_some_and(|from| (from..label.at.start).contains(&at))
            });
            loops.extend(within.map(Loop::Region));
            match kind {
                Kind::Function => return loops,
                Kind::Loop | Kind::Repeat => loops.push(Loop::Block(block)),
                Kind::Plain => {}
            }
            (block, at) = (parent, statement);
        }
    }

    fn edits(&mut self) -> Result<Vec<Edit>, Error> {
        let mut edits = Vec::new();
        let mut behind: HashMap<usize, String> = HashMap::new();
        for index in 0..self.gotos.len() {
            let Goto { block, ref at, .. } = self.gotos[index];
            let (at, target) = (at.clone(), self.targets[index]);
            let crossed: Vec<Loop> = self
                .around(block, at.start)
                .into_iter()
                .take_while(|&it| it != Loop::Region(target))
                .collect();
            if crossed.is_empty() {
                edits.push(Edit { at, order: 0, text: "do break end".to_owned() });
                continue;
            }
            let flag = format!("__goto{index}");
            self.labels[target].inside += &format!("local {flag} ");
            for it in crossed {
                self.leave(it, &flag, &mut behind, at.start)?;
            }
            edits.push(Edit { at, order: 0, text: format!("do {flag}=true break end") });
        }
        for (index, (at, block)) in std::mem::take(&mut self.breaks).into_iter().enumerate() {
            let around = self.around(block, at.start);
            let crossed: Vec<Loop> =
                around.into_iter().take_while(|it| matches!(it, Loop::Region(_))).collect();
            let Some(&Loop::Region(outermost)) = crossed.last() else { continue };
            let flag = format!("__break{index}");
            self.labels[outermost].before += &format!("local {flag} ");
            for it in crossed {
                self.leave(it, &flag, &mut behind, at.start)?;
            }
            edits.push(Edit { at, order: 0, text: format!("do {flag}=true break end") });
        }
        for (order, label) in self.labels.iter().enumerate() {
            let Some(from) = label.from else {
                // Separates statements: the next one may begin with a parenthesis. Nothing can follow a `break`.
                let text = if label.is_last { " " } else { " do end " };
                edits.push(Edit { at: label.at.clone(), order: 0, text: text.to_owned() });
                continue;
            };
            // Of loops with the same start, the one that ends last is the outermost.
            let text = format!("{}repeat {}", label.before, label.inside);
            edits.push(Edit { at: from..from, order: 0, text });
            edits.last_mut().into_iter().for_each(|edit| edit.order = usize::MAX / 2 - order);
            edits.push(Edit {
                at: label.at.clone(),
                order: 0,
                text: format!(" until true {}", label.behind),
            });
        }
        for (at, text) in behind {
            edits.push(Edit { at: at..at, order: 0, text: format!(" {text}") });
        }
        // Replacements follow insertions at the same position.
        for edit in &mut edits {
            if !edit.at.is_empty() {
                edit.order = usize::MAX;
            }
        }
        Ok(edits)
    }

    /// Makes a loop end if the flag is set after the loop inside it.
    fn leave(
        &mut self,
        it: Loop,
        flag: &str,
        behind: &mut HashMap<usize, String>,
        at: usize,
    ) -> Result<(), Error> {
        let check = format!("if {flag} then break end ");
        self.crossed += 1;
        if self.crossed > MAX_JUMPS {
            return Err(too_many_jumps());
        }
        match it {
            Loop::Region(label) => self.labels[label].behind += &check,
            Loop::Block(block) if self.blocks[block].kind == Kind::Repeat => {
                // Finding the end of the condition would need a full parser.
                return Err(self.error("goto jumps out of 'repeat', which is not supported", at));
            }
            Loop::Block(block) => behind.entry(self.blocks[block].end).or_default().push_str(&check),
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Loop of the script: its body.
    Block(usize),
    /// Generated for a label.
    Region(usize),
}

impl Block {
    const fn new(kind: Kind, parent: usize, statement: usize) -> Self {
        Self { kind, parent, statement, end: 0, locals: Vec::new(), labels: Vec::new(), regions: Vec::new() }
    }
}

/// Names, keywords, `::` and other single characters. Strings and comments are skipped; strings keep their position.
struct Tokens<'s> {
    source: &'s str,
    at: usize,
}

fn is_name(token: &str) -> bool {
    const WORDS: [&str; 21] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
        "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
    ];
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !WORDS.contains(&token)
}

impl Tokens<'_> {
    /// Position after the long-bracket string or comment that begins here, if any.
    fn long_bracket(&self, at: usize) -> Option<usize> {
        let rest = self.source.as_bytes().get(at..)?.strip_prefix(b"[")?;
        let level = rest.iter().take_while(|&&b| b == b'=').count();
        if rest.get(level) != Some(&b'[') {
            return None;
        }
        let close = format!("]{}]", "=".repeat(level));
        let body = at + level + 2;
        let found = memchr::memmem::find(&self.source.as_bytes()[body..], close.as_bytes());
        Some(found.map_or(self.source.len(), |found| body + found + close.len()))
    }
}

impl Iterator for Tokens<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.source.as_bytes();
        loop {
            let start = self.at;
            let first = *bytes.get(start)?;
            let end = match first {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                    self.at += 1;
                    continue;
                }
                b'-' if bytes.get(start + 1) == Some(&b'-') => {
                    let line = || memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
                    self.at = self.long_bracket(start + 2).unwrap_or_else(line);
                    continue;
                }
                b'"' | b'\'' => {
                    let mut at = start + 1;
                    while let Some(&byte) = bytes.get(at)
                        && byte != first
                    {
                        at += if byte == b'\\' { 2 } else { 1 };
                    }
                    (at + 1).min(bytes.len())
                }
                b'[' => self.long_bracket(start).unwrap_or(start + 1),
                b':' if bytes.get(start + 1) == Some(&b':') => start + 2,
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                    let rest = &bytes[start..];
                    start + rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
                }
                // Part of a name, or invalid, which Lua reports.
                0x80.. => {
                    let rest = &bytes[start..];
                    start + rest.iter().take_while(|b| **b >= 0x80).count()
                }
                _ => start + 1,
            };
            self.at = end;
            return Some(start..end);
        }
    }
}
