//! YAML as a tree with line numbers and limits on size and depth.
//!
//! Aliases share the anchored node. The expanded size is only counted, so that an alias bomb is refused
//! without expansion. Merge keys (`<<`) are supported below the top level, as in the Akash tools.

use super::diagnostics::Diagnostics;
use super::fault::{ErrorKind, Location, SdlError, truncated};
use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Tag};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Maximum length of a text, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Maximum nesting depth. An SDL needs ten levels.
pub const MAX_DEPTH: usize = 32;

/// Maximum number of nodes in a document. Each alias counts with all its nodes.
pub const MAX_NODES: usize = 50_000;

/// Maximum length of a key, in bytes. Attribute keys of the Akash network have at most 128 bytes.
pub const MAX_KEY: usize = 256;

/// Parsed value, with the line on which it starts.
#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) line: u32,
    pub(super) content: Content,
    /// Number of nodes in this tree, including the nodes of each alias.
    size: usize,
    /// Number of levels of this tree, including the node itself.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar(Scalar),
    List(Vec<Rc<YamlNode>>),
    Map(Vec<(YamlKey, Rc<YamlNode>)>),
}

/// Scalar as written in the text. `plain` is true for an unquoted scalar.
#[derive(Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    pub(super) plain: bool,
}

#[derive(Debug, Clone)]
pub(super) struct YamlKey {
    pub(super) line: u32,
    pub(super) text: String,
}

impl YamlNode {
    /// Returns whether the value is `null`, `~` or empty.
    pub(super) fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar(scalar) => {
                scalar.plain && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::List(_) | Content::Map(_) => false,
        }
    }
}

/// Parses the first document of a text.
///
/// # Errors
/// Returns an error for a text that is too large, invalid YAML, a duplicate key, an invalid alias, or an unsupported tag.
pub(super) fn load(text: &str, notes: &mut Diagnostics) -> Result<Rc<YamlNode>, SdlError> {
    if text.len() > MAX_BYTES {
        let problem = format!(
            "{} bytes are more than the {MAX_BYTES} an SDL may have",
            text.len()
        );
        return Err(Location::new(1, "document").error(ErrorKind::TooLarge, problem, "shorten it"));
    }
    let mut text = Cow::Borrowed(text);
    let mut tries = 0;
    loop {
        let (line, error) = match read(&text, notes) {
            Err(ReadError::Shallow(line, error)) => (line, error),
            Err(ReadError::Wrong(error)) => return Err(error),
            Ok(root) => return Ok(root),
        };
        let deeper = deepened(&text, line).filter(|_| tries < MAX_SHALLOW);
        text = deeper.map(Cow::Owned).ok_or(error)?;
        tries += 1;
    }
}

/// Maximum number of quoted texts that the parser indents in one document.
const MAX_SHALLOW: usize = 32;
/// Maximum number of lines that the parser indents in one quoted text.
const MAX_LINES: usize = 200;
/// Indentation that the parser adds to the lines of quoted texts. No SDL has a deeper indentation.
const DEEP: &str =
    "                                                                                                ";

/// Reason why a text could not be parsed.
enum ReadError {
    Wrong(SdlError),
    /// Line of quoted text with too little indentation. The Akash tools accept such lines; YAML does not.
    Shallow(usize, SdlError),
}

impl From<SdlError> for ReadError {
    fn from(error: SdlError) -> Self {
        Self::Wrong(error)
    }
}

/// Indents a line of quoted text and the lines up to the next quotation mark. Returns `None` if the line is
/// already indented, or if no quotation mark follows within [`MAX_LINES`] lines.
fn deepened(text: &str, line: usize) -> Option<String> {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.checked_sub(1)?)
        .map(str::len)
        .sum();
    let (before, rest) = text.split_at_checked(start)?;
    if rest.starts_with(DEEP) {
        return None;
    }
    let mut deep = before.to_owned();
    let mut lines = rest.split_inclusive('\n');
    for one in lines.by_ref().take(MAX_LINES) {
        deep.push_str(DEEP);
        deep.push_str(one);
        if one.contains(['"', '\'']) {
            deep.extend(lines);
            return Some(deep);
        }
    }
    None
}

fn read(text: &str, notes: &mut Diagnostics) -> Result<Rc<YamlNode>, ReadError> {
    let mut options = Options::default();
    // A feature that other crates of a build can enable; comment events are not supported here.
    options.set_emit_comments(false);
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut tree = YamlTree::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| unread(&error))?;
        // A tagged node starts with its tag, which may be on a line before its content.
        let line = line(span.tag_start().unwrap_or(span.start).line());
        // After the root, only the end of the document or another document may follow.
        if let Some(root) = tree.root.take() {
            if matches!(event, Event::DocumentStart(..)) {
                let spot = Location::new(line, "document");
                notes.warn(spot.warning(
                    "only the first document of the text is read",
                    "move further documents to separate files",
                ));
                return Ok(root);
            }
            tree.root = Some(root);
        }
        tree.take(event, line)?;
    }
    let empty = || {
        let spot = Location::new(1, "document");
        spot.error(
            ErrorKind::MissingField,
            "the text is empty",
            "start with `version: \"2.0\"`",
        )
    };
    Ok(tree.root.ok_or_else(empty)?)
}

fn unread(error: &ScanError) -> ReadError {
    let at = error.marker().line();
    let problem = format!("this is not YAML: {}", truncated(&error.info()));
    let help = "check the indentation, quotes and brackets near this line";
    let wrong = Location::new(line(at), "document").error(ErrorKind::Syntax, problem, help);
    if matches!(error.kind(), granit_parser::ErrorKind::InvalidQuotedScalarIndent) {
        return ReadError::Shallow(at, wrong);
    }
    ReadError::Wrong(wrong)
}

fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).max(1)
}

struct OpenContainer {
    line: u32,
    anchor: usize,
    content: Content,
    /// Key of the next value.
    key: Option<YamlKey>,
}

#[derive(Default)]
struct YamlTree {
    open: Vec<OpenContainer>,
    anchors: BTreeMap<usize, Rc<YamlNode>>,
    root: Option<Rc<YamlNode>>,
    nodes: usize,
}

impl YamlTree {
    fn take(&mut self, event: Event<'_>, line: u32) -> Result<(), SdlError> {
        match event {
            Event::Alias(id) => {
                // Only complete nodes are anchored, so an alias cannot contain itself.
                let node = self.anchors.get(&id).cloned().ok_or_else(|| {
                    let problem = "this alias refers to an incomplete value";
                    self.spot(line)
                        .error(ErrorKind::Syntax, problem, "define the anchor before this value")
                })?;
                self.place(node, line)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = self.is_plain(style, tag.as_deref(), line)?;
                let text = text.into_owned();
                self.finish(line, anchor, Content::Scalar(Scalar { text, plain }))
            }
            Event::SequenceStart(_, anchor, tag) => self.start(line, anchor, tag, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, tag) => self.start(line, anchor, tag, Content::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => {
                    let content = match open.content {
                        Content::Map(entries) => Content::Map(self.merge(entries)?),
                        content @ (Content::List(_) | Content::Scalar(_)) => content,
                    };
                    self.finish(open.line, open.anchor, content)
                }
                None => Ok(()),
            },
            // Start and end of streams and documents, and optional events.
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        line: u32,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        content: Content,
    ) -> Result<(), SdlError> {
        if let Some(tag) = tag
            && !matches!(tag.core_suffix(), Some("map" | "seq"))
        {
            return Err(self.strange_tag(&tag, line));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.too_deep(line));
        }
        self.open.push(OpenContainer {
            line,
            anchor,
            content,
            key: None,
        });
        Ok(())
    }

    fn finish(&mut self, line: u32, anchor: usize, content: Content) -> Result<(), SdlError> {
        let (size, height) = match &content {
            Content::Scalar(_) => (0, 0),
            Content::List(items) => measure(items.iter()),
            Content::Map(entries) => {
                let (size, height) = measure(entries.iter().map(|(_, node)| node));
                (size.saturating_add(entries.len()), height)
            }
        };
        let node = Rc::new(YamlNode {
            line,
            content,
            size: size.saturating_add(1),
            height: height + 1,
        });
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.place(node, line)
    }

    /// Adds a complete node to the innermost open list or map, or as the root.
    fn place(&mut self, node: Rc<YamlNode>, line: u32) -> Result<(), SdlError> {
        self.nodes += 1;
        if node.size > MAX_NODES || self.nodes > MAX_NODES {
            let problem =
                format!("there are more than {MAX_NODES} values here, aliases counted as often as used");
            return Err(self.spot(line).error(ErrorKind::TooLarge, problem, "shorten it"));
        }
        // An alias adds its whole height at once, in addition to the open containers.
        if self.open.len() + node.height > MAX_DEPTH {
            return Err(self.too_deep(line));
        }
        let is_key = |open: &OpenContainer| matches!(open.content, Content::Map(_)) && open.key.is_none();
        let key = match self.open.last() {
            Some(open) if is_key(open) => Some(self.key(&node, line)?),
            Some(_) | None => None,
        };
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.content {
            Content::Scalar(_) => {}
            Content::List(items) => items.push(node),
            Content::Map(entries) => match open.key.take() {
                Some(key) => entries.push((key, node)),
                None => open.key = key,
            },
        }
        Ok(())
    }

    fn key(&self, node: &YamlNode, line: u32) -> Result<YamlKey, SdlError> {
        let Content::Scalar(scalar) = &node.content else {
            let problem = "a key is a list or a map";
            return Err(self
                .spot(line)
                .error(ErrorKind::WrongType, problem, "use a plain text as the key"));
        };
        if node.is_null() || scalar.text.is_empty() {
            return Err(self
                .spot(line)
                .error(ErrorKind::WrongType, "a key is empty", "add a name"));
        }
        if scalar.text.len() > MAX_KEY {
            let problem = format!(
                "the key `{}` has more than {MAX_KEY} bytes",
                truncated(&scalar.text)
            );
            return Err(self.spot(line).error(ErrorKind::TooLarge, problem, "shorten it"));
        }
        Ok(YamlKey {
            line,
            text: scalar.text.clone(),
        })
    }

    /// Replaces the merge keys (`<<`) of a map with the entries of the referenced maps. Duplicate keys are an
    /// error.
    fn merge(&self, entries: Vec<(YamlKey, Rc<YamlNode>)>) -> Result<Vec<(YamlKey, Rc<YamlNode>)>, SdlError> {
        // Before the merge, because only a key written twice in this map is an error.
        let mut own = BTreeSet::new();
        for (key, _) in &entries {
            if !own.insert(key.text.clone()) {
                return Err(self.duplicate(key));
            }
        }
        if self.open.is_empty() {
            // At the top level a merge key is refused as an unknown field.
            return Ok(entries);
        }
        let (merged, mut all): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key.text == "<<");
        for (key, source) in merged {
            let sources = match &source.content {
                Content::List(items) => items.clone(),
                Content::Scalar(_) | Content::Map(_) => vec![source],
            };
            for source in sources {
                let Content::Map(entries) = &source.content else {
                    let spot = self.spot(key.line);
                    let problem = "only maps can be merged";
                    return Err(spot.error(ErrorKind::WrongType, problem, "set `<<` to an alias of a map"));
                };
                for (key, node) in entries {
                    // Keys of the map take precedence over merged keys, and earlier sources over later ones.
                    if own.insert(key.text.clone()) {
                        all.push((key.clone(), Rc::clone(node)));
                    }
                }
            }
        }
        Ok(all)
    }

    fn duplicate(&self, key: &YamlKey) -> SdlError {
        let problem = format!("the key `{}` occurs twice", truncated(&key.text));
        self.spot(key.line)
            .error(ErrorKind::DuplicateKey, problem, "keep one of them")
    }

    /// Returns whether a scalar can be a number, a boolean or null. A quoted scalar is always a text.
    fn is_plain(&self, style: ScalarStyle, tag: Option<&Tag>, line: u32) -> Result<bool, SdlError> {
        let plain = style == ScalarStyle::Plain;
        let Some(tag) = tag else { return Ok(plain) };
        match tag.core_suffix() {
            Some("str") => Ok(false),
            Some("null" | "bool" | "int" | "float") => Ok(true),
            Some(_) | None => Err(self.strange_tag(tag, line)),
        }
    }

    fn strange_tag(&self, tag: &Tag, line: u32) -> SdlError {
        let problem = format!("the tag `{}` is not supported", truncated(&tag.to_string()));
        self.spot(line).error(ErrorKind::Syntax, problem, "remove it")
    }

    fn too_deep(&self, line: u32) -> SdlError {
        let problem = format!("this nests deeper than {MAX_DEPTH} levels");
        self.spot(line)
            .error(ErrorKind::TooLarge, problem, "an SDL needs ten")
    }

    fn spot(&self, line: u32) -> Location {
        let keys: Vec<String> = self
            .open
            .iter()
            .filter_map(|open| match &open.content {
                Content::List(items) => Some(format!("[{}]", items.len())),
                Content::Map(_) => open.key.as_ref().map(|key| key.text.clone()),
                Content::Scalar(_) => None,
            })
            .collect();
        if keys.is_empty() {
            return Location::new(line, "document");
        }
        Location::new(line, keys.join(".").replace(".[", "["))
    }
}

fn measure<'a>(nodes: impl Iterator<Item = &'a Rc<YamlNode>>) -> (usize, usize) {
    nodes.fold((0, 0), |(size, height): (usize, usize), node| {
        (size.saturating_add(node.size), height.max(node.height))
    })
}
