from typing import Any

from numpy.typing import NDArray

def unpool_backward(
    full: NDArray[Any],
    indices: NDArray[Any],
    pooled: NDArray[Any],
    sizes: tuple[int, ...],
    spatial: int,
    kind: int,
    codes: bool,
    threads: int,
) -> int: ...
def conditions() -> dict[str, tuple[int, int]]: ...
