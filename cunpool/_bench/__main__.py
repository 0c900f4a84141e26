"""A contestant's process, which ``cunpool bench`` starts."""

from cunpool._bench.clock import main
from cunpool._bench.contestants import CONTESTANTS

if __name__ == "__main__":
    main(CONTESTANTS)
