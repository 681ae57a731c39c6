//! Errors within the Lua state, with the type names in their messages.

use mlua::Value;

/// Raised when the budget is exceeded. The budget records the limit.
pub(crate) fn spent() -> mlua::Error {
    mlua::Error::runtime("limit")
}

/// The type name in Lua.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        other => other.type_name(),
    }
}

/// Whether the error reports exhausted memory, possibly in a Rust function.
pub(crate) fn is_memory(why: &mlua::Error) -> bool {
    match why {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}
