"""Random calls of every public function, valid, subtly wrong and hostile, held against `reference` and `vectorised`.

From the folder `tests`:

    python -m fuzzing --count 3000 --seed 1     # so many cases, the same ones each time
    python -m fuzzing --seconds 600             # as many as there is time for, of a seed that is printed
    python -m fuzzing --seed 7 --case 1234      # that one again
    python -m fuzzing --seed 1 --count 20000 --digest --threads 1   # a line that two builds with the same results share

Cases run in child processes: one that kills its process, or never ends, is named too. At the end stands how often each
way and each condition of the kernels was met on either side; with `--conditions` it is a failure if one was not.
"""
