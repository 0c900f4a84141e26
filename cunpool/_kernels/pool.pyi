from typing import Any

from numpy.typing import NDArray

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
    order: tuple[int, ...],
    codes: bool,
    threads: int,
    omits_nan: bool = False,
) -> int: ...
def conditions() -> list[dict[str, Any]]: ...
