/* views.h: can memory be seen in another shape? */
#ifndef TN_LIB_OPS_VIEWS_H
#define TN_LIB_OPS_VIEWS_H

#include <tensor/tensor.h>


#endif
