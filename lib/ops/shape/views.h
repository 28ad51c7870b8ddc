/* views.h: tests whether memory can be viewed in another shape. */
#ifndef TN_LIB_OPS_VIEWS_H
#define TN_LIB_OPS_VIEWS_H

#include <tensor/tensor.h>


#endif
