"""Print a BLAS kernel that OpenBLAS does not choose by itself on this machine.

Laws must hold whatever the processor: results of two kernels differ by rounding, in another order.
Setting OPENBLAS_CORETYPE to the name printed makes OpenBLAS take it.
"""

import numpy as np  # noqa: F401 - loads OpenBLAS
from threadpoolctl import threadpool_info

OLDER, NEWER, OLDEST = "Haswell", "SkylakeX", "Nehalem"


def main() -> None:
    """Print its name: an older one where the machine's is newer, and the reverse."""
    used = {str(library.get("architecture")) for library in threadpool_info()}
    has_avx512 = bool(used & {"SkylakeX", "Cooperlake", "SapphireRapids"})
    if has_avx512 or used & {"Zen"}:
        print(OLDER)
    elif "Haswell" in used:
        print(OLDEST)  # AVX-512 would be an illegal instruction here
    else:
        print(OLDER if used - {"Nehalem", "None"} else OLDEST)


if __name__ == "__main__":
    main()
