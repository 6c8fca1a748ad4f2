"""The configuration from outside: files in redis.conf's words, variables of the environment, flags, CONFIG REWRITE."""
