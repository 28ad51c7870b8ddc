/* tenon_onnx.h: the command of ONNX models. */
#ifndef TN_TOOLS_TENON_ONNX_H
#define TN_TOOLS_TENON_ONNX_H

/* Runs `tenon onnx` with its arguments and returns the exit status: 0, 1 (one
 * line on stderr), or 2 for arguments that are wrong. */
int tenon_onnx(int count, char **argument);

#endif
