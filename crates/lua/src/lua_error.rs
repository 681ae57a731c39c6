//! Errors within the Lua state, with the type names in their messages.

use mlua::Value;

/// What is raised when the budget says no. The budget knows which limit it was.
pub(crate) fn spent() -> mlua::Error {
    mlua::Error::runtime("limit")
}

/// The type as Lua names it.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        other => other.type_name(),
    }
}

/// Whether it says that the memory is exhausted, maybe in a function of ours.
pub(crate) fn is_memory(why: &mlua::Error) -> bool {
    match why {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory(cause),
        _ => false,
    }
}
