"""SQL conditions: parse, print, evaluate, explain, cover, overlap. docs/language.md is the rule book."""
