"""The compiled modules. It imports none of them: `_threads` loads `runtime` before OpenMP's library."""
