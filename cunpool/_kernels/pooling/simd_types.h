/* Includes SIMD_LOOPS once for each element type that simd.h has, SIMD_TYPE. These names are short for loops alone. */
#define vector OF(vector)
#define codes OF(codes)

#define SIMD_TYPE float4
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE float8
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE half
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE item1
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE int2
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE int4
#include SIMD_LOOPS
#undef SIMD_TYPE
#define SIMD_TYPE int8
#include SIMD_LOOPS
#undef SIMD_TYPE

#undef SIMD_LOOPS
#undef vector
#undef codes
