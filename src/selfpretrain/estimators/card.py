"""Model card: what a model does, its data and scores, and how to use it."""

from jinja2 import Environment, StrictUndefined

from ..config import is_ours
from ..errors import printable
from ..system.files import Json

TEXT = """\
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
model.{{ ask }}(X)
```

It takes {{ takes }}, of at most {{ form.length }} positions.

## Data

| | |
| --- | --- |
{% for name, value in data.items() if value != "" -%}
| {{ name }} | {{ value }} |
{% endfor %}
## Scores
{% if test %}
On examples held out of training, with 95 % intervals over examples:

| measure | value | interval |
| --- | --- | --- |
{% for name, s in test.items() -%}
| {{ name }} | {{ "%.3f"|format(s.value) }} | {{ "%.3f"|format(s.low) }} to {{ "%.3f"|format(s.high) }} |
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
How often it is right, by how sure it is; below the diagonal it is surer than it should be:

![accuracy over confidence](reliability.svg)
{% endif %}
{%- else %}
None on examples held out for the test were taken down. Those of validation, by which weights were chosen,
are in model.json.
{% endif %}
## Recipe

{{ mixer }}, width {{ model.width }}, {{ model.depth }} blocks; {{ members }} network{{ "s" if members > 1 }}.
Stages of every network: {{ stages }}. `model.json` holds the whole recipe and the versions it ran with.

## Limits

It knows sequences like those it was trained on. Its scores say nothing of other sources, sensors or times.
"""


def card(said: Json) -> str:
    """Return the model card as Markdown, from the contents of ``model.json``."""
    form = said["form"]
    signal = form["signal"]
    names = [printable(str(label)) for label in form["target"].get("names", [])]
    stages = [stage for recipe in said["recipes"][:1] for stage in recipe["stages"]]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    what = {
        "SequenceClassifier": f"It tells of which class a sequence is: {', '.join(names[:20])}{more}.",
        "SequenceRegressor": "It tells the real number that belongs to a sequence.",
        "MultilabelClassifier": f"It tells the classes of a sequence: {', '.join(names[:20])}{more}.",
        "PositionClassifier": f"It tells the class of every position: {', '.join(names[:20])}{more}.",
        "SequencePretrainer": "It turns a sequence into a vector.",
    }[said["kind"]]
    channels = f"values of {signal.get('channels')} channels"
    return (
        Environment(undefined=StrictUndefined, autoescape=False)
        .from_string(TEXT)
        .render(
            kind=said["kind"],
            what=what,
            ask="transform" if said["kind"] == "SequencePretrainer" else "predict",
            takes=f"symbols, {signal['vocab']} of them" if "vocab" in signal else channels,
            form=form,
            data={key: printable(str(value)) for key, value in said["data"].items()},
            test=said["scores"].get("test"),
            classes={printable(name): each for name, each in said["scores"].get("classes", {}).items()},
            reliable="reliability" in said["scores"],
            mixer=_mixer(said["model"]["mixer"]["is"]),
            model=said["model"],
            members=said["members"],
            stages=", then ".join(stage["objective"]["is"].rpartition(":")[2].lower() for stage in stages)
            or "unknown",
        )
    )


def _mixer(identity: str) -> str:
    """Return the name of a mixer without importing its module, which may be third-party code."""
    module, _, kind = identity.partition(":")
    return module.rpartition(".")[2].replace("_", "-") if is_ours(module) else printable(kind.lower())
