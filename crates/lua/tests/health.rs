//! Checks as people write them, and what may be wrong with one.

use settled_lua::{Error, HealthStatus, Script};

use crate::{LIMITS, message, run, said};

const CONDITIONS: &str = r#"
local health = { status = "Progressing", message = "Waiting for the controller" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" then
    health.message = condition.message or condition.reason
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.reason == "Issuing" then
      health.status = "Progressing"
    else
      health.status = "Degraded"
    end
  end
end
return health
"#;

const PHASES: &str = r#"
local words = {
  Pending = "Progressing",
  Bound = "Healthy",
  Failed = "Degraded",
  Paused = "Suspended",
  Lost = "Missing",
}
hs = {}
local phase = obj.status and obj.status.phase
hs.status = words[phase] or "Unknown"
hs.message = "phase is " .. tostring(phase)
return hs
"#;

const REPLICAS: &str = r#"
local function wanted()
  if obj.spec.replicas == nil then return 1 end
  return obj.spec.replicas
end
if obj.spec.paused then
  return { status = "Suspended", message = obj.kind .. " is paused" }
end
local status = obj.status or {}
if (status.observedGeneration or 0) < obj.metadata.generation then
  return { status = "Progressing", message = "generation " .. obj.metadata.generation .. " is not observed" }
end
local ready = status.readyReplicas or 0
if ready < wanted() then
  return { status = "Progressing", message = ready .. " of " .. wanted() .. " replicas are ready" }
end
return { status = "Healthy" }
"#;

const TEXT: &str = r#"
local text = obj.status.message or ""
if string.find(text, "^[Ee]rror:") then
  return { status = "Degraded", message = text:match("^%a+:%s*(.-)%s*$") }
end
local done, all = string.match(text, "(%d+)/(%d+) pods")
if done then
  return {
    status = tonumber(done) == tonumber(all) and "Healthy" or "Progressing",
    message = string.format("%d%%", 100 * done / all),
  }
end
for word in string.gmatch(text, "%a+") do
  if word:lower() == "paused" then return { status = "Suspended", message = (text:gsub("%s+", " ")) } end
end
return { status = "Unknown", message = #text == 0 and "silent" or text:sub(1, 5):upper() }
"#;

const WORST: &str = r#"
local rank = { Healthy = 0, Progressing = 1, Degraded = 2 }
local worst, names = "Healthy", {}
for name, part in pairs(obj.status.parts or {}) do
  if rank[part.state] > rank[worst] then worst = part.state end
  if part.state ~= "Healthy" then table.insert(names, name .. "=" .. part.restarts) end
end
table.sort(names)
return { status = worst, message = table.concat(names, ", ") }
"#;

#[test]
fn checks() {
    let cases = [
        (CONDITIONS, r#"{"kind":"Certificate"}"#, "Progressing: Waiting for the controller"),
        (CONDITIONS, r#"{"status":{"conditions":[]}}"#, "Progressing: Waiting for the controller"),
        (CONDITIONS, r#"{"status":{"conditions":null}}"#, "Progressing: Waiting for the controller"),
        (
            CONDITIONS,
            r#"{"status":{"conditions":[{"type":"Issuing"},{"type":"Ready","status":"True","message":"up to date"}]}}"#,
            "Healthy: up to date",
        ),
        (
            CONDITIONS,
            r#"{"status":{"conditions":[{"type":"Ready","status":"False","message":null,"reason":"Denied"}]}}"#,
            "Degraded: Denied",
        ),
        (PHASES, r#"{"status":{"phase":"Bound"}}"#, "Healthy: phase is Bound"),
        (PHASES, r#"{"status":{"phase":"Paused"}}"#, "Suspended: phase is Paused"),
        (PHASES, r#"{"status":{"phase":"Lost"}}"#, "Missing: phase is Lost"),
        (PHASES, r#"{"status":{"phase":"Failed"}}"#, "Degraded: phase is Failed"),
        (PHASES, r#"{"status":{}}"#, "Unknown: phase is nil"),
        (
            REPLICAS,
            r#"{"metadata":{"generation":3},"spec":{"replicas":2},"status":{"observedGeneration":2}}"#,
            "Progressing: generation 3 is not observed",
        ),
        (
            REPLICAS,
            r#"{"metadata":{"generation":3},"spec":{"replicas":20},"status":{"observedGeneration":3,"readyReplicas":4}}"#,
            "Progressing: 4 of 20 replicas are ready",
        ),
        (
            REPLICAS,
            r#"{"metadata":{"generation":3},"spec":{},"status":{"observedGeneration":3,"readyReplicas":1}}"#,
            "Healthy: ",
        ),
        (REPLICAS, r#"{"kind":"CloneSet","spec":{"paused":true}}"#, "Suspended: CloneSet is paused"),
        (TEXT, r#"{"status":{"message":"Error:  no space left "}}"#, "Degraded: no space left"),
        (TEXT, r#"{"status":{"message":"3/4 pods"}}"#, "Progressing: 75%"),
        (TEXT, r#"{"status":{"message":"has 4/4 pods"}}"#, "Healthy: 100%"),
        (TEXT, r#"{"status":{"message":"is\tPaused  now"}}"#, "Suspended: is Paused now"),
        (TEXT, r#"{"status":{"message":"whatever"}}"#, "Unknown: WHATE"),
        (TEXT, r#"{"status":{}}"#, "Unknown: silent"),
        (
            WORST,
            r#"{"status":{"parts":{"b":{"state":"Degraded","restarts":12},"a":{"state":"Progressing","restarts":0},"c":{"state":"Healthy"}}}}"#,
            "Degraded: a=0, b=12",
        ),
    ];
    for (source, object, expected) in cases {
        let health = run(source, object).unwrap_or_else(|why| panic!("{why}\n{object}{source}"));
        assert_eq!(format!("{}: {}", health.status, health.message), expected, "{object}{source}");
    }
}

#[test]
fn every_word() {
    for status in HealthStatus::ALL {
        let health = run(&format!("return {{ status = '{status}' }}"), "{}").unwrap();
        assert_eq!((health.status, health.message.as_str()), (status, ""));
    }
}

#[test]
fn values() {
    let object = r#"{
        "int": 3, "negative": -7, "big": 123456789012, "zero": 0.0, "half": 0.5, "whole": 2.0, "exponent": 1e3,
        "null": null, "yes": true, "no": false, "empty": "", "text": "a\u0000\u00e9\n\ud83d\ude00",
        "list": ["x", null, ["y"], null, {"z": 1}], "nothing": [], "none": {},
        "twice": 1, "twice": "later", "gone": 1, "gone": null, "key with \"quotes\"": 1
    }"#;
    let cases = [
        ("obj.int", "3"),
        ("obj.int + 1", "4"),
        ("obj.negative", "-7"),
        ("obj.big", "123456789012"),
        ("obj.zero", "0"),
        ("obj.half", "0.5"),
        ("obj.whole", "2"),
        ("obj.exponent", "1000"),
        ("obj.null == nil", "true"),
        ("obj.yes and not obj.no", "true"),
        ("obj.empty == ''", "true"),
        ("#obj.text", "9"),
        ("obj.text == 'a\\0\\195\\169\\n\\240\\159\\152\\128'", "true"),
        // As Argo CD appends them: null leaves no gap.
        ("#obj.list", "3"),
        ("obj.list[1] .. obj.list[2][1] .. obj.list[3].z", "xy1"),
        ("obj.list[0] == nil and obj.list[4] == nil", "true"),
        ("#obj.nothing", "0"),
        ("type(obj.nothing) .. type(obj.none)", "tabletable"),
        ("next(obj.none) == nil", "true"),
        ("obj.twice", "later"),
        ("obj.gone == nil", "true"),
        ("obj['key with \"quotes\"']", "1"),
        ("_G.obj == obj", "true"),
        ("obj.int / 0 .. ''", "inf"),
    ];
    for (expression, expected) in cases {
        let source = format!("return {{ status = 'Healthy', message = tostring({expression}) }}");
        assert_eq!(message(&source, object), expected, "{expression}");
    }
}

#[test]
fn results() {
    let cases = [
        ("", "script returned nil: no health"),
        ("return nil", "script returned nil: no health"),
        ("return 'Healthy'", "script returned a string instead of a table"),
        ("return 3", "script returned a number instead of a table"),
        ("return function() end", "script returned a function instead of a table"),
        ("return {}", "script returned a table without a status"),
        ("return { status = 'healthy' }", "script returned unknown status \"healthy\""),
        ("return { status = 'a\\200\\nb' }", "script returned unknown status \"a\u{fffd}\\nb\""),
        ("return { status = true }", "script returned a status that is a boolean"),
        ("return { status = 1 }", "script returned a status that is a number"),
        ("return { status = 'Healthy', message = {} }", "script returned a message that is a table"),
        // Argo CD encodes the table itself, not what its metatable makes of it.
        (
            "return setmetatable({}, { __index = { status = 'Healthy' } })",
            "script returned a table without a status",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(run(source, "{}").unwrap_err().to_string(), expected, "{source}");
    }
    assert_eq!(message("return { status = 'Healthy', message = 'a\\200b' }, 'more'", "{}"), "a\u{fffd}b");
}

#[test]
fn errors() {
    let cases = [
        ("return {\n status = = 1 }", "syntax error on line 2: unexpected symbol near '='"),
        ("if x then", "syntax error on line 1: 'end' expected near '<eof>'"),
        ("\n\n$", "syntax error on line 3: unexpected symbol near '$'"),
        ("\ngoto done", "syntax error on line 2: no visible label 'done' for goto"),
        (
            "local f = function() goto done end ::done::",
            "syntax error on line 1: no visible label 'done' for goto",
        ),
        ("do ::done:: end goto done", "syntax error on line 1: no visible label 'done' for goto"),
        ("::a:: ::a:: goto a", "syntax error on line 1: label 'a' is there twice"),
        (
            "::again::\ngoto again",
            "syntax error on line 2: goto 'again' jumps backwards, which is not supported: use a loop",
        ),
        ("goto a local x ::a:: x = 1", "syntax error on line 1: goto 'a' jumps into the scope of a local"),
        (
            "repeat goto a local x ::a:: until x",
            "syntax error on line 1: goto 'a' jumps into the scope of a local",
        ),
        (
            "while x do\nrepeat goto next until y ::next:: end",
            "syntax error on line 2: goto jumps out of 'repeat', which is not supported",
        ),
        ("goto a break ::a::", "syntax error on line 1: no loop to break near 'end'"),
        ("require('io')", "script failed on line 1: module 'io' not found"),
        ("require()", "script failed on line 1: module 'nil' not found"),
        (
            "\nreturn obj.status.phase",
            "script failed on line 2: attempt to index field 'status' (a nil value)",
        ),
        ("\n\nerror('no luck')", "script failed on line 3: no luck"),
        ("error('no luck', 0)", "script failed: no luck"),
        ("error('other.lua:7: no luck', 0)", "script failed: other.lua:7: no luck"),
        ("error({})", "script failed: error value is a table"),
        ("error()", "script failed: error value is a nil"),
        ("error(7)", "script failed on line 1: 7"),
        ("local a = {} .. 'x'", "script failed on line 1: attempt to concatenate a table value"),
        ("assert(false, 'should')", "script failed on line 1: should"),
        ("local s = ''\ns:find('[')", "script failed on line 2: malformed pattern (missing ']')"),
        ("\nstring.rep()", "script failed on line 2: bad argument #1 to 'rep' (string expected, got nil)"),
        (
            "\nstring.gsub('a', 'a', true)",
            "script failed on line 2: bad argument #3 to 'gsub' (string/function/table expected, got boolean)",
        ),
        (
            "string.upper({})",
            "script failed on line 1: bad argument #1 to 'upper' (string expected, got table)",
        ),
        ("\ntable.insert({})", "script failed on line 2: wrong number of arguments to 'insert'"),
        ("table.sort({ {}, {} })", "script failed: attempt to compare two table values"),
        ("pcall()", "script failed: bad argument #1 to 'pcall' (value expected)"),
        (
            "for x in string.gmatch('a', '%') do end",
            "script failed on line 1: malformed pattern (ends with '%')",
        ),
        (
            "string.gsub('a', 'a', function() return {} end)",
            "script failed on line 1: invalid replacement value (a table)",
        ),
        (
            "return { status = io.open() }",
            "script failed on line 1: attempt to index global 'io' (a nil value)",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(run(source, "{}").unwrap_err().to_string(), expected, "{source}");
    }
    let long = run("error(string.rep('\u{e9}', 1000), 0)", "{}").unwrap_err();
    assert_eq!(long, Error::Runtime { message: format!("{}…", "\u{e9}".repeat(400)), line: None });
}

#[test]
fn objects() {
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(message("return { status = 'Healthy', message = type(obj.a.a.a) }", &nested(100)), "table");
    let cases = [
        ("", "not a JSON object"),
        ("\"secret\"", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("{\"secret\": nonsense}", "expected ident at line 1 column 13"),
        (&nested(1000), "recursion limit exceeded at line 1 column 636"),
        (&"[".repeat(100_000).replacen('[', "{\"a\":[", 1), "recursion limit exceeded at line 1 column 132"),
    ];
    for (object, expected) in cases {
        let expected = Error::Object { what: expected.to_owned() };
        assert_eq!(run("return { status = 'Healthy' }", object), Err(expected));
    }
}

#[test]
fn sources() {
    let larger = " ".repeat(Script::MAX_SOURCE + 1);
    let cases =
        [("\u{1b}Lua", "script is byte code instead of text"), (&larger, "script is larger than 256 KiB")];
    for (source, expected) in cases {
        assert_eq!(Script::new("x", source).unwrap_err().to_string(), expected);
    }
    // Only a comment.
    assert!(Script::new("x", &format!("--{}", &larger[3..])).is_ok());
    // Lua's parser has bounds of its own.
    for (source, expected) in [
        (format!("return {}1{}", "(".repeat(300), ")".repeat(300)), "chunk has too many syntax levels"),
        (format!("return -{}1", "-1 -".repeat(1000)), ""),
        (format!("local {}a", "a,".repeat(300)), "more than 200 local variables"),
    ] {
        match Script::new("x", &source) {
            Err(Error::Syntax { message, .. }) => assert!(message.contains(expected), "{message}"),
            other => assert!(expected.is_empty(), "{other:?}"),
        }
    }
}

#[test]
fn names() {
    let cases = [
        ("argoproj.io/Rollout/health.lua", "argoproj.io/Rollout/health.lua:1: x"),
        ("a:1: b", "a:1: b:1: x"),
        ("new\nline\0", "new_line_:1: x"),
        ("", ":1: x"),
        (&"é".repeat(40), &format!("{}:1: x", "é".repeat(29))),
    ];
    for (name, shown) in cases {
        let script =
            Script::new(name, "local _, why = pcall(error, 'x', 2) _, why = pcall(function() error('x') end) return { status = 'Healthy', message = why }")
                .unwrap();
        assert_eq!(script.run(b"{}", &LIMITS).unwrap().message, shown);
        let failing = Script::new(name, "\nerror('x')").unwrap();
        let why = failing.run(b"{}", &LIMITS).unwrap_err();
        assert_eq!(why, Error::Runtime { message: "x".to_owned(), line: Some(2) });
        assert_eq!(failing.name(), name);
    }
}

#[test]
fn long_messages_are_cut() {
    let health = message("return { status = 'Healthy', message = ('\u{e9}'):rep(20000) .. 'x' }", "{}");
    assert_eq!(health.chars().count(), 16 * 1024 + 1);
    assert!(health.ends_with("é…"));
}

#[test]
fn library() {
    let cases = [
        (
            "local t = {} table.insert(t, 'b') table.insert(t, 1, 'a') table.insert(t, 3, 'c') say(unpack(t))",
            "a b c",
        ),
        (
            "local t = { 1, 2, 3 } say(table.remove(t, 1), table.remove(t), #t, table.maxn(t), table.getn(t))",
            "1 3 1 1 1",
        ),
        ("say(table.concat({ 1, 'x', 2.5 }, '-', 2))", "x-2.5"),
        ("local t = { 5, 3, 9, 1 } table.sort(t) say(unpack(t))", "1 3 5 9"),
        (
            "local t = { 'b', 'a', 'c' } table.sort(t, function(a, b) return a > b end) say(unpack(t))",
            "c b a",
        ),
        (
            "local t = {} for i = 1, 200 do t[i] = i * 7919 % 211 end table.sort(t) for i = 2, 200 do assert(t[i - 1] <= t[i]) end say(#t)",
            "200",
        ),
        (
            "local t = { {1, 'a'}, {0, 'b'}, {1, 'c'} } table.sort(t, function(a, b) return a[1] < b[1] end) say(t[1][2], t[2][2], t[3][2])",
            "b a c",
        ),
        ("say(pcall(error, 'x', 0))", "false x"),
        ("say(pcall(function(...) return select('#', ...) end, nil, nil))", "true 2"),
        ("local ok, e = pcall(error, { code = 7 }) say(ok, e.code)", "false 7"),
        ("say(xpcall(function() error('x', 0) end, function(e) return e .. '!' end))", "false x!"),
        ("say(xpcall(function() return 1, 2 end, print))", "true 1 2"),
        (
            "say(tostring(nil), tostring(1e15), tonumber('0x10'), tonumber('z', 36), tonumber('x'))",
            "nil 1e+15 16 35 nil",
        ),
        ("say(select(-1, 1, 2), select('#'), type(print), print('x'))", "2 0 function"),
        ("say(math.floor(2.5), math.max(1, 3), math.huge, math.random)", "2 3 inf nil"),
        (
            "say(rawequal(string, string), rawget(string, 'rep'), string.rep('ab', 3), ('x'):rep(0), ('x'):rep(-1))",
            "true nil ababab  ",
        ),
        ("say(string.format('%5.2f|%d|%s|%q', 1.5, 3, 'x', 'y'))", " 1.50|3|x|\"y\""),
        ("say(_VERSION, #'abc', ('abc'):byte(1, -1))", "Lua 5.1 3 97 98 99"),
        (
            "local t = setmetatable({}, { __index = function(_, k) return k .. '!' end, __call = function() return 'called' end, __tostring = function() return 'shown' end }) say(t.x, t(), t)",
            "x! called shown",
        ),
        ("say(require('os').time(), require('string') == string, require 'math'.floor(1.5))", "0 true 1"),
        ("local n = 0 for k in next, { a = 1, b = 2 } do n = n + 1 end say(n)", "2"),
    ];
    for (statements, expected) in cases {
        assert_eq!(said(statements), expected, "{statements}");
    }
}

/// `goto` as Argo CD's interpreter has it.
#[test]
fn jumps() {
    let cases = [
        // To the next round.
        ("for i = 1, 4 do if i % 2 == 0 then goto continue end say(i) ::continue:: end", "1 3"),
        ("for i = 1, 3 do if i == 2 then goto continue end local x = i say(x) ::continue:: end", "1 3"),
        ("local i = 0 while i < 4 do i = i + 1 if i == 2 then goto next end say(i) ::next:: end", "1 3 4"),
        ("local i = 0 repeat i = i + 1 if i == 2 then goto next end say(i) ::next:: until i == 3", "1 3"),
        ("for i = 1, 3 do goto a say('never') ::a:: end say('end')", "end"),
        // Beside a break, which leaves the loop that it always left.
        (
            "for i = 1, 9 do if i == 2 then goto continue end if i == 4 then break end say(i) ::continue:: end say('.')",
            "1 3 .",
        ),
        ("for i = 1, 9 do if i > 1 then do break end end if i then goto c end ::c:: say(i) end", "1"),
        (
            "for i = 1, 3 do for j = 1, 9 do if j == i then goto c end if j == 3 then break end say(i .. j) ::c:: end end",
            "12 21 31 32 34 35 36 37 38 39",
        ),
        // Out of several loops.
        (
            "for i = 1, 3 do for j = 1, 3 do if j == 2 then goto done end say(i .. j) end end ::done:: say('.')",
            "11 .",
        ),
        (
            "for i = 1, 3 do for j = 1, 3 do if j == 2 then goto next end say(i .. j) end say('x') ::next:: end",
            "11 21 31",
        ),
        (
            "for i = 1, 2 do for j = 1, 2 do for k = 1, 2 do if k == 2 then goto next end say(i .. j .. k) end end ::next:: end",
            "111 211",
        ),
        (
            "for i = 1, 3 do while true do if i == 2 then goto out end break end say(i) end ::out:: say('.')",
            "1 .",
        ),
        // Labels of one name in blocks of their own, and two in one block.
        (
            "for i = 1, 2 do if i == 1 then goto c end say(i) ::c:: end for i = 1, 2 do if i == 2 then goto c end say(i) ::c:: end",
            "2 1",
        ),
        ("local function f(x) if x then goto a end say('b') ::a:: say('a') end f(true) f(false)", "a b a"),
        (
            "for i = 1, 3 do if i == 1 then goto a end if i == 2 then goto b end say('-') ::a:: say('a') ::b:: say('b' .. i) end",
            "a b1 b2 - a b3",
        ),
        (
            "for i = 1, 4 do if i == 1 then goto b end if i == 2 then goto a end if i == 4 then break end say('-') ::a:: say('a') ::b:: say('b' .. i) end",
            "b1 a b2 - a b3",
        ),
        ("for i = 1, 3 do if i == 1 then goto a else goto b end ::a:: ::b:: end say('.')", "."),
        ("do if true then goto a end say('never') ::a:: end say('.') ::unused::", "."),
        ("if false then elseif true then goto a say(1) ::a:: say(2) else say(3) end", "2"),
        // What a jump returns from.
        ("local function f() for i = 1, 3 do if i < 3 then goto c end return i ::c:: end end say(f())", "3"),
        // Labels that nothing jumps to.
        (
            "::a:: say(1) ::b:: (function() say(2) end)() for i = 1, 2 do ::c:: say(i) break ::d:: end ::e::",
            "1 2 1",
        ),
        // Where it is no jump.
        ("local goto = 1 goto = 2 say(goto)", "2"),
        ("say('goto a') --[[ goto a ]] say([==[::goto a]]::]==]) -- goto a", "goto a ::goto a]]::"),
        (
            "say('it\\'s', \"\\\"goto a\") for i = 1, 2 do if i == 1 then goto c end say(i) ::c:: end",
            "it's \"goto a 2",
        ),
        ("say('é') for i = 1, 2 do if i == 1 then goto c end say('ü') ::c:: end", "é ü"),
    ];
    for (statements, expected) in cases {
        assert_eq!(said(statements), expected, "{statements}");
    }
    // Lines stay what they are.
    let why = run("for i = 1, 2 do\nif i == 1 then goto c end\nerror('x')\n::c::\nend", "{}").unwrap_err();
    assert_eq!(why.to_string(), "script failed on line 3: x");
}

/// The clock is the caller's, and UTC.
#[test]
fn time() {
    let cases = [
        ("os.time()", "1700000000"),
        ("os.date('%Y-%m-%dT%H:%M:%S')", "2023-11-14T22:13:20"),
        ("os.date('!%c')", "Tue Nov 14 22:13:20 2023"),
        ("os.date('%j %p %I %%', 0)", "001 AM 12 %"),
        ("os.date('*t').yday", "318"),
        ("os.date('!*t', 951782400).day", "29"),
        ("os.time({ year = 2024, month = 2, day = 29, hour = 0 })", "1709164800"),
        ("os.time({ year = '2023', month = 14, day = 1 })", "1706788800"),
        ("os.time({ year = 1969, month = 12, day = 31, hour = 23, min = 59, sec = 59 })", "-1"),
    ];
    for (expression, shown) in cases {
        let source = format!("return {{ status = 'Healthy', message = tostring({expression}) }}");
        let script = Script::new("time", &source).unwrap();
        assert_eq!(script.run_at(b"{}", 1_700_000_000, &LIMITS).unwrap().message, shown, "{expression}");
    }
    for wrong in
        ["os.time('x')", "os.time({ year = 1 })", "os.date(1, 'x')", "os.date('%c', 1e300)", "os.date(true)"]
    {
        let script = Script::new("time", &format!("{wrong} return {{ status = 'Healthy' }}")).unwrap();
        assert!(matches!(script.run_at(b"{}", 0, &LIMITS), Err(Error::Runtime { .. })), "{wrong}");
    }
}
