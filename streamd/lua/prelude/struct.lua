-- The table `struct`: values to bytes and back, by formats as those of the library of that name in Redis.

local sandbox, float_bytes, read_float, normal = ...

local type, select, tonumber, tostring, unpack, ipairs = type, select, tonumber, tostring, unpack, ipairs
local char, byte, sub, reverse, find, match = string.char, string.byte, string.sub, string.reverse, string.find,
  string.match
local concat, log = table.concat, math.log
local fail, bad = sandbox.fail, sandbox.bad

local INTEGER_BYTES_MAX, ALIGNMENT = 32, 8
local HALVES = { 2 ^ 7, 2 ^ 15, 2 ^ 23, 2 ^ 31 }
local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1 }

-- Return a format as items, each with its option, its size, what its place is a multiple of, whether the lowest byte is
-- first, whether it is a whole number, with a sign, and how often it is there. What is wrong with a format is said when it
-- is come to.
local function parse(form, name)
  local p, little, align, items = 1, true, 1, {}
  local function digits(default)
    local text, behind = match(form, '^(%d+)()', p)
    if not text then return default end
    p = behind
    return tonumber(text)
  end
  local function add(option, size, step)
    local last = items[#items]
    if last and step <= 1 and last[1] == option and last[2] == size and not last[3] and last[4] == little and last[5] then
      last[7] = last[7] + 1
      return
    end
    items[#items + 1] = {
      option, size, step > 1 and step or false, little,
      find('bBhHlLTiI', option, 1, true) and true, find('bhli', option, 1, true) and true, 1,
    }
  end
  local function refuse(how, ...)
    local said = { ... }
    items[#items + 1] = { function() how(unpack(said)) end, 0, false, false, false, false, 1 }
  end
  while p <= #form do
    local option = sub(form, p, p)
    p = p + 1
    if option == '<' or option == '>' or option == ' ' then
      if option ~= ' ' then little = option == '<' end
      add(' ', 0, 0)
    elseif option == '!' then
      local wanted = digits(ALIGNMENT)
      if wanted > 2147483647 then return items, refuse(fail, 'integral size overflow') end
      if wanted < 1 or match(tostring(log(wanted) / log(2)), '%.') then
        return items, refuse(fail, 'alignment ' .. wanted .. ' is not a power of 2')
      end
      align = wanted
      add(' ', 0, 0)
    elseif option == 'i' or option == 'I' then
      local size = digits(4)
      if size > 2147483647 then return items, refuse(fail, 'integral size overflow') end
      if size > INTEGER_BYTES_MAX then
        return items, refuse(fail, 'integral size ' .. size .. ' is larger than limit of ' .. INTEGER_BYTES_MAX)
      end
      add(option, size, size > align and align or size)
    elseif option == 'c' then
      local size = digits(1)
      if size > 2147483647 then return items, refuse(fail, 'integral size overflow') end
      add(option, size, 0)
    elseif option == 's' then
      add(option, 0, 0)
    else
      local size = SIZES[option]
      if not size then return items, refuse(bad, 1, name, "invalid format option '" .. option .. "'") end
      add(option, size, option ~= 'x' and (size > align and align or size) or 0)
    end
  end
  return items
end

-- Scripts use few formats, again and again.
local FORMATS_MAX, FORMAT_BYTES_MAX = 64, 256
local known, count = {}, 0

local function items_of(form, name)
  local items = known[form]
  if items then return items end
  items = parse(form, name)
  if #form <= FORMAT_BYTES_MAX then
    if count == FORMATS_MAX then known, count = {}, 0 end
    known[form], count = items, count + 1
  end
  return items
end

-- As in C: of more than 8 bytes the lowest 8 count, of which the place of the sign is then a remainder. Two parts are
-- added, so that the number is rounded once.
local function read_integer(text, p, size, little, signed)
  if size <= 4 and size > 0 then  -- the hot path
    local number, b, c, d = byte(text, p, p + size - 1)
    if little then
      if b then number = number + b * 256 end
      if c then number = number + c * 0x10000 end
      if d then number = number + d * 0x1000000 end
    else
      if b then number = number * 256 + b end
      if c then number = number * 256 + c end
      if d then number = number * 256 + d end
    end
    if signed and number >= HALVES[size] then return number - 2 * HALVES[size] end
    return number
  end
  local from, step = little and p + size - 1 or p, little and -1 or 1
  local sign = (size * 8 - 1) % 64
  if size > 8 then from, size = from + step * (size - 8), 8 end
  local high, low = 0, 0
  for i = 0, size - 5 do high = high * 256 + byte(text, from + step * i) end
  for i = size > 4 and size - 4 or 0, size - 1 do low = low * 256 + byte(text, from + step * i) end
  if not signed then return high * 2 ^ 32 + low end
  if sign < 32 then return (high > 0 or low >= 2 ^ sign) and low % 2 ^ sign - 2 ^ sign or low end
  if high >= 2 ^ (sign - 32) then high = high % 2 ^ (sign - 32) - 2 ^ (sign - 32) end
  return high * 2 ^ 32 + low
end

local function argument(place, name, wanted, ...)
  local value = (select(place, ...))
  local n = select('#', ...)
  local found = value
  if wanted == 'number' and type(value) == 'string' then found = tonumber(value) end
  if wanted == 'string' and type(value) == 'number' then found = tostring(value) end
  if type(found) ~= wanted then
    bad(place, name, wanted .. ' expected, got ' .. (place <= n and type(value) or place > 2 - n and name == 'pack' and 'nil' or 'no value'))
  end
  return found
end

-- So many bytes become a text at once.
local BYTES_AT_ONCE = 128
local bytes = {}

-- Append the first n bytes, as a text, to a list of texts; return the list, how long it is, and how many bytes are left.
local function flush(n, out, texts)
  out = out or {}
  out[texts + 1] = char(unpack(bytes, 1, n))
  return out, texts + 1, 0
end

local function pack(...)
  local values, out, texts, n, at, place = { ... }, nil, 0, 0, 0, 1
  local form = values[1]
  if type(form) ~= 'string' then form = argument(1, 'pack', 'string', ...) end
  local items = known[form] or items_of(form, 'pack')
  for i = 1, #items do
    local item = items[i]
    local option, size, align, little = item[1], item[2], item[3], item[4]
    if align then
      for _ = 1, (align - at % align) % align do
        n, at = n + 1, at + 1
        bytes[n] = 0
      end
    end
    if item[5] then
      for _ = 1, item[7] do
        place = place + 1
        local number = values[place]
        if type(number) ~= 'number' then number = argument(place, 'pack', 'number', ...) end
        local fraction = number % 1
        if fraction ~= 0 then number = number - fraction + (number < 0 and 1 or 0) end
        local from, to, step = n + 1, n + size, 1
        if not little then from, to, step = to, from, -1 end
        for i = from, to, step do
          local low = number % 256
          bytes[i] = low
          number = (number - low) / 256
        end
        n = n + size
        if n >= BYTES_AT_ONCE then out, texts, n = flush(n, out, texts) end
      end
      at = at + size * item[7]
    elseif option == 'x' then
      n, at = n + 1, at + 1
      bytes[n] = 0
      if n >= BYTES_AT_ONCE then out, texts, n = flush(n, out, texts) end
    elseif type(option) == 'function' then
      option()
    elseif option ~= ' ' then
      place = place + 1
      local value, text = values[place], nil
      if option == 'f' or option == 'd' then
        if type(value) ~= 'number' then value = argument(place, 'pack', 'number', ...) end
        text = float_bytes(value, option == 'd' and 52 or 23, little)
      else
        text = argument(place, 'pack', 'string', ...)
        if option == 's' then
          text = text .. '\0'
        else
          if size == 0 then size = #text end
          if #text < size then bad(place + 1, 'pack', 'string too short') end
          text = sub(text, 1, size)
        end
      end
      if n > 0 then out, texts, n = flush(n, out, texts) end
      out, texts, at = out or {}, texts + 1, at + #text
      out[texts] = text
    end
  end
  if texts == 0 then return char(unpack(bytes, 1, n)) end
  if n > 0 then flush(n, out, texts) end
  return concat(out)
end

local function unpack_(...)
  local form, text, from = ...
  if type(form) ~= 'string' then form = argument(1, 'unpack', 'string', ...) end
  if type(text) ~= 'string' then text = argument(2, 'unpack', 'string', ...) end
  if select('#', ...) < 3 then
    from = 1
  elseif type(from) ~= 'number' then
    from = argument(3, 'unpack', 'number', ...)
  end
  if from < 1 then bad(3, 'unpack', 'offset must be 1 or greater') end
  local at, values, n, length = from - 1, {}, 0, #text
  local items = known[form] or items_of(form, 'unpack')
  for i = 1, #items do
    local item = items[i]
    local option, size, align, little = item[1], item[2], item[3], item[4]
    if type(option) == 'function' then option() end
    if align then at = at + (align - at % align) % align end
    if at + size * item[7] > length then bad(2, 'unpack', 'data string too short') end
    if item[5] and size == 4 then  -- the hot path
      local half = item[6] and 2 ^ 31 or 2 ^ 32
      for p = at + 1, at + 4 * item[7], 4 do
        local a, b, c, d = byte(text, p, p + 3)
        if not little then a, b, c, d = d, c, b, a end
        local number = a + b * 256 + c * 0x10000 + d * 0x1000000
        n = n + 1
        values[n] = number < half and number or number - 2 ^ 32
      end
      at = at + 4 * item[7] - size
    elseif item[5] then
      for i = 0, item[7] - 1 do
        n = n + 1
        values[n] = read_integer(text, at + size * i + 1, size, little, item[6])
      end
      at = at + size * item[7] - size
    elseif option == 'c' then
      if size == 0 then
        if n == 0 or type(values[n]) ~= 'number' then fail("format 'c0' needs a previous size") end
        size = values[n] - values[n] % 1
        values[n], n = nil, n - 1
        if not (size >= 0 and at + size <= length) then bad(2, 'unpack', 'data string too short') end
      end
      n = n + 1
      values[n] = sub(text, at + 1, at + size)
    elseif option == 's' then
      local stop = find(text, '\0', at + 1, true)
      if not stop then fail('unfinished string in data') end
      n, size = n + 1, stop - at
      values[n] = sub(text, at + 1, stop - 1)
    elseif option == 'f' or option == 'd' then
      n = n + 1
      local a, b, c, d, e, f, g, h = byte(text, at + 1, at + size)
      if little then a, b, c, d, e, f, g, h = h, g, f, e, d, c, b, a end
      local number = option == 'd' and normal(a, b, c, d, e, f, g, h)
      if not number then
        local found = sub(text, at + 1, at + size)
        number = read_float(little and reverse(found) or found, 1, option == 'd' and 52 or 23)
      end
      values[n] = number
    end
    at = at + size
  end
  values[n + 1] = at + 1
  return unpack(values, 1, n + 1)
end

local function size_of(...)
  local at = 0
  for _, item in ipairs(items_of(argument(1, 'size', 'string', ...), 'size')) do
    local option, size, align = item[1], item[2], item[3]
    if type(option) == 'function' then option() end
    if option == 's' then
      bad(1, 'size', "option 's' has no fixed size")
    elseif option == 'c' and size == 0 then
      bad(1, 'size', "option 'c0' has no fixed size")
    end
    at = at + (align and (align - at % align) % align or 0) + size * item[7]
  end
  return at
end

sandbox.behind.struct = sandbox.front({ pack = pack, unpack = unpack_, size = size_of })
