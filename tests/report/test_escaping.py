"""Whatever a name holds, every renderer shows it as letters: nothing is obeyed, and no letter is lost."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from selfpretrain.report.format import CONTROLS, plain, printable
from selfpretrain.report.layout import Entry, Page, ReportTable, Section
from selfpretrain.report.page import show, write
from selfpretrain.report.render import csv_long, html, latex, markdown, terminal

SIGNS = [
    *"\\|*_`<>[]()!&;#~^${}%\"'=+-@:.1 \n\t\r\x00\x07\x1b\x7f\x9b\u202e\u2066",
    "](x)", "&lt;", "&#60;", "# ", "- ", "1. ", "---", "~~~", "<b>", "</td>", "<script>", "$x$", "\\input{x}",
    "=1+1", "@SUM(1)", "\x1b[31m", "\x1b]8;;http://x\x07", "[bold]x[/bold]",
    "![", "![x](http://x.y/z.png)", "<img src=x>", "<!--", "<?", "\\!", "{{ page }}", "{% raw %}", "a", "ß",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(SIGNS) | st.characters(exclude_categories=["Cs"]), max_size=12).map(
    "".join
)
NASTY = "\x1b[31m<script>alert(1)</script>](x) | $\\input{x}$ &lt; =1+1 \u202etxt"


def hostile(test):
    """A property of every name."""
    return given(HOSTILE)(example(NASTY)(test))


@hostile
def test_plain_text_is_one_line_without_controls(text):
    assert not CONTROLS.search(plain(text)) and "\n" not in plain(text)
    assert plain(plain(text)) == plain(text)
    assert printable(text).replace("\n", "") == CONTROLS.sub("", text).replace("\n", "")


def read_markdown(text):
    """The letters that a reader sees; fails where anything but letters was understood."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    inline = [token for token in tokens if token.type == "inline"]
    for token in inline:
        kinds = {child.type for child in token.children or ()}
        assert kinds <= {"text", "text_special", "softbreak"}, (text, kinds)
    return "".join(child.content for token in inline for child in token.children or ())


@hostile
def test_markdown(text):
    for before, after in (("", ""), ("- ", ""), ("## ", ""), ("> ", ""), ("words\n", "\nwords")):
        seen = read_markdown(f"{before}{markdown.escaped(text)}{after}")
        wanted = plain(text) if not after else f"words{plain(text)}words"
        assert seen == wanted
    table = ReportTable("t", "t", ("model", text), ((Entry(text), Entry("1")),))
    assert read_markdown(markdown.table(table).split("\n\n")[1]) == f"model{plain(text)}{plain(text)}1"


def read_latex(text):
    """The letters behind known commands; fails at a special character that is none of theirs."""
    known = sorted(latex.SPECIAL.items(), key=lambda item: -len(item[1]))
    sign = re.compile("|".join(f"(?:{re.escape(written)})" for _, written in known))
    letters = {written: character for character, written in known}
    rest = sign.sub("", text)
    assert not set(rest) & set('\\{}$&#%_^~<>|"[]'), (text, rest)
    return sign.sub(lambda found: letters[found[0]], text)


@hostile
def test_latex(text):
    if not set(plain(text)) & set("-'`"):  # whose ligatures mean other characters
        assert read_latex(latex.escaped(text)) == plain(text)
    comment = latex.document(Page("p", text, (text,), (), (), text)).splitlines()
    assert all(line.startswith("% ") for line in comment) and len(comment) == 4


class Letters(HTMLParser):
    """The letters of the main part of a page, and the tags that are there."""

    def __init__(self):
        super().__init__()
        self.letters, self.tags = "", set[str]()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.letters += data


@hostile
def test_html(text):
    section = Section(text, points=(text,), facts=((text, text),))
    whole = html.document(Page("p", text, (text,), (text,), (section,), text))
    assert not CONTROLS.search(whole)
    seen = Letters()
    seen.feed(whole[whole.index("<main>") : whole.index("</main>")])
    assert seen.tags <= {"main", "header", "h1", "p", "section", "h2", "ul", "li", "dl", "dt", "dd"}
    assert not plain(text) or " ".join(seen.letters.split()).count(plain(text)) >= 7
    prose = Letters()  # which is Markdown, and may have links
    prose.feed(html.rendered(text))
    assert not prose.tags & {"script", "b", "style", "iframe", "img"}


@hostile
def test_prose_of_a_stranger_loads_and_runs_nothing(text):
    for prose in (
        text,
        f"![{text}](http://x.y/z.png)",
        f"a <img src=x {text}>",
        f"[{text}]: http://x\n\n![{text}]",
    ):
        tokens = MarkdownIt("commonmark", {"html": True}).parse(markdown.disarmed(prose))
        kinds = {token.type for token in tokens}
        kinds |= {child.type for token in tokens for child in token.children or ()}
        assert not kinds & {"image", "html_inline", "html_block"}, (prose, kinds)


def test_emphasis_links_and_code_in_prose_stay():
    prose = "It is, a **little**: see [here](http://x.y), `a < b` and 1 < 2!"
    assert markdown.disarmed(prose) == prose
    assert '<a href="http://x.y">here</a>' in html.rendered(prose)


@hostile
def test_csv(text):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([csv_long.escaped(text), csv_long.escaped(-1.5)])
    ((name, number),) = csv.reader(io.StringIO(out.getvalue()))
    assert not name.startswith(("=", "+", "-", "@")) and number == "-1.5"
    assert name.removeprefix("'") == plain(text).removeprefix("'")
    assert name == plain(text) or plain(text).startswith(csv_long.FORMULA)


@hostile
def test_terminal(text):
    out = io.StringIO()
    console = Console(file=out, width=10_000, force_terminal=False)
    console.print(terminal.escaped(text))
    assert out.getvalue().rstrip("\n") == plain(text)
    table = ReportTable("t", text, (text, text), ((Entry(text), Entry(text)),), text)
    console.print(
        terminal.show(Page("p", text, (text,), (text,), (Section(text, text, (text,), tables=(table,)),), ""))
    )
    assert not CONTROLS.search(out.getvalue())


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.usefixtures("drawn_pictures")
def test_a_whole_experiment_of_hostile_names(make, scene, edit):
    """Through reading, figures and files."""
    name = NASTY.replace("/", "")
    prose = f"![x](http://x.y/z.png) <img src=//x.y/z.png> {NASTY}"
    told = {"about": {NASTY: prose}, "interpretation": prose}
    folder = make(scene(rows={name: (0.5, 0.52, 0.6)}, seeds=2, test=50, title=NASTY, notes=(NASTY,)), **told)
    for result in folder.parent.glob("stages/*-classify/result.json"):
        edit(result, lambda it: it["scores"].update({NASTY: {"score": 0.5}, "val": {"score": 0.5, NASTY: 1}}))
    made = {kind: path.read_text() for kind, path in write(folder).items()}
    out = io.StringIO()
    Console(file=out, width=200).print(show(folder))
    for text in (*made.values(), out.getvalue()):
        assert not CONTROLS.search(text)
    assert "<img" not in made["html"]
    assert "\n![x](http" not in made["markdown"] and " <img" not in made["markdown"]
    assert "<script>alert" not in made["html"] and "<script>alert" not in made["gain.svg"]
    lines = list(csv.DictReader(io.StringIO(made["csv"])))
    assert all(line["row"] == plain(name) and line[plain(f"val_{NASTY}")] == "1.0" for line in lines)
