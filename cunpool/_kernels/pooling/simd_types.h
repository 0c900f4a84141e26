/* Includes SIMD_LOOPS once for each element type that simd.h has: SIMD_TYPE, of SIMD_BYTES each, which may be odd if
   SIMD_HAS_ODD. There OF(name) is name_float4, for instance. */
#define SIMD_JOIN_(name, type) name##_##type
#define SIMD_JOIN(name, type) SIMD_JOIN_(name, type)
#define OF(name) SIMD_JOIN(name, SIMD_TYPE)
#define LANES OF(LANES)
#define vector OF(vector)
#define codes OF(codes)

#define SIMD_TYPE float4
#define SIMD_BYTES 4
#define SIMD_HAS_ODD 1
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE float8
#define SIMD_BYTES 8
#define SIMD_HAS_ODD 1
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE half
#define SIMD_BYTES 2
#define SIMD_HAS_ODD 1
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE item1
#define SIMD_BYTES 1
#define SIMD_HAS_ODD 0
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE int2
#define SIMD_BYTES 2
#define SIMD_HAS_ODD 0
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE int4
#define SIMD_BYTES 4
#define SIMD_HAS_ODD 0
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#define SIMD_TYPE int8
#define SIMD_BYTES 8
#define SIMD_HAS_ODD 0
#include SIMD_LOOPS
#undef SIMD_TYPE
#undef SIMD_BYTES
#undef SIMD_HAS_ODD

#undef SIMD_LOOPS
#undef SIMD_JOIN_
#undef SIMD_JOIN
#undef OF
#undef LANES
#undef vector
#undef codes
