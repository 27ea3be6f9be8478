-- How long a step is: six bytes of createdAt, and sixteen of the id. A chunk is a string of steps in order.
local WIDTH = 22

-- By bytes: Lua's own comparison goes by the locale.
local function is_less(left, right)
  for at = 1, math.min(#left, #right) do
    local a, b = string.byte(left, at), string.byte(right, at)
    if a ~= b then return a < b end
  end
  return #left < #right
end

-- How many steps of a chunk come before a step or a time, with itself or without, when `low` at least do.
local function rank_in_chunk(chunk, step, with_itself, low)
  local high, time, id = #chunk / WIDTH, (struct.unpack('>I6', step)), string.sub(step, 7)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other_time = struct.unpack('>I6', chunk, middle * WIDTH + 1)
    local is_before = other_time < time
    if other_time == time then
      local other_id = string.sub(chunk, middle * WIDTH + 7, (middle + 1) * WIDTH)
      is_before = is_less(other_id, id) or (with_itself and other_id == id)
    end
    if is_before then low = middle + 1 else high = middle end
  end
  return low
end

