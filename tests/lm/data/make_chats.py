#!/usr/bin/env python3
"""Writes chat/cases.json: the texts that transformers renders with the templates of
chat/, and with small templates for each part of the template language.

    make_chats.py            (needs transformers 5.24 and jinja2)
    make_chats.py FOLDER     uses only the templates FOLDER/*.jinja and writes
                             FOLDER/cases.json, which tests/lm/test_chat FOLDER reads

A case has "template" (a file) or "source", "messages" (role, content, and "more": the
other members as JSON), "tools" and "variables" (as JSON), "add_generation_prompt", and
"text" or, if transformers raises an exception, "refused"."""
import json
import os
import sys
from datetime import datetime
from unittest import mock

from transformers.utils import chat_template_utils

own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat")
here = sys.argv[1] if len(sys.argv) > 1 else own
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

parts = {"role": "user", "content": [{"type": "text", "text": "A town, "},
                                     {"type": "text", "text": "please."}]}
reasoned = {"role": "assistant", "content": "Bonn.", "thinking": "short",
            "reasoning_content": "short"}
call_id = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdef123", "type": "function", "function": {
        "name": "route", "arguments": {"from": "Bonn", "via": ["Köln", 2], "fast": True}}}]}
result_id = {"role": "tool", "tool_call_id": "abcdef123", "name": "route",
             "content": "12 <km> & more"}
typed = tools + [{"type": "function", "function": {
    "name": "route", "description": "A route\nbetween towns", "parameters": {
        "type": "object", "required": ["from"], "properties": {
            "from": {"type": "string", "enum": ["Bonn", "Köln"], "default": "Bonn"},
            "via": {"type": "array", "items": {"type": "string", "nullable": True},
                    "description": "towns"},
            "fast": {"type": ["boolean", "null"], "default": False},
            "length": {"oneOf": [{"type": "number", "description": "km"}, {"type": "string"}]},
            "by": {"type": "object", "properties": {"car": {"type": "boolean"}}}}},
    "return": {"type": "string"}}}]

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
         ([user, call], None, {"builtin_tools": ["weather", "code_interpreter"]}),
         ([system, parts, reasoned, ask], typed, {"reasoning_effort": "high"}),
         ([user, call_id, result_id, answer, ask], typed, {"thinking": True})]

# templates for each part of the language, one in a line
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
{{ "%s|%5s|%-5s|%d|%05d|%+d|% d|%x|%#x|%#06x|%X|%o|%r|%%" % ("a", "é", "b", 3.9, -7, 3, 3, 255, 255, 255, 171, 8, "it's") }} {{ "%s" % 1 }} {{ "%s %s" % (none, [1, "b"]) }} {{ "%(a)s-%(b)03d" % {"a": "x", "b": 7} }} {{ "%.2f|%8.3f|%-8.1f|%e|%g|%.3s|%08.2f" % (1.005, 2.5, 3.25, 12345.678, 0.0001, "abcdef", -3.14159) }} {{ "100%%" % () }}
{{ "%s and %s" | format("a", 2) }} {{ "%(x)s" | format(x=1) }} {{ "<{}|{}>".format("a", 1) }} {{ "{1}{0}{1}".format("a", "b") }} {{ "{x}{{}}{y}".format(x=1, y="z") }} {{ "{:5}|{:<5}|{:>5}|{:^5}|{:*^7}|{:05d}|{:+}|{:.2f}|{:8.3f}|{:x}|{:#x}|{:.3}|{!r}|{!s:>4}".format("a", "b", "c", "d", "e", 42, 5, 3.14159, 2.5, 255, 255, "abcdef", "q", 7) }} {{ "{:5}|{:<5}".format(3, 4) }} {{ "{}{}{}".format(none, true, [1]) }}
{% for n in [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}, {"v": 4, "c": []}]}] recursive %}{{ n.v }}:{{ loop.depth }}{{ loop.depth0 }}{{ loop.index }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}
{% for i in range(5) %}{{ loop.cycle("a", "b", "c") }}{% endfor %} {% for i in [1, 1, 2, 2, 1] %}{% if loop.changed(i) %}{{ i }}{% endif %}{% endfor %} {% for i in [1, 2] %}{% for k in [3] %}{{ loop.depth }}{{ loop["last"] }}{% endfor %}{% endfor %} {% for i in [3, 1, 2] if i > 1 recursive %}{{ i }}{% if loop.first and loop.depth < 3 %}[{{ loop([5, 0, 6]) }}]{% endif %}{% endfor %}
{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box("b") %}in {{ 1 + 1 }}{% endcall %} {% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }};{% endfor %}{% endmacro %}{% call(a, n) each(["x", "y"]) %}{{ a }}{{ n }}{% endcall %} {% macro two() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call two() %}{% call box("i") %}z{% endcall %}{% endcall %}
{% macro v(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1) }} {{ v(1, 2, 3) }} {{ v(1, x=2, y="z") }} {{ v.name }} {% macro outer(x) %}{% macro inner(y) %}{{ x }}{{ y }}{% endmacro %}{{ inner(2) }}{% endmacro %}{{ outer(1) }} {% for q in [7, 8] %}{% macro see() %}{{ q }}{% endmacro %}{{ see() }}{% endfor %}
{% filter upper %}abc {{ "d" }}{% endfilter %} {% filter trim | replace("a", "b") %}  aXa  {% endfilter %}| {% with a = 1, b = 2 %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }} {% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }} {% set a = 3 %}{% with a = a + 1, c = a %}{{ a }}{{ c }}{% endwith %}
{% raw %}{{ x }} {% if %} {# c #}{% endraw %} a {%- raw -%}  b  {%- endraw -%}  c {% raw %}{% endraw %} {% set ns = namespace(t="") %}{% set ns.t %}in {{ 1 }}{% endset %}{{ ns.t }} {% set ns.t | upper %}up{% endset %}{{ ns.t }}
{{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }} {{ ["b", "A"] | min }} {{ ["b", "A"] | max(case_sensitive=true) }} {{ [{"a": 3}, {"a": 1}] | min(attribute="a") }} {{ [] | min }}| {{ [1, 2.5] | sum }} {{ [{"a": 3}, {"a": 4}] | sum(attribute="a") }} {{ [1] | sum(start=10) }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, "x") | list }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42 | round }} {{ 42.1 | round(1, "ceil") }} {{ 42.19 | round(1, "floor") }} {{ 1e10 | round(3) }} {{ -0.4 | round }} {{ "1.5" | float }} {{ "x" | float }} {{ "x" | float(2) }} {{ 3 | float }} {{ "0x10" | int }} {{ " 7 " | int }} {{ "1e2" | float }} {{ "" | float }}
{{ "a-b-c".rsplit("-", 1) }} {{ "a-b-c".rsplit("-") }} {{ "a-b-c".partition("-") }} {{ "a-b-c".rpartition("-") }} {{ "abc".partition("x") }} {{ "abc".rpartition("x") }} {{ "abcabc".rfind("b") }} {{ "äbä".rfind("ä") }} {{ "abc".index("c") }} {{ "abcb".rindex("b") }} {{ "a".center(6) }}| {{ "ab".center(7, "*") }} {{ "abc".center(6, "*") }} {{ "a".ljust(3) }}| {{ "a".rjust(3, ".") }} {{ "-7".zfill(4) }} {{ "7".zfill(3) }} {{ "aBc".swapcase() }}
{{ "a1".isalnum() }} {{ "".isalpha() }} {{ "ab".isalpha() }} {{ "é".isascii() }} {{ "".isascii() }} {{ "ab1".islower() }} {{ "12".islower() }} {{ "AB".isupper() }} {{ " 	".isspace() }} {{ " ".isspace() }} {{ "12".isnumeric() }} {{ "1a".isdecimal() }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ {"a": 1}.copy() }} {{ "ÄÖÉ Ñ".lower() }} {{ "ÀB" | lower }} {{ "ab" is lower }} {{ "AB" is upper }} {{ "upper" is filter }} {{ "nothing" is filter }} {{ "odd" is test }}
{{ none | selectattr("a") | list }} {{ 0 | map("upper") | list }} {{ none | reject("odd") | list }} {{ "" | select | list }}
{{ ("<a>" | safe) + "<b>" }} {{ "<a>" | safe ~ "&" ~ "<c>" }} {{ "<" ~ "<a>" | safe }} {{ "<a>" | safe }} {% if false %}{{ 1 | nothing }}{{ 1 is nothing }}{% endif %} {{ "a%sb" % "c" ~ "d" }} {{ loop is defined }} {% for i in [1] %}{{ loop is mapping }}{{ loop is callable }}{% endfor %}
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
           "{{ '%s' % () }}", "{{ '%s' % (1, 2) }}", "{{ 'a' % 1 }}", "{{ '%d' % 'a' }}", "{{ '%(a)s' % (1,) }}", "{{ '{}{}'.format(1) }}", "{{ '{'.format(1) }}",
           "{{ '}'.format(1) }}", "{{ '{0}{}'.format(1, 2) }}", "{{ '{:d}'.format('a') }}", "{{ '{x}'.format(1) }}", "{% for i in [1] %}{{ loop([2]) }}{% endfor %}", "{% raw %}a",
           "{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "{% call 1 %}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% with a %}{% endwith %}",
           "{{ 'a'.index('b') }}", "{{ [1].index(2) }}", "{{ 'a' | round }}", "{{ ['a'] | sum }}", "{{ 'a'.center() }}", "{{ 'a'.partition('') }}", "{% filter nothing %}{% endfilter %}",
           "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
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
        text = isinstance(m.get("content"), str)
        more = {k: v for k, v in m.items() if k != "role" and not (k == "content" and text)}
        out["messages"].append({"role": m["role"], "content": m["content"] if text else None,
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
    for source in language + blocks if here == own else []:
        cases.append(case(source, [user], None, {}, True))
        if "refused" in cases[-1]:
            raise SystemExit(f"{source}: {cases[-1]['refused']}")
    for source in refused if here == own else []:
        cases.append(case(source, [user], None, {}, True))
        if "refused" not in cases[-1]:
            raise SystemExit(f"{source}: not refused: {cases[-1]['text']}")
    with open(os.path.join(here, "cases.json"), "w") as out:
        json.dump({"now": NOW, "cases": cases}, out, ensure_ascii=False, indent=0)
    print(len(cases), "cases")


main()
