-- Builds what a script sees. Runs once per virtual machine, with the functions written in Rust as its argument, and
-- returns the function that runs a script. Nothing in here is reachable for a script but what `base` and the three
-- libraries hold, and of those a script only sees empty tables that look into them, made anew for every run.

local rust = ...
local error, select, tonumber, tostring, type = error, select, tonumber, tostring, type
local rawget, rawset, pcall, xpcall = rawget, rawset, pcall, xpcall
local setfenv, setmetatable = setfenv, setmetatable
local floor, huge = math.floor, math.huge
local concat, sub = table.concat, string.sub
local tripped = rust.tripped

local base = { _VERSION = _VERSION, print = function() end }
for _, name in ipairs {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawset", "select", "setmetatable",
  "tonumber", "tostring", "type", "unpack",
} do
  base[name] = _G[name]
end

-- An error that says a limit is used up can't be caught: whoever catches it throws it again.
local function caught(ok, ...)
  if not ok and tripped((...)) then error("limit", 0) end
  return ok, ...
end

function base.pcall(...) return caught(pcall(...)) end

-- The error of a limit is raised in the hook that counts, where nothing is counted: the script's handler would have no
-- limit.
function base.xpcall(f, handler)
  return caught(xpcall(f, function(why)
    if tripped(why) then return why end
    return handler(why)
  end))
end

local strings = {}
for _, name in ipairs { "byte", "char", "format", "len", "lower", "reverse", "sub", "upper" } do
  strings[name] = string[name]
end

-- What Rust returns: true and the results, or false and what is wrong with the arguments. Always called as
-- `return pass(...)`, which leaves a lost frame at level 2: level 3 is the script.
local function pass(ok, ...)
  if ok then return ... end
  error((...), 3)
end

local rust_find, rust_match, rust_next, rust_gsub, rust_rep =
  rust.find, rust.match, rust.next, rust.gsub, rust.rep

function strings.find(s, pattern, init, plain) return pass(rust_find(s, pattern, init, plain)) end

function strings.match(s, pattern, init) return pass(rust_match(s, pattern, init)) end

function strings.rep(s, n) return pass(rust_rep(s, n)) end

function strings.gmatch(s, pattern)
  local ok, why = rust_next("gmatch", s, pattern, huge)
  if not ok then error(why, 2) end
  local position = 1
  local function step(ok, from, to, ...)
    if not ok then error(from, 3) end
    if not from then
      position = huge
      return nil
    end
    position = to > from and to or to + 1
    return ...
  end
  return function() return step(rust_next("gmatch", s, pattern, position)) end
end

local function replaced(replacement, is_table, s, ok, from, to, first, ...)
  if not ok then error(from, 3) end
  if not from then return nil end
  local value
  if is_table then
    value = replacement[first]
  else
    value = replacement(first, ...)
  end
  if not value then
    value = sub(s, from, to - 1)
  elseif type(value) ~= "string" and type(value) ~= "number" then
    error("invalid replacement value (a " .. type(value) .. ")", 3)
  end
  return from, to, value
end

function strings.gsub(s, pattern, replacement, limit)
  local kind = type(replacement)
  if kind ~= "table" and kind ~= "function" then return pass(rust_gsub(s, pattern, replacement, limit)) end
  local ok, why = rust_next("gsub", s, pattern, huge)
  if not ok then error(why, 2) end
  if limit ~= nil and not tonumber(limit) then
    error("bad argument #4 to 'gsub' (number expected, got " .. type(limit) .. ")", 2)
  end
  s, pattern, limit = s .. "", pattern .. "", tonumber(limit) or huge
  local anchored, is_table = sub(pattern, 1, 1) == "^", kind == "table"
  local pieces, size, count, position = {}, 0, 0, 1
  while count < limit do
    local from, to, value =
      replaced(replacement, is_table, s, rust_next("gsub", s, pattern, position, anchored, is_table))
    if not from then break end
    count = count + 1
    pieces[size + 1] = sub(s, position, from - 1)
    pieces[size + 2] = value
    size = size + 2
    position = to
    if to == from then
      if to > #s then break end
      size = size + 1
      pieces[size] = sub(s, to, to)
      position = to + 1
    end
    if anchored then break end
  end
  pieces[size + 1] = sub(s, position)
  return concat(pieces), count
end

local tables = { concat = concat, getn = table.getn, maxn = table.maxn, remove = table.remove }

local function check_table(t, name)
  if type(t) ~= "table" then error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(t) .. ")", 3) end
end

-- Lua's own counts from any position up, for hours if it is negative enough.
function tables.insert(...)
  local count = select("#", ...)
  local t, position, value = ...
  check_table(t, "insert")
  local last = #t + 1
  if count == 2 then
    rawset(t, last, position)
    return
  elseif count ~= 3 then
    error("wrong number of arguments to 'insert'", 2)
  end
  local at = tonumber(position)
  if not at then error("bad argument #2 to 'insert' (number expected, got " .. type(position) .. ")", 2) end
  at = floor(at)
  if not (at >= 1 and at < huge) then error("bad argument #2 to 'insert' (position out of bounds)", 2) end
  for i = last, at + 1, -1 do
    rawset(t, i, rawget(t, i - 1))
  end
  rawset(t, at, value)
end

local function less(a, b) return a < b end

-- Merges runs: Lua's own quicksort needs a call of quadratic length for some orders, in which no limit is looked at.
function tables.sort(t, before)
  check_table(t, "sort")
  if before == nil then
    before = less
  elseif type(before) ~= "function" then
    error("bad argument #2 to 'sort' (function expected, got " .. type(before) .. ")", 2)
  end
  local count, width = #t, 1
  local from, to = {}, {}
  for i = 1, count do
    from[i] = t[i]
  end
  while width < count do
    for low = 1, count, 2 * width do
      local middle, high = low + width, low + 2 * width
      if middle > count + 1 then middle = count + 1 end
      if high > count + 1 then high = count + 1 end
      local left, right = low, middle
      for i = low, high - 1 do
        if left < middle and (right >= high or not before(from[right], from[left])) then
          to[i], left = from[left], left + 1
        else
          to[i], right = from[right], right + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  for i = 1, count do
    t[i] = from[i]
  end
end

-- No `random`: it would be seeded for the whole process, and a verdict is a function of the object.
local maths = {}
for name, value in pairs(math) do
  if name ~= "random" and name ~= "randomseed" then maths[name] = value end
end

-- As Argo CD has it, `os` tells the time and nothing else: the time that the caller gave. All of it is UTC.
local now = 0
local clock = {}

-- Days since 1970 of a date, and back. https://howardhinnant.github.io/date_algorithms.html
local function days_of(year, month, day)
  year = year + floor((month - 1) / 12)
  month = (month - 1) % 12 + 1
  if month <= 2 then year = year - 1 end
  local era = floor(year / 400)
  local of_era = year - era * 400
  local of_year = floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + floor(of_era / 4) - floor(of_era / 100) + of_year - 719468
end

local function date_of(days)
  local shifted = days + 719468
  local era = floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local years = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * years + floor(years / 4) - floor(years / 100))
  local shifted_month = floor((5 * of_year + 2) / 153)
  local month = shifted_month < 10 and shifted_month + 3 or shifted_month - 9
  return years + era * 400 + (month <= 2 and 1 or 0), month, of_year - floor((153 * shifted_month + 2) / 5) + 1
end

function clock.time(t)
  if t == nil then return now end
  if type(t) ~= "table" then error("bad argument #1 to 'time' (table expected, got " .. type(t) .. ")", 2) end
  local function field(name, default)
    local value = tonumber(t[name]) or default
    if not value then error("field '" .. name .. "' missing in date table", 3) end
    return floor(value)
  end
  local days = days_of(field("year"), field("month"), field("day"))
  return days * 86400 + field("hour", 12) * 3600 + field("min", 0) * 60 + field("sec", 0)
end

local week = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" }
local months = {
  "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
}

function clock.date(format, time)
  format = format == nil and "%c" or format
  if type(format) ~= "string" then error("bad argument #1 to 'date' (string expected, got " .. type(format) .. ")", 2) end
  time = time == nil and now or tonumber(time)
  if not time or time ~= time or time > 253402300799 or time < -62135596800 then error("time out of range", 2) end
  time = floor(time)
  local days = floor(time / 86400)
  local second = time - days * 86400
  local year, month, day = date_of(days)
  local t = {
    year = year, month = month, day = day, hour = floor(second / 3600), min = floor(second / 60) % 60, sec = second % 60,
    wday = (days + 4) % 7 + 1, yday = days - days_of(year, 1, 1) + 1, isdst = false,
  }
  if sub(format, 1, 1) == "!" then format = sub(format, 2) end
  if sub(format, 1, 2) == "*t" then return t end
  local function two(number) return string.format("%02d", number) end
  local letters = {
    Y = t.year, m = two(month), d = two(day), H = two(t.hour), M = two(t.min), S = two(t.sec), y = two(year % 100),
    j = string.format("%03d", t.yday), p = t.hour < 12 and "AM" or "PM", I = two((t.hour + 11) % 12 + 1),
    A = week[t.wday], a = sub(week[t.wday], 1, 3), B = months[month], b = sub(months[month], 1, 3), w = t.wday - 1, Z = "UTC",
    ["%"] = "%",
  }
  letters.x = letters.m .. "/" .. letters.d .. "/" .. letters.y
  letters.X = letters.H .. ":" .. letters.M .. ":" .. letters.S
  letters.c = letters.a .. " " .. letters.b .. " " .. letters.d .. " " .. letters.X .. " " .. letters.Y
  return (strings.gsub(format, "%%(.)", letters))
end

-- Argo CD's interpreter gives the libraries by name as well. Kept for the time of a run.
local loaded = {}

function base.require(name)
  local library = loaded[name]
  if library == nil then error("module '" .. tostring(name) .. "' not found", 2) end
  return library
end

local strings_view = { __index = strings, __metatable = false }
local tables_view = { __index = tables, __metatable = false }
local maths_view = { __index = maths, __metatable = false }
local clock_view = { __index = clock, __metatable = false }
local globals_view = { __index = base, __metatable = false }

local of_strings = getmetatable("")
of_strings.__index = strings
of_strings.__metatable = false

local nothing = {}

local function finish(script, ok, result)
  setfenv(script, nothing)
  loaded.string, loaded.table, loaded.math, loaded.os = nil, nil, nil, nil
  if not ok then
    tripped(result)
    return false, result
  elseif type(result) == "table" then
    return true, rawget(result, "status"), rawget(result, "message")
  end
  return nil, type(result)
end

return function(script, object, time)
  now = time
  local globals = {
    obj = object,
    string = setmetatable({}, strings_view),
    table = setmetatable({}, tables_view),
    math = setmetatable({}, maths_view),
    os = setmetatable({}, clock_view),
  }
  globals._G = globals
  loaded.string, loaded.table, loaded.math, loaded.os = globals.string, globals.table, globals.math, globals.os
  setfenv(script, setmetatable(globals, globals_view))
  return finish(script, pcall(script))
end
