#!/usr/bin/env python3
"""Makes chat/cases.json: what transformers renders with the templates of chat/ and
with small templates of each part of the language.

    make_chats.py        (transformers 5.24, jinja2)

A case has "template" (a file) or "source", "messages" (role, content, and the
other members as a JSON text, "more"), "tools" and "variables" (JSON texts),
"add_generation_prompt", and "text", or "refused" if transformers raises."""
import json
import os
from datetime import datetime
from unittest import mock

from transformers.utils import chat_template_utils

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat")
tokens = {"bos_token": "<s>", "eos_token": "</s>"}
NOW = 1735732800  # 2025-01-01 12:00 UTC

tools = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a town, in °C or °F",
    "parameters": {"type": "object", "required": ["town"], "properties": {
        "town": {"type": "string", "description": "its \"name\""},
        "days": {"type": "integer", "default": 1}, "empty": {}, "list": []}}}}]
system = {"role": "system", "content": "Be brief.  "}
user = {"role": "user", "content": " Hello, wörld! <b>'1' & \"2\"</b>\n"}
answer = {"role": "assistant", "content": "Hi."}
thought = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi."}
ask = {"role": "user", "content": "And you?"}
call = {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "function": {
        "name": "weather", "arguments": {"town": "Zürich", "days": 2}}}]}
call_text = json.loads(json.dumps(call))
call_text["tool_calls"][0]["function"]["arguments"] = "{\"town\": \"Bonn\"}"
result = {"role": "tool", "content": "{\"degrees\": 21.5}"}

chats = [([user], None, {}), ([system, user], None, {}),
         ([system, user, answer, ask], None, {}),
         ([user, thought, ask], None, {"enable_thinking": False}),
         ([user, answer], None, {}), ([], None, {}),
         ([user, user], None, {}), ([system, user], tools, {}),
         ([user, call, result, result], tools, {}),
         ([user, call_text, result, answer, ask], tools, {}),
         ([user, ask, thought], None, {}),
         ([system, user], tools, {"tools_in_user_message": False,
                                  "date_string": "1 Jan 2026"}),
         ([user, call], None, {"builtin_tools": ["weather", "code_interpreter"]})]

# one line for each part of the language
language = r"""
a{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.5 + 1 }} {{ 1e20 }} {{ 1e-7 }} {{ 100.0 }}
{{ "a" ~ 1 ~ none ~ true ~ 1.0 }} {{ [1, "b", 'c"\'', none, {"k": [true]}] }} {{ "x" * 3 }} {{ [1] * 2 + [3] }}
{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ "a" < "b" }} {{ "a" in "cat" }} {{ 3 not in [1, 2] }} {{ "k" in {"k": 1} }} {{ [1, 2] == [1, 2] }}
{{ not true or false and x }} {{ x or "y" }} {{ 0 and 1 }} {{ "t" if 1 else "f" }} {{ "t" if 0 }}|
{{ "abcdef"[1:3] }} {{ "abcdef"[::-1] }} {{ "äöü"[1] }} {{ "abc"[-1] }} {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][5:] }} {{ [1, 2, 3][-2:] }} {{ "abc"[10:-10:-1] }}
{{ "  a b ".strip() }}|{{ "xxaxx".strip("x") }}|{{ "xxa".lstrip("x") }}|{{ "axx".rstrip("x") }}|{{ "a b  c".split() }}|{{ "a,b,,c".split(",") }}|{{ "a,b,c".split(",", 1) }}
{{ "abc".startswith("ab") }} {{ "abc".endswith(("x", "c")) }} {{ "aBc".upper() }} {{ "aBc".lower() }} {{ "it's a cAt".title() }} {{ "hELLO".capitalize() }}
{{ "aaa".replace("a", "b") }} {{ "aaa".replace("a", "b", 2) }} {{ "abc".replace("", "-") }} {{ "abcabc".find("ca") }} {{ "äx".find("x") }} {{ "-".join(["a", "b"]) }}
{{ {"a": 1}.get("a") }} {{ {"a": 1}.get("b") }} {{ {"a": 1}.get("b", 2) }} {{ {"a": 1, "b": 2}.items() | list }} {{ {"a": 1}.keys() | list }} {{ {"a": 1}.values() | list }}
{{ " a " | trim }}|{{ "abc" | length }}|{{ [1, 2] | join(", ") }}|{{ "a" | upper }}|{{ "A" | lower }}|{{ "abc" | replace("b", "x") }}|{{ y | default("d") }}|{{ "" | default("d", true) }}
{{ [3, 1] | list }} {{ "abc" | list }} {{ "abc" | first }} {{ [1, 2] | last }} {{ [1, 2] | reverse | list }} {{ "abc" | reverse }} {{ [1, 2, 1] | unique | list }} {{ "5" | int }} {{ "x" | int(3) }} {{ 3.9 | int }} {{ -3 | abs }}
{{ [{"a": 1}, {"a": 2}, {}] | selectattr("a", "defined") | map(attribute="a") | join("+") }} {{ [{"a": 1}, {"a": 2}] | rejectattr("a", "equalto", 1) | list }} {{ [{"a": 1}, {"a": 0}] | selectattr("a") | list | length }}
{{ ["a", "b"] | map("upper") | list }} {{ [1, 2, 3] | select("odd") | list }} {{ [1, 2, 3] | reject("eq", 2) | list }} {{ [0, 1] | select | list }} {{ [{"a": {"b": 5}}] | map(attribute="a.b") | first }}
{{ {"b": 1, "A": [1, 2.5, "ü\n\t\\\"/", none, true]} | tojson }} {{ {"b": 1, "a": {}} | tojson(indent=2) }} {{ "é😀" | tojson(ensure_ascii=true) }} {{ {"b": 1, "a": 2} | tojson(sort_keys=true) }} {{ [] | tojson(indent=2) }}
{{ {"b": 1, "A": 2} | dictsort }} {{ {"b": 1} | items | list }} {{ "a\nb\n\nc" | indent(2) }} {{ "a\nb" | indent(2, true) }} {{ "a" | safe }} {{ 12 | string | length }} {{ "heLLo" | capitalize }}
{{ x is defined }} {{ 1 is defined }} {{ none is none }} {{ "a" is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 1 is iterable }} {{ "a" is sequence }} {{ 1 is number }} {{ true is boolean }} {{ 1 is true }} {{ 1 is integer }} {{ 1.0 is float }} {{ 3 is odd }} {{ 3 is even }} {{ 6 is divisibleby 3 }} {{ 1 is in [1] }} {{ 1 is not none }} {{ 2 is gt 1 }} {{ 1 is eq 1 }} {{ x is undefined }} {{ range is callable }}
{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %} {% for a, b in {"x": 1, "y": 2}.items() %}{{ a }}{{ b }}{% endfor %} {% for i in range(6) if i is odd %}{{ i }}/{{ loop.length }} {% endfor %} {% for c in "aé" %}{{ c }}.{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %} {% for i in x %}{{ i }}{% endfor %}
{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }} {% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {% if true %}{% set b = 7 %}{% endif %}{{ b }}
{% set c, d = [1, 2] %}{{ c }}{{ d }} {% set t %}in {{ c }}{% endset %}{{ t }}! {% set u | upper %}abc{% endset %}{{ u }}
{% macro m(a, b="z") %}[{{ a }}{{ b }}{{ x }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }} {% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
a {#- c -#} b {# d #} c {#+ e #}{{- 1 -}} d   {%- if true -%}  e  {%- endif %} f
{{ "a" "b" }} {{ 'it\'s' }} {{ "\x41\u00e4\101\n" }}{{ "\q" }} {{ {"a": {"b": [1, 2]}}.a.b[1] }} {{ {"a": 1}["a"] }} {{ {"items": 1}["items"] }} {{ (1, 2)[0] }} {{ [1, 2,] }} {{ 1_000 }}
{{ dict(a=1, b="c") }} {{ namespace(a=1).a }} {{ strftime_now("%d %b %Y") }} {{ strftime_now("%Y-%m-%d") }} {% generation %}g{{ 1 }}{% endgeneration %}
{{ messages | length }} {{ messages[0].role }} {{ messages[0]["content"].nothing }}| {{ tools is none }} {{ bos_token + eos_token }} {{ add_generation_prompt }} {{ documents }}
{{ "{{" }} {{ "}}" }} {{ {"a": {"b": 1}} }} {% if "%}" %}ok{% endif %} {{ - 1 }} {{ -1 | abs }} {{ 1 - 1 }} {{ not 1 == 2 }} {{ 1 if 0 else 2 if 0 else 3 }} {{ 2 is odd or 3 is odd }}
{{ [1.0, 0.1, 123456789.123, 1e16, 1.5e300, 0.0001, 0.00001, 3.0e5] }} {{ 0.1 + 0.2 }} {{ 7.0 // 2 }} {{ 5.5 % 2 }} {{ 2 ** -1 }} {{ 10 / 5 }}
{{ "a b".isdigit() }} {{ "12".isdigit() }} {{ "prefix-a".removeprefix("prefix-") }} {{ "a.txt".removesuffix(".txt") }} {{ "\u3000a\u00a0".strip() }}| {{ "éa".strip("é") }}
{{ (1, 2) }} {{ () }} {{ (1,) }} {{ (1, 2) == [1, 2] }} {{ (1, 2) | list }} {{ (1, 2)[:1] }} {{ (1,) + (2,) }} {{ ((1, 2), [3]) | tojson }} {% set p = 1, 2 %}{{ p }}
{{ ["b", "A", "c"] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ["b", "A"] | sort(case_sensitive=true) }} {{ [{"a": 2, "b": 1}, {"a": 1}, {"a": 2, "b": 0}] | sort(attribute="a") }} {{ "a bC" | title }}
{{ "a\nb\r\nc\rd\n".splitlines() }} {{ "".splitlines() }} {{ "abcab".count("ab") }} {{ "a\n\nb".splitlines() | length }}
{{ undefined_name }}|{{ messages[99] }}|{{ {}.x }}|{{ x == y }} {{ x | length }} {{ x | join }} {{ [x] | first is undefined }}
""".strip("\n").split("\n")

blocks = ["  {% if true %}\n  a\n  {% endif %}\nb\n", "x {% if true %}\ny{% endif %}\n\n",
          "{% for i in [1, 2] %}\n  - {{ i }}\n{% endfor %}\nend", "a\n  {#- c #}\n  b\n {# d #}\nc",
          "  {%+ if true %}a{% endif +%}\nb", "a\r\nb\rc\n\n", "{% if true %} \n a {% endif %}\n",
          "\t{% set a = 1 %}\n\t{{ a }}\n", "  {{- 1 }}\n{{ 2 -}}\n  3\n", "{{ 1 }}  {% if 1 %}\n2{% endif %}"]

refused = ["{{ x.y }}", "{{ x[0] }}", "{{ x() }}", "{{ 1 + 'a' }}", "{{ 1 // 0 }}", "{{ 1 < 'a' }}", "{% for i in 1 %}{% endfor %}",
           "{% if %}", "{% endif %}", "{% for x in y %}", "{{ 'a }}", "{{ (1 }}", "{{ 1", "{# a", "{{ 1 2 }}", "{% set a.b = 1 %}",
           "{{ 'a' | nothing }}", "{{ 1 is nothing }}", "{{ raise_exception('no') }}", "{% if true %}{% endfor %}", "{{ [1].append(2) }}",
           "{{ m(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% set a, b = [1] %}",
           "{{ 'a'.strip(1) }}", "{{ 'a' | tojson(x=1) }}", "{{ 1 is odd(2) }}", "{{ range(1, 2, 0) }}", "{{ 5 | length }}", "{{ x | tojson }}"]


class Now(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.utcfromtimestamp(NOW)


def render(template, chat, tools, variables, prompt):
    with mock.patch.object(chat_template_utils, "datetime", Now):
        compiled = chat_template_utils._compile_jinja_template(template)
        return compiled.render(messages=chat, tools=tools, documents=None,
                               add_generation_prompt=prompt, **tokens, **variables)


def case(template, chat, tools, variables, prompt, name=None):
    out = {"template": name} if name else {"source": template}
    out["messages"] = []
    for m in chat:
        more = {k: v for k, v in m.items() if k != "role" and not (k == "content" and v)}
        out["messages"].append({"role": m["role"], "content": m.get("content") or None,
                                "more": json.dumps(more, ensure_ascii=False) if more else None})
    out["tools"] = json.dumps(tools, ensure_ascii=False) if tools else None
    out["variables"] = json.dumps(variables) if variables else None
    out["add_generation_prompt"] = prompt
    try:
        out["text"] = render(template, chat, tools, variables, prompt)
    except Exception as error:
        out["refused"] = str(error)
    return out


def main():
    cases = []
    for name in sorted(os.listdir(here)):
        if not name.endswith(".jinja"):
            continue
        template = open(os.path.join(here, name), newline="").read()
        for chat, with_tools, variables in chats:
            for prompt in (True, False):
                cases.append(case(template, chat, with_tools, variables, prompt, name))
    for source in language + blocks:
        cases.append(case(source, [user], None, {}, True))
        if "refused" in cases[-1]:
            raise SystemExit(f"{source}: {cases[-1]['refused']}")
    for source in refused:
        cases.append(case(source, [user], None, {}, True))
        if "refused" not in cases[-1]:
            raise SystemExit(f"{source}: not refused: {cases[-1]['text']}")
    with open(os.path.join(here, "cases.json"), "w") as out:
        json.dump({"now": NOW, "cases": cases}, out, ensure_ascii=False, indent=0)
    print(len(cases), "cases")


main()
