/* Includes SIMD_LOOPS once for each element type that simd.h has, SIMD_TYPE. There OF(name) is name_float4, for
   instance. */
#define SIMD_JOIN_(name, type) name##_##type
#define SIMD_JOIN(name, type) SIMD_JOIN_(name, type)
#define OF(name) SIMD_JOIN(name, SIMD_TYPE)
#define SIMD_BYTES OF(SIMD_BYTES)
#define SIMD_HAS_ODD OF(SIMD_HAS_ODD)
#define LANES OF(LANES)
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
#undef SIMD_JOIN_
#undef SIMD_JOIN
#undef OF
#undef SIMD_BYTES
#undef SIMD_HAS_ODD
#undef LANES
#undef vector
#undef codes
