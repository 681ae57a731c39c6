//! The pattern functions and the table functions of our own against Lua's.

use std::fmt::Write as _;

use mlua::{Lua, LuaString, Table};

use crate::run;

/// Ends in a table with what every call in `obj.cases` gave.
const DRIVER: &str = r##"
local out = {}
local function show(...)
  local shown = {}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    shown[i] = type(value) .. ":" .. tostring(value)
  end
  return table.concat(shown, ",")
end
local function calls(text, pattern)
  local position, words = {}, {}
  local inits = { 1, 2, -1, 0, 100, -100 }
  local all = {}
  for i = 1, #inits do
    all[#all + 1] = function() return text:find(pattern, inits[i]) end
    all[#all + 1] = function() return text:match(pattern, inits[i]) end
  end
  all[#all + 1] = function() return text:find(pattern, 2, true) end
  all[#all + 1] = function() return text:gsub(pattern, "<%0%1>") end
  all[#all + 1] = function() return text:gsub(pattern, "x", 2) end
  all[#all + 1] = function() return text:gsub(pattern, "%2%%") end
  all[#all + 1] = function() return text:gsub(pattern, function(...) words[#words + 1] = show(...) return ... end) end
  all[#all + 1] = function() return text:gsub(pattern, { a = "b", b = 7, ab = false, [1] = "one" }, 3) end
  all[#all + 1] = function() return show(unpack(words)) end
  all[#all + 1] = function()
    local found = {}
    for a, b, c in text:gmatch(pattern) do
      found[#found + 1] = show(a, b, c)
      if #found > 50 then break end
    end
    return unpack(found)
  end
  return all
end
for i = 1, #obj.cases do
  local case = obj.cases[i]
  for j, call in ipairs(calls(case[1], case[2])) do
    local results = show(pcall(call))
    -- Where it says so is another place.
    results = results:gsub("string:[^ ]-:%d+: ", "string:"):gsub("%[C%]:", "")
    out[#out + 1] = i .. "/" .. j .. " " .. results
  end
end
return { status = "Healthy", message = table.concat(out, "\n") }
"##;

fn theirs(cases: &[(String, String)]) -> String {
    let lua = Lua::new();
    let table = lua.create_table().unwrap();
    let list =
        cases.iter().map(|(text, pattern)| lua.create_sequence_from([text.as_str(), pattern]).unwrap());
    table.raw_set("cases", lua.create_sequence_from(list).unwrap()).unwrap();
    lua.globals().raw_set("obj", table).unwrap();
    let result: Table = lua.load(DRIVER).set_name("=health.lua").eval().unwrap();
    result.raw_get::<LuaString>("message").unwrap().to_string_lossy()
}

fn ours(cases: &[(String, String)]) -> String {
    let object = serde_json::json!({ "cases": cases });
    run(DRIVER, &object.to_string()).unwrap().message
}

#[track_caller]
fn compare(cases: &[(String, String)]) {
    // Few at once: a message is cut at 32 KiB.
    for cases in cases.chunks(4) {
        let (ours, theirs) = (ours(cases), theirs(cases));
        if ours != theirs {
            let mut differ = String::new();
            for (ours, theirs) in ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs) {
                writeln!(differ, "ours   {ours}\ntheirs {theirs}").unwrap();
            }
            panic!("{cases:?}\n{differ}");
        }
    }
}

#[test]
fn chosen() {
    let texts = [
        "",
        "a",
        "hello world",
        "  key = value  ",
        "a(b(c)d)e(",
        "x=1, y=2",
        "aaa",
        "THE (quick) fox",
        "äö",
        "a.b-c%d",
    ];
    let patterns = [
        "",
        "a",
        ".",
        "%a+",
        "%s*(%S+)%s*=%s*(%S+)%s*",
        "^%s*(.-)%s*$",
        "%b()",
        "(%w+)=(%w+)",
        "()",
        "()a()",
        "a*",
        "a-",
        "a?",
        "a-$",
        "^a",
        "^",
        "$",
        "[%a_][%w_]*",
        "[^%s]+",
        "[]]",
        "[^]]",
        "[a-]",
        "[-a]",
        "[%]a]",
        "[a-c%d]+",
        "(a)%1",
        "(.)%1",
        "%f[%w]%w+",
        "%f[%W]",
        "%%",
        "%.",
        "(((a)))",
        "((a)(b)?)",
        "%D",
        "%S%s",
        "%x%x",
        "%c",
        "%p+",
        "%u%l*",
        "%z",
        // Malformed.
        "%",
        "[",
        "[a",
        "[^",
        "[%",
        "(",
        ")",
        "(a",
        "a)",
        "%1",
        "(%1)",
        "%b",
        "%bx",
        "%f",
        "%fa",
        "[a-",
        "%0",
        "(()",
        "^^a",
        "a^",
        "$a",
        "[a-%d]",
        "*",
        "+",
        "?",
        "-",
        "**",
        "(a*)*",
        "%g",
        "%A%C%D%L%P%S%U%W%X%Z",
    ];
    let cases: Vec<_> = texts
        .iter()
        .flat_map(|text| patterns.iter().map(|pattern| (text.to_string(), pattern.to_string())))
        .collect();
    compare(&cases);
}

/// Anything that is made of pieces that mean something.
#[test]
fn any() {
    let pieces = [
        "a", "b", "(", ")", "()", "%", "%a", "%d", "%b()", "%f[a]", "[", "]", "[ab]", "[^a]", "[a-z]", ".",
        "*", "+", "-", "?", "^", "$", "%1", "%2", "(a)", "(.-)", " ",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % below
    };
    let cases: Vec<_> = (0..3000)
        .map(|_| {
            let text = (0..random(9)).map(|_| ["a", "b", "(", ")", "1", " ", "ab"][random(7)]).collect();
            let pattern = (0..random(7)).map(|_| pieces[random(pieces.len())]).collect();
            (text, pattern)
        })
        .collect();
    compare(&cases);
}
