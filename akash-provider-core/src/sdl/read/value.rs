//! Access to the tree that tracks the path of each value.

use crate::sdl::diagnostics::Diagnostics;
use crate::sdl::fault::{ErrorKind, Location, SdlError, truncated};
use crate::sdl::node::{Content, Scalar, YamlKey, YamlNode};
use crate::sdl::scalar::{self, QuantityError};
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(super) struct ValueRef<'a> {
    node: &'a YamlNode,
    pub(super) spot: Location,
}

#[derive(Debug)]
pub(super) struct MapFields<'a> {
    entries: &'a [(YamlKey, Rc<YamlNode>)],
    pub(super) spot: Location,
}

impl<'a> ValueRef<'a> {
    pub(super) fn top(node: &'a YamlNode) -> Self {
        let spot = Location::new(node.line, "document");
        Self { node, spot }
    }

    /// Returns the fields of a map. An empty value is an empty map.
    pub(super) fn map(&self) -> Result<MapFields<'a>, SdlError> {
        let entries: &[_] = match &self.node.content {
            Content::Map(entries) => entries,
            Content::Scalar(_) if self.node.is_null() => &[],
            Content::Scalar(_) | Content::List(_) => {
                return Err(self.wrong_type("a map", "write `key: value` lines below it"));
            }
        };
        let spot = self.spot.clone();
        Ok(MapFields { entries, spot })
    }

    /// Returns the items of a list. Empty items are skipped with a warning, as in the Akash tools.
    pub(super) fn list(&self, notes: &mut Diagnostics) -> Result<Vec<Self>, SdlError> {
        let Content::List(items) = &self.node.content else {
            return Err(self.wrong_type("a list", "write `- item` lines below it"));
        };
        let mut list = Vec::with_capacity(items.len());
        for (n, node) in items.iter().enumerate() {
            let spot = Location::new(node.line, format!("{}[{n}]", self.spot.path));
            if node.is_null() {
                notes.warn(spot.warning("an empty item is skipped", "fill it or remove it"));
            } else {
                list.push(ValueRef { node, spot });
            }
        }
        Ok(list)
    }

    pub(super) fn texts(&self, notes: &mut Diagnostics) -> Result<Vec<String>, SdlError> {
        let items = self.list(notes)?;
        let texts = items.iter().map(ValueRef::text);
        Ok(texts
            .filter_map(|text| notes.keep(text).map(str::to_owned))
            .collect())
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.node.content, Content::List(_))
    }

    /// Returns a text, or another scalar as written. An empty value is the empty text.
    pub(super) fn text(&self) -> Result<&'a str, SdlError> {
        if self.node.is_null() {
            return Ok("");
        }
        Ok(self
            .scalar("a single value", "write it on one line")?
            .text
            .as_str())
    }

    pub(super) fn flag(&self) -> Result<bool, SdlError> {
        let help = "write `true` or `false` without quotes";
        let Scalar { text, plain } = self.scalar("a boolean", help)?;
        scalar::flag(text, *plain).ok_or_else(|| {
            let problem = format!("`{}` is not a boolean", truncated(text));
            self.spot.error(ErrorKind::WrongType, problem, help)
        })
    }

    /// Returns an integer from 0 to `max`.
    pub(super) fn whole(&self, max: u32) -> Result<u32, SdlError> {
        let help = format!("write a whole number from 0 to {max}, without quotes");
        let Scalar { text, plain } = self.scalar("a number", &help)?;
        // YAML defines a quoted number as a text.
        let value = if *plain {
            scalar::whole(text)
        } else {
            Err(QuantityError::NotANumber)
        };
        match value.map(u32::try_from) {
            Ok(Ok(value)) if value <= max => Ok(value),
            Ok(_) | Err(QuantityError::TooLarge | QuantityError::Negative) => {
                let problem = format!("{} is out of range", truncated(text));
                Err(self.spot.error(ErrorKind::Invalid, problem, help))
            }
            Err(QuantityError::NotANumber) => {
                let problem = format!("`{}` is not a whole number", truncated(text));
                Err(self.spot.error(ErrorKind::WrongType, problem, help))
            }
        }
    }

    pub(super) fn quantity(
        &self,
        read: fn(&str) -> Result<u64, QuantityError>,
        help: &str,
    ) -> Result<u64, SdlError> {
        let text = self.text()?;
        read(text).map_err(|bad| {
            let problem = match bad {
                QuantityError::NotANumber => format!("`{}` is not a quantity", truncated(text)),
                QuantityError::Negative => format!("`{}` is negative", truncated(text)),
                QuantityError::TooLarge => format!("`{}` is too large", truncated(text)),
            };
            self.spot.error(ErrorKind::Invalid, problem, help)
        })
    }

    fn scalar(&self, wanted: &str, help: &str) -> Result<&'a Scalar, SdlError> {
        match &self.node.content {
            Content::Scalar(scalar) => Ok(scalar),
            Content::List(_) | Content::Map(_) => Err(self.wrong_type(wanted, help)),
        }
    }

    /// Returns an error that names the actual type.
    pub(super) fn wrong_type(&self, wanted: &str, help: &str) -> SdlError {
        let found = match &self.node.content {
            Content::Scalar(_) => "a single value",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        };
        let problem = format!("this is {found}, expected {wanted}");
        self.spot.error(ErrorKind::WrongType, problem, help)
    }
}

impl<'a> MapFields<'a> {
    /// Adds an error for each field that is not among `names`.
    pub(super) fn only(&self, names: &[&str], notes: &mut Diagnostics) {
        for (spot, problem, help) in self.others(names) {
            notes.wrong(spot.error(ErrorKind::UnknownField, problem, help));
        }
    }

    /// Adds a warning for each field that is not among `names`. The Akash tools ignore such fields.
    pub(super) fn warn_others(&self, names: &[&str], notes: &mut Diagnostics) {
        for (spot, problem, help) in self.others(names) {
            notes.warn(spot.warning(format!("{problem} and ignored"), help));
        }
    }

    /// Returns location, problem and remedy of each unknown field.
    fn others<'k>(&'k self, names: &'k [&str]) -> impl Iterator<Item = (Location, String, String)> + 'k {
        let others = self.entries.iter().map(|(key, _)| key);
        let others = others.filter(|key| !names.contains(&key.text.as_str()));
        others.map(|key| {
            let spot = Location::new(key.line, self.path(&key.text));
            let problem = format!("the field `{}` is unknown", truncated(&key.text));
            (spot, problem, format!("use one of {}", names.join(", ")))
        })
    }

    /// Returns a field if it exists and is not null.
    pub(super) fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        self.present(name).filter(|at| !at.node.is_null())
    }

    /// Returns a field, even if the value is null. Returns `None` if the field does not exist.
    pub(super) fn present(&self, name: &str) -> Option<ValueRef<'a>> {
        let (key, node) = self.entries.iter().find(|(key, _)| key.text == name)?;
        // The line of the key, because the value may start on a later line.
        let spot = Location::new(key.line, self.path(name));
        Some(ValueRef { node, spot })
    }

    pub(super) fn required(&self, name: &str, help: &str) -> Result<ValueRef<'a>, SdlError> {
        self.get(name).ok_or_else(|| {
            let problem = format!("`{name}` is missing");
            self.spot.error(ErrorKind::MissingField, problem, help)
        })
    }

    /// Returns every field, in the sequence of the text.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> {
        self.entries.iter().map(|(key, node)| {
            let spot = Location::new(key.line, self.path(&key.text));
            (key.text.as_str(), ValueRef { node, spot })
        })
    }

    /// Returns a text field; empty if the field is missing.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, SdlError> {
        self.get(name).map_or(Ok(""), |at| at.text())
    }

    /// Returns a boolean field; false if the field is missing.
    pub(super) fn flag(&self, name: &str) -> Result<bool, SdlError> {
        self.get(name).map_or(Ok(false), |at| at.flag())
    }

    /// Returns an integer field from 0 to `max`; 0 if the field is missing.
    pub(super) fn whole(&self, name: &str, max: u32) -> Result<u32, SdlError> {
        self.get(name).map_or(Ok(0), |at| at.whole(max))
    }

    /// Returns a list of texts, or `None` if the field is missing.
    pub(super) fn texts(&self, name: &str, notes: &mut Diagnostics) -> Result<Option<Vec<String>>, SdlError> {
        self.get(name).map(|at| at.texts(notes)).transpose()
    }

    fn path(&self, name: &str) -> String {
        if self.spot.path == "document" {
            return name.to_owned();
        }
        format!("{}.{name}", self.spot.path)
    }
}
