/* oneDNN's max pooling, for onednn.py: `prepare` and `prepare_back` make everything ready, `run` is what is timed.
   One call is kept at a time, for a contestant has one cell at a time. Each function returns 0, or else oneDNN's status. */
#include <oneapi/dnnl/dnnl.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        dnnl_status_t status = (call);                                                                                 \
        if (status != dnnl_success) return status;                                                                     \
    } while (0)

enum { MOST_AXES = 3 };

typedef struct {
    dnnl_primitive_desc_t described;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[3];
    int count;
} operation;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_memory_desc_t full, pooled;
static dnnl_dims_t kernels, strides, paddings, dilations; /* which oneDNN counts from 0 */
static operation forward, back;

static void forget(operation *done) {
    for (int i = 0; i < done->count; i++) dnnl_memory_destroy(done->arguments[i].memory);
    if (done->primitive) dnnl_primitive_destroy(done->primitive);
    if (done->described) dnnl_primitive_desc_destroy(done->described);
    *done = (operation) {0};
}

static dnnl_status_t give(operation *to, int name, const_dnnl_memory_desc_t described, void *data) {
    dnnl_exec_arg_t *next = &to->arguments[to->count];
    next->arg = name;
    TRY(dnnl_memory_create(&next->memory, described, engine, data));
    to->count++;
    return dnnl_success;
}

/* Pooling of `x` to `y`, each of N, C and 1 to 3 spatial axes; with `coded`, to a workspace of codes too. */
int prepare(int axes, int bytes, int channels_last, const dnnl_dims_t x_size, const dnnl_dims_t y_size, int kernel,
            int stride, int padding, int coded, void *x, void *y) {
    static const dnnl_format_tag_t tags[2][MOST_AXES] = {
        {dnnl_ncw, dnnl_nchw, dnnl_ncdhw}, {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc}
    };
    dnnl_format_tag_t tag = tags[channels_last][axes - 1];
    dnnl_data_type_t type = bytes ? dnnl_u8 : dnnl_f32;
    forget(&back);
    forget(&forward);
    if (full) dnnl_memory_desc_destroy(full);
    if (pooled) dnnl_memory_desc_destroy(pooled);
    full = pooled = 0;
    if (!engine) TRY(dnnl_engine_create(&engine, dnnl_cpu, 0));
    if (!stream) TRY(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    TRY(dnnl_memory_desc_create_with_tag(&full, axes + 2, x_size, type, tag));
    TRY(dnnl_memory_desc_create_with_tag(&pooled, axes + 2, y_size, type, tag));
    for (int axis = 0; axis < axes; axis++) {
        kernels[axis] = kernel;
        strides[axis] = stride;
        paddings[axis] = padding;
    }
    TRY(dnnl_pooling_forward_primitive_desc_create(
        &forward.described, engine, coded ? dnnl_forward_training : dnnl_forward_inference, dnnl_pooling_max, full,
        pooled, strides, kernels, dilations, paddings, paddings, 0
    ));
    TRY(dnnl_primitive_create(&forward.primitive, forward.described));
    TRY(give(&forward, DNNL_ARG_SRC, full, x));
    TRY(give(&forward, DNNL_ARG_DST, pooled, y));
    if (!coded) return dnnl_success;
    const_dnnl_memory_desc_t workspace = dnnl_primitive_desc_query_md(forward.described, dnnl_query_workspace_md, 0);
    return give(&forward, DNNL_ARG_WORKSPACE, workspace, DNNL_MEMORY_ALLOCATE);
}

/* The gradient of what was prepared, and run, before: of `y` to `x`, by the workspace. */
int prepare_back(void *y, void *x) {
    TRY(dnnl_pooling_backward_primitive_desc_create(
        &back.described, engine, dnnl_pooling_max, full, pooled, strides, kernels, dilations, paddings, paddings,
        forward.described, 0
    ));
    TRY(dnnl_primitive_create(&back.primitive, back.described));
    TRY(give(&back, DNNL_ARG_DIFF_DST, pooled, y));
    TRY(give(&back, DNNL_ARG_DIFF_SRC, full, x));
    const_dnnl_memory_desc_t workspace = dnnl_primitive_desc_query_md(forward.described, dnnl_query_workspace_md, 0);
    void *codes;
    TRY(dnnl_memory_get_data_handle(forward.arguments[2].memory, &codes));
    return give(&back, DNNL_ARG_WORKSPACE, workspace, codes);
}

int run(int backwards) {
    const operation *chosen = backwards ? &back : &forward;
    TRY(dnnl_primitive_execute(chosen->primitive, stream, chosen->count, chosen->arguments));
    return dnnl_stream_wait(stream);
}
