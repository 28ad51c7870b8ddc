/* epilogue.h: groups that the plugin applies to the result of a product, a
 * convolution or an attention within the same call (extension "epilogue"). */
#ifndef TN_LIB_COMPILE_EPILOGUE_H
#define TN_LIB_COMPILE_EPILOGUE_H

#include <compile/fuse.h>

/* Joins each step that is a product, a convolution or an attention with the
 * group that reads its result first: the step's group gets the member `after`.
 * Changes the order of the groups where that is needed. Does nothing if the
 * device has no extension "epilogue". */
void tn__join_epilogues(const tn__capture *capture, tn_device *device,
                        tn__grouping *grouping);

/* Returns whether a step is work whose result a group can be joined with. */
bool tn__step_can_join(const tn__capture *capture, const tn__step *step);

/* Makes the one command of a step and its epilogue, group->after. The step's
 * command is part of it, and the capture has it no more. Returns NULL without
 * an error if the epilogue's kernels cannot be merged, and with the error
 * recorded if that fails. The caller owns the command. value[i] is the value of
 * its i-th access (access.h). */
tn__command *tn__epilogue_command(const tn__capture *capture,
                                  const tn__group *group, tn_device *device,
                                  uint32_t value[TN__ACCESS_MAX]);

#endif
