//! Tables (`as=Table`): what `kubectl get` prints.

use std::sync::OnceLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use settled_jsonpath::JsonPath;

use crate::human;
use crate::kinds::columns;
use crate::kinds::partial::{self, MetaVersion};
use crate::kinds::printers::{Printer, Row, print_name_and_creation};
use crate::kinds::strategies;

/// The columns of a kind: what they are called, and how they are filled.
pub(crate) struct Columns {
    definitions: OnceLock<Value>,
    source: Source,
}

enum Source {
    Builtin {
        /// The definitions as JSON: few kinds are ever printed.
        definitions: &'static str,
        print: Printer,
        row_conditions: fn(&Value) -> Option<Value>,
        is_plain: bool,
    },
    Custom(Vec<CustomColumn>),
}

struct CustomColumn {
    kind: String,
    path: JsonPath,
}

/// What stands beside the cells of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The object.
    Object,
}

impl Columns {
    /// The columns of a built-in kind, whichever version of it.
    pub(crate) fn builtin(group: &str, kind: &str) -> Self {
        let strategy = strategies::find(group, kind);
        let own = strategy.print.and_then(|print| Some((columns::definitions(group, kind)?, print)));
        let is_plain = own.is_none();
        let (definitions, print) =
            own.unwrap_or_else(|| (columns::plain_definitions(), print_name_and_creation));
        let source =
            Source::Builtin { definitions, print, row_conditions: strategy.row_conditions, is_plain };
        Self { definitions: OnceLock::new(), source }
    }

    /// The columns of a version of a custom resource, from its `additionalPrinterColumns`. None: name and age.
    ///
    /// A column that cannot be read ends the columns, as upstream.
    pub(crate) fn custom(additional_printer_columns: &Value) -> Self {
        let age = json!([{
            "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            "description": columns::description("Age"),
        }]);
        let columns = match additional_printer_columns.as_array() {
            Some(columns) if !columns.is_empty() => columns,
            _ => age.as_array().map_or(&[][..], Vec::as_slice),
        };
        let mut definitions = vec![json!({
            "name": "Name", "type": "string", "format": "name", "description": columns::description("Name"),
            "priority": 0,
        })];
        let mut custom = Vec::new();
        for column in columns {
            let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
            let path = text("jsonPath");
            let Ok(parsed) = JsonPath::parse(path) else { break };
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                given => given.to_owned(),
            };
            definitions.push(json!({
                "name": text("name"), "type": text("type"), "format": text("format"), "description": description,
                "priority": column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            }));
            custom.push(CustomColumn { kind: text("type").to_owned(), path: parsed });
        }
        Self { definitions: OnceLock::from(Value::from(definitions)), source: Source::Custom(custom) }
    }

    /// The list of `columnDefinitions`.
    pub(crate) fn definitions(&self) -> &Value {
        self.definitions.get_or_init(|| match &self.source {
            Source::Builtin { definitions, .. } => serde_json::from_str(definitions).unwrap_or_default(),
            Source::Custom(_) => Value::Null,
        })
    }

    /// Whether these are the columns of kinds that have none of their own.
    fn is_plain(&self) -> bool {
        matches!(self.source, Source::Builtin { is_plain: true, .. })
    }

    /// The cells of an object's row.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.source {
            Source::Builtin { print, .. } => print(Row { object, now }),
            Source::Custom(columns) => {
                let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into());
                let custom = columns.iter().map(|column| column.cell(object, now).unwrap_or_default());
                [name].into_iter().chain(custom).collect()
            }
        }
    }

    /// The conditions of an object's row.
    pub(crate) fn conditions(&self, object: &Value) -> Option<Value> {
        match self.source {
            Source::Builtin { row_conditions, .. } => row_conditions(object),
            Source::Custom(_) => None,
        }
    }
}

impl CustomColumn {
    fn cell(&self, object: &Value, now: Timestamp) -> Option<Value> {
        let results = self.path.find(object).ok()?;
        let value = results.first()?.as_ref();
        match self.kind.as_str() {
            "string" => Some(match value {
                Value::Null => "<no value>".into(),
                value => settled_jsonpath::shown(value).into(),
            }),
            "integer" => integer(value).map(Value::from),
            "number" => match value.as_f64()? {
                // Go writes 5, not 5.0.
                number if number.fract() == 0.0 && number.abs() < 1e15 => integer(value).map(Value::from),
                number => Some(number.into()),
            },
            "boolean" => value.as_bool().map(Value::from),
            "date" => Some(date(value.as_str()?, now).into()),
            _ => None,
        }
    }
}

/// An integer, or the part of a number before the point.
fn integer(value: &Value) -> Option<i64> {
    // What does not fit is the least one, as on upstream's processors.
    #[allow(clippy::cast_possible_truncation, reason = "the fraction is cut off on purpose")]
    let whole = |number: f64| if number.abs() < 9.2e18 { number as i64 } else { i64::MIN };
    value.as_i64().or_else(|| value.as_f64().map(whole))
}

fn date(text: &str, now: Timestamp) -> String {
    match text {
        "" | "null" => human::UNKNOWN.to_owned(),
        text if human::parse(text).is_none() => "<invalid>".to_owned(),
        text => human::since(text, now),
    }
}

/// The `Table` of objects. `list_metadata` are those of the list; for a single object its `resourceVersion`.
///
/// Without definitions it is an event of a watch that is not its first.
pub(crate) fn table<'a>(
    columns: &Columns,
    objects: impl IntoIterator<Item = &'a Value>,
    list_metadata: Value,
    include: IncludeObject,
    version: MetaVersion,
    now: Timestamp,
    with_definitions: bool,
) -> Value {
    let row = |object: &Value| {
        let mut row = Map::new();
        row.insert("cells".to_owned(), columns.cells(object, now).into());
        if let Some(conditions) = columns.conditions(object) {
            row.insert("conditions".to_owned(), conditions);
        }
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial::partial(object, version),
            IncludeObject::Object => object.clone(),
        };
        row.insert("object".to_owned(), object);
        Value::Object(row)
    };
    let rows: Vec<Value> = objects.into_iter().map(row).collect();
    // Upstream's plainest tables have no rows at all where there are none.
    let rows = if rows.is_empty() && columns.is_plain() { Value::Null } else { rows.into() };
    let definitions = if with_definitions { columns.definitions().clone() } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": list_metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}
