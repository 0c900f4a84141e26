"""A contestant's process, which ``cunpool bench`` starts."""

from cunpool._bench.clock import main
from cunpool._bench.contestants import CONTESTANTS

main(CONTESTANTS)
