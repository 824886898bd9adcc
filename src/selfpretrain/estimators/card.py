"""The card of a saved model: what it is for, its data, candidates, scores and limits, as Markdown."""

from jinja2 import Environment, StrictUndefined

from ..config import is_ours
from ..errors import printable
from ..system.files import Json
from .inputs import SIGNS
from .predictor import PRETRAINER
from .scores import shown

LISTED = 20  # most classes that a card names
CARD = """\
---
library_name: selfpretrain
tags: [selfpretrain, sequences, {{ kind }}]
---
# {{ kind }} by selfpretrain

{{ what }}

## Use

```python
from selfpretrain import {{ kind }}

model = {{ kind }}.load("FOLDER")  # or .from_pretrained("OWNER/NAME")
model.{{ method }}(X)
```

Its inputs are sequences of {{ signal }}, of at most {{ length }} positions.

## Data

| | |
| --- | --- |
{% for name, value in data.items() if value != "" -%}
| {{ name }} | {{ value }} |
{% endfor %}
{% if kept -%}
## Candidates

{{ kept }}.
{% endif %}
{%- if leaderboard %}
Scores of all candidates on validation, with 95 % intervals. By them the best was chosen, and so they are
optimistic.

| candidate | {{ leaderboard[0].metric }} | interval | seconds | parameters |
| --- | --- | --- | --- | --- |
{% for row in leaderboard -%}
| {{ row.name }} | {{ "%.3f"|format(row.score) }} {{ "" -}}
| {{ "%.3f"|format(row.low) }} to {{ "%.3f"|format(row.high) }} | {{ row.seconds }} | {{ row.parameters }} |
{% endfor %}
{%- endif %}
## Scores
{% if test %}
On held-out test examples, with 95 % bootstrap intervals over examples:

| measure | value | interval |
| --- | --- | --- |
{% for name, s in test.items() -%}
| {{ name }} | {{ shown(s.value) }} | {{ shown(s.low) }} to {{ shown(s.high) }} |
{% endfor %}
{%- if classes %}
| class | F1 | AUROC | average precision |
| --- | --- | --- | --- |
{% for name, s in classes.items() -%}
| {{ name }} {% for measure in ("F1", "AUROC", "average precision") -%}
| {{ "%.3f"|format(s[measure].value) }} {% endfor %}|
{% endfor %}
{%- endif %}
{%- if reliable %}
Accuracy by confidence; below the diagonal the model is overconfident:

![accuracy over confidence](reliability.svg)
{% endif %}
{%- else %}
No scores on held-out test examples are recorded. The validation scores, by which the weights were chosen,
are in model.json.
{% endif %}
## Recipe
{% if not trained %}
The network was not trained, and predicts nothing. This is what it would be:
{% endif %}
{{ mixer }}, width {{ model.width }}, {{ model.depth }} blocks; {{ members }} network{{ "s" if members > 1 }}.
Stages of every network: {{ stages }}. `model.json` holds the whole recipe and the versions it ran with.

## Limits

The model was trained on sequences like those above. Its scores may not hold for other sources, sensors or
times.
"""


def card(content: Json) -> str:
    """Return the model card as Markdown, from the contents of ``model.json``."""
    form = content["form"]
    signal = f"values of {form['signal'].get('channels')} channels"
    if "vocab" in form["signal"]:
        text = content["data"].get("signal") == "text"
        signal = "text" if text else f"tokens from a vocabulary of {form['signal']['vocab']}"
    alphabet = content["alphabet"] or {}
    signs = 0 if alphabet.get("begin") is None else SIGNS
    recipes = content["recipes"]
    objectives = zip(
        *([stage["objective"]["is"] for stage in recipe["stages"]] for recipe in recipes), strict=True
    )
    stages = [
        " and ".join(dict.fromkeys(name.rpartition(":")[2].lower() for name in names)) for names in objectives
    ]
    template = Environment(undefined=StrictUndefined, autoescape=False).from_string(CARD)
    return template.render(
        kind=content["kind"],
        shown=shown,
        what=_purpose(content["kind"], form["target"]),
        method="transform" if content["kind"] == PRETRAINER else "predict",
        signal=signal,
        length=form["length"] - signs,
        trained=content["trained"],
        data={key: printable(str(value)) for key, value in content["data"].items()},
        test=content["scores"].get("test"),
        classes={printable(name): each for name, each in content["scores"].get("classes", {}).items()},
        kept=content["kept"],
        leaderboard=content["leaderboard"],
        reliable="reliability" in content["scores"],
        mixer=_mixer_name(content["models"][0]["mixer"]),
        model=content["models"][0],
        members=len(content["models"]),
        stages=", then ".join(stages) or "unknown",
    )


def _purpose(kind: str, target: Json) -> str:
    """Return in one sentence what the model does."""
    names = [printable(str(label)) for label in target.get("names", [])]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    classes = f"{', '.join(names[:LISTED])}{more}"
    return {
        "SequenceClassifier": f"It predicts the class of a sequence: {classes}.",
        "SequenceRegressor": "It predicts a real number for a sequence.",
        "MultilabelClassifier": f"It predicts the labels of a sequence, any number of: {classes}.",
        "PositionClassifier": f"It predicts the class of every position: {classes}.",
        PRETRAINER: "It turns a sequence into a vector.",
    }[kind]


def _mixer_name(plain: Json) -> str:
    """Return the name of a mixer without importing its module, which may be third-party code."""
    if "config" in plain:
        return printable(str(plain["name"]))
    module, _, kind = str(plain.get("factory", plain["is"])).partition(":")
    return module.rpartition(".")[2].replace("_", "-") if is_ours(module) else printable(kind.lower())
