from typing import Any

from numpy.typing import NDArray

KINDS: tuple[str, ...]
STACKED: int
ACROSS: int
STREAMED: int
LARGE: int
WINDOW2: int
SEPARATED: int
FILTERED: int
COPIED: int
WIDTH_SWAPPED: int
ROLLING: int
INTERLEAVED: int

def pool(
    full: NDArray[Any],
    pooled: NDArray[Any],
    indices: NDArray[Any] | None,
    sizes: tuple[int, ...],
    spatial: int,
    kind: int,
    codes: bool,
    threads: int,
    is_minimum: bool = False,
    omits_nan: bool = False,
) -> int: ...
def conditions() -> list[dict[str, Any]]: ...
