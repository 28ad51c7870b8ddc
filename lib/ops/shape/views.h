/* views.h: the includes of views.c. It declares nothing of its own. */
#ifndef TN_LIB_OPS_VIEWS_H
#define TN_LIB_OPS_VIEWS_H

#include <tensor/tensor.h>


#endif
