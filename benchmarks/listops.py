"""ListOps expressions per second and core, beside a plain twin of the rules.

    python benchmarks/listops.py [--number 20000]

The twin builds trees of Python lists by the rules of Long Range Arena, recursively, root included; throws
away what is too short, too long or known; and evaluates what is left. Times are processor time, compilation
excluded.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

from selfpretrain.tasks.listops import ListOps, _whole

Tree = int | list  # a digit, or an operator's name followed by its arguments


def draw(source: random.Random, depth: int, task: ListOps) -> Tree:
    if depth >= task.max_depth or source.random() >= 0.25:
        return source.randrange(10)
    arguments = source.randint(2, task.max_args)
    operator = source.choice(("[MIN", "[MAX", "[MED", "[SM"))
    return [operator, *(draw(source, depth + 1, task) for _ in range(arguments))]


def words(tree: Tree) -> list[str]:
    if isinstance(tree, int):
        return [str(tree)]
    return [tree[0], *(word for argument in tree[1:] for word in words(argument)), "]"]


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    arguments = [value(argument) for argument in tree[1:]]
    match tree[0]:
        case "[MIN":
            return min(arguments)
        case "[MAX":
            return max(arguments)
        case "[MED":
            return int(statistics.median(arguments))
    return sum(arguments) % 10


def plain(task: ListOps, number: int) -> dict[str, int]:
    source, found = random.Random(task.seed), {}
    while len(found) < number:
        tree = draw(source, 1, task)
        text = words(tree)
        if task.min_length < len(text) < task.max_length:
            found[" ".join(text)] = value(tree)
    return found


def rate(work: Callable[[], object], number: int) -> float:
    start = time.process_time()
    work()
    return number / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--number", type=int, default=20_000, help="expressions to make; the twin makes 1/50 of them"
    )
    number = parser.parse_args().number
    ListOps().tiny().load("train")
    task = ListOps(train=number - 2, val=1, test=1)
    fast = max(rate(lambda: _whole.__wrapped__(task), number) for _ in range(3))
    slow = max(rate(lambda: plain(task, max(number // 50, 1)), max(number // 50, 1)) for _ in range(2))
    print(
        f"ListOps {task.min_length}..{task.max_length}: {fast:,.0f} expressions/s, plain twin {slow:,.0f}, "
        f"ratio {fast / slow:.0f}"
    )


if __name__ == "__main__":
    main()
