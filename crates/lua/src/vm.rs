//! Virtual machine: one per thread, with a cache of compiled scripts.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Value, VmState, chunk::ChunkMode};

use crate::budget::Budget;
use crate::lua_error::{is_memory, kind, spent};
use crate::{Error, Health, HealthStatus, Limits, Source, json, strings, text};

/// Instructions between two checks of the budget. One of them can copy a string as large as the memory.
const INSTRUCTIONS_AT_ONCE: u32 = 128;
/// Limits of compiling one script.
const COMPILE_MEMORY: usize = 32 << 20;
/// Limits of the cache of compiled scripts: count, and total source bytes.
const KEPT_SCRIPTS: usize = 512;
const KEPT_BYTES: usize = 2 << 20;
/// Maximum garbage between two runs.
const GARBAGE: usize = 2 << 20;

thread_local! {
    static VM: Cell<Option<Vm>> = const { Cell::new(None) };
}

/// Runs with the thread's virtual machine, which is dropped after running out of memory.
pub(crate) fn with<T>(work: impl FnOnce(&mut Vm) -> Result<T, Error>) -> Result<T, Error> {
    // Thread-local storage is gone while the thread ends.
    let kept = VM.try_with(Cell::take).ok().flatten();
    let mut vm = match kept {
        Some(vm) => vm,
        None => Vm::new().map_err(internal)?,
    };
    let done = work(&mut vm);
    let sound = !matches!(done, Err(Error::Memory { .. }));
    if sound && vm.tidy().is_ok() {
        VM.try_with(|slot| slot.set(Some(vm))).unwrap_or_default();
    }
    done
}

pub(crate) struct Vm {
    lua: Lua,
    budget: Rc<Budget>,
    /// Entry point: takes a compiled script, the object and the time.
    run: Function,
    scripts: HashMap<u64, Compiled>,
    kept_bytes: usize,
    /// Logical clock of the cache.
    clock: u64,
    /// Memory in use after the last full collection.
    live: usize,
}

struct Compiled {
    function: Function,
    bytes: usize,
    used: u64,
}

impl Vm {
    fn new() -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, LuaOptions::new())?;
        let budget = Rc::new(Budget::new());
        let run = lua
            .load(include_str!("prelude.lua"))
            .set_name(format!("={}", text::PRELUDE))
            .set_mode(ChunkMode::Text)
            .call(strings::functions(&lua, &budget)?)?;
        // Full cycles: with incremental steps, garbage between them can exhaust the memory.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(200).step_multiplier(0)));
        let mut vm = Self { lua, budget, run, scripts: HashMap::new(), kept_bytes: 0, clock: 0, live: 0 };
        vm.collect()?;
        Ok(vm)
    }

    /// Returns the compiled script from the cache, or compiles it.
    pub(crate) fn compile(&mut self, script: &Source) -> Result<Function, Error> {
        self.clock += 1;
        if let Some(kept) = self.scripts.get_mut(&script.id) {
            kept.used = self.clock;
            return Ok(kept.function.clone());
        }
        self.limit_memory(COMPILE_MEMORY)?;
        let function = self
            .lua
            .load(script.compiled_text())
            .set_name(format!("={}", script.chunk))
            .set_mode(ChunkMode::Text)
            .into_function();
        self.unlimit_memory()?;
        let function = function.map_err(|why| match why {
            mlua::Error::SyntaxError { message, .. } => {
                let (message, line) = text::located(message.as_bytes(), &script.chunk);
                Error::Syntax { message, line }
            }
            other => internal(other),
        })?;
        self.keep(script, function.clone());
        Ok(function)
    }

    fn keep(&mut self, script: &Source, function: Function) {
        let bytes = script.compiled_text().len();
        while self.scripts.len() >= KEPT_SCRIPTS || self.kept_bytes + bytes > KEPT_BYTES {
            let oldest = self.scripts.iter().min_by_key(|(_, kept)| kept.used).map(|(&id, _)| id);
            let Some(dropped) = oldest.and_then(|id| self.scripts.remove(&id)) else {
                break;
            };
            self.kept_bytes -= dropped.bytes;
        }
        self.kept_bytes += bytes;
        self.scripts.insert(script.id, Compiled { function, bytes, used: self.clock });
    }

    pub(crate) fn run(
        &mut self,
        script: &Source,
        object: &[u8],
        now: i64,
        limits: &Limits,
    ) -> Result<Health, Error> {
        let function = self.compile(script)?;
        self.budget.start(limits);
        let used = self.lua.used_memory();
        let object = json::object(&self.lua, object, &self.budget, used.saturating_add(limits.memory))?;
        let left = limits.memory.saturating_sub(self.lua.used_memory().saturating_sub(used)).max(1);
        self.count_instructions(limits).map_err(internal)?;
        self.limit_memory(left)?;
        let done: mlua::Result<(Value, Value, Value)> = self.run.call((function, object, now));
        self.unlimit_memory()?;
        self.lua.remove_global_hook();
        if let Some(reached) = self.budget.error() {
            return Err(reached);
        }
        match done {
            Ok((Value::Boolean(true), status, message)) => health(&status, &message),
            Ok((Value::Boolean(false), why, _)) => Err(runtime(&why, script)),
            Ok((_, kind, _)) => Err(no_table(&kind)),
            Err(why) if is_memory(&why) => Err(Error::Memory { limit: limits.memory }),
            Err(other) => Err(internal(other)),
        }
    }

    fn count_instructions(&self, limits: &Limits) -> mlua::Result<()> {
        let at_once = u32::try_from(limits.instructions).unwrap_or(u32::MAX).clamp(1, INSTRUCTIONS_AT_ONCE);
        let budget = Rc::clone(&self.budget);
        self.lua.set_global_hook(HookTriggers::new().every_nth_instruction(at_once), move |_, _| match budget
            .charge(at_once.into())
        {
            Ok(()) => Ok(VmState::Continue),
            Err(_) => Err(spent()),
        })
    }

    /// Sets the memory limit relative to the current use.
    fn limit_memory(&self, more: usize) -> Result<(), Error> {
        self.lua.set_memory_limit(self.lua.used_memory().saturating_add(more)).map_err(internal)?;
        Ok(())
    }

    fn unlimit_memory(&self) -> Result<(), Error> {
        self.lua.set_memory_limit(0).map_err(internal)?;
        Ok(())
    }

    fn tidy(&mut self) -> mlua::Result<()> {
        if self.lua.used_memory() > self.live + GARBAGE { self.collect() } else { Ok(()) }
    }

    fn collect(&mut self) -> mlua::Result<()> {
        // The first call may only finish a cycle in progress.
        self.lua.gc_collect()?;
        self.lua.gc_collect()?;
        self.live = self.lua.used_memory();
        Ok(())
    }
}

fn health(status: &Value, message: &Value) -> Result<Health, Error> {
    let status = match status {
        Value::String(word) => {
            let word = word.as_bytes();
            HealthStatus::from_bytes(&word).ok_or_else(|| Error::Result {
                what: text::bounded(&format!("unknown status {:?}", String::from_utf8_lossy(&word))),
            })?
        }
        Value::Nil => return Err(Error::Result { what: "a table without a status".to_owned() }),
        other => return Err(Error::Result { what: format!("a status that is a {}", kind(other)) }),
    };
    let message = match message {
        Value::String(text) => text::message(&text.as_bytes()),
        Value::Nil => String::new(),
        other => return Err(Error::Result { what: format!("a message that is a {}", kind(other)) }),
    };
    Ok(Health { status, message })
}

fn no_table(kind: &Value) -> Error {
    let kind = kind.as_string().map(LuaString::to_string_lossy).unwrap_or_default();
    match kind.as_str() {
        "nil" => Error::Nothing,
        kind => Error::Result { what: format!("a {kind} instead of a table") },
    }
}

fn runtime(why: &Value, script: &Source) -> Error {
    match why {
        Value::String(text) => {
            let (message, line) = text::located(&text.as_bytes(), &script.chunk);
            Error::Runtime { message, line }
        }
        Value::Integer(number) => Error::Runtime { message: number.to_string(), line: None },
        Value::Number(number) => Error::Runtime { message: number.to_string(), line: None },
        // Usually a full stack.
        Value::Error(why) => Error::Runtime { message: first_line(why), line: None },
        other => Error::Runtime { message: format!("error value is a {}", kind(other)), line: None },
    }
}

/// Error outside of a script.
fn internal(why: mlua::Error) -> Error {
    if is_memory(&why) {
        return Error::Memory { limit: COMPILE_MEMORY };
    }
    Error::Runtime { message: first_line(&why), line: None }
}

/// Without mlua's stack trace.
fn first_line(why: &mlua::Error) -> String {
    text::bounded(why.to_string().lines().next().unwrap_or_default())
}
