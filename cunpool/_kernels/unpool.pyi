from typing import Any

from numpy.typing import NDArray

KINDS: tuple[str, ...]
SCATTERED: int
FILLED: int
STRAYED: int
INTERLEAVED: int
SPLIT: int
STREAMED: int
BY_INDICES: int
TURNED: int
ONTO: int
GATHERED: int

def unpool(
    pooled: NDArray[Any],
    indices: NDArray[Any],
    full: NDArray[Any],
    sizes: tuple[int, ...],
    spatial: int,
    kind: int,
    threads: int,
    background: NDArray[Any] | None = None,
) -> int: ...
def unpool_backward(
    full: NDArray[Any],
    indices: NDArray[Any],
    pooled: NDArray[Any],
    sizes: tuple[int, ...],
    spatial: int,
    kind: int,
    threads: int,
) -> int: ...
def conditions() -> list[dict[str, Any]]: ...
