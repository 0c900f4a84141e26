"""A contestant's process, which ``cunpool bench`` starts."""

from cunpool._cli.bench.clock import main
from cunpool._cli.bench.contestants import CONTESTANTS

main(CONTESTANTS)
