-- What stands for null in JSON: a value like no other, which looks as Redis's does.

local sandbox = ...

local null = newproxy(true)
getmetatable(null).__tostring = function() return 'userdata: (nil)' end
getmetatable(null).__metatable = false
sandbox.hide_metatable(null)

return null
