#ifndef CUNPOOL_POOL_H
#define CUNPOOL_POOL_H

#include <Python.h>
#include <stdint.h>

static PyObject *cunpool_pair(PyObject *type, PyObject *first, PyObject *second) {
    PyObject *pair = ((PyTypeObject *) type)->tp_alloc((PyTypeObject *) type, 2);
    if (pair == NULL)
        return NULL;
#if PY_VERSION_HEX >= 0x030E0000
    ((PyTupleObject *) pair)->ob_hash = -1;  /* not known yet */
#endif
    Py_INCREF(first);
    Py_INCREF(second);
    PyTuple_SET_ITEM(pair, 0, first);
    PyTuple_SET_ITEM(pair, 1, second);
    return pair;
}

#endif
