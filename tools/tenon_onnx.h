/* tenon_onnx.h: the command `tenon onnx`. */
#ifndef TN_TOOLS_TENON_ONNX_H
#define TN_TOOLS_TENON_ONNX_H

/* Runs `tenon onnx` with its arguments. Returns the exit status: 0, 1 after an
 * error (one line on stderr), or 2 if the arguments are invalid. */
int tenon_onnx(int count, char **argument);

#endif
