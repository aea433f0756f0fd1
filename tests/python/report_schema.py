"""Checks a value against docs/report-schema.json; implements the part of JSON Schema that this file uses."""

import json
import pathlib

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs/report-schema.json").read_text(encoding="utf-8"))

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def check(value, schema=SCHEMA, at="report"):
    """Raise an AssertionError that names the first part that does not fit."""
    if "$ref" in schema:
        return check(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], at)
    if "anyOf" in schema:
        chosen = next(one for one in schema["anyOf"] if (one.get("type") == "null") == (value is None))
        return check(value, chosen, at)
    if "const" in schema:
        assert value == schema["const"], at
    if "enum" in schema:
        assert value in schema["enum"], f"{at}: {value!r}"
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        fits = any(isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in types)
        assert fits, f"{at}: {value!r} is no {' or '.join(types)}"
    if isinstance(value, dict):
        check_object(value, schema, at)
    if isinstance(value, list):
        for index, item in enumerate(value):
            check(item, schema["items"], f"{at}[{index}]")


def check_object(value, schema, at):
    properties = schema.get("properties", {})
    assert set(schema.get("required", ())) <= set(value), f"{at} lacks {set(schema['required']) - set(value)}"
    for name, item in value.items():
        if name in properties:
            check(item, properties[name], f"{at}.{name}")
        else:
            assert schema.get("additionalProperties") is not False, f"{at}.{name} is not in the schema"
            check(item, schema["additionalProperties"], f"{at}.{name}")
