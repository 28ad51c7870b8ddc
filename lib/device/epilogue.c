/* epilogue.c: commands whose result a launch reads within the same call of the
 * plugin (extension "epilogue"). */
#include <device/command.h>
#include <device/work.h>

#include <base/memory.h>

#include <string.h>

void tn__command_free(tn__command *command)
{
    if (command)
        tn__free(command->after);
    tn__free(command);
}

tn_epilogue_args tn__command_epilogue(const tn__command *command)
{
    const tn__command *after = command->after;
    tn_epilogue_args args = {.size = sizeof args,
                             .kind = command->epilogue,
                             .work = &command->args,
                             .program = after->program,
                             .built = after->built,
                             .launch = &after->args.launch,
                             .operand = command->after_operand};
    memcpy(args.of, command->after_of, sizeof args.of);
    return args;
}

tn_status tn__device_epilogue(tn_device *device, tn__command *command,
                              tn_fault *fault)
{
    tn__command *after = command->after;
    tn_epilogue_args args = tn__command_epilogue(command);
    tn_status status = tn__device_work(device, TN__WORK_EPILOGUE, &args,
                                       command->what, NULL, fault);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    status = tn__device_work(device, command->kind, &command->args,
                             command->what, NULL, fault);
    return status ? status
                  : tn__device_launch(device, after->program, after->built,
                                      &after->args.launch, after->what, NULL,
                                      fault);
}
