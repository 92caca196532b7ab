"""``permafrost convert-checkpoint``: convert a pickled checkpoint to safetensors."""

from __future__ import annotations

from pathlib import Path

from permafrost.backbones.weights.conversion import convert_checkpoint
from permafrost.core.text import bytes_words, printable


def add_arguments(parser) -> None:
    parser.add_argument(
        "source", type=Path, metavar="IN", help="a checkpoint that torch.save wrote"
    )
    parser.add_argument(
        "target",
        type=Path,
        metavar="OUT",
        help="the .safetensors file to write; must not exist yet",
    )
    parser.add_argument(
        "--key",
        help="key of the tensors in the file, such as teacher (default: state_dict or model, else all)",
    )


def run(arguments) -> None:
    done = convert_checkpoint(arguments.source, arguments.target, arguments.key)
    print(f"{arguments.target}: {done.tensors} tensors, {bytes_words(done.bytes)}")
    for name, what in done.left_out.items():
        print(printable(f"omitted: {name} ({what})"))
