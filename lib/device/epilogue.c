/* epilogue.c: commands whose result a launch reads within the same call of the
 * plugin (extension "epilogue"). */
#include <device/command.h>
#include <device/work.h>

#include <base/memory.h>

tn_status tn__device_epilogue(tn_device *device, tn__command *command,
                              tn_fault *fault)
{
    tn__command *after = command->after;
    tn_status status = tn__device_work(device, TN__WORK_EPILOGUE,
                                       &command->epilogue, command->what, NULL,
                                       fault);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    status = tn__device_work(device, command->kind, &command->args,
                             command->what, NULL, fault);
    return status ? status
                  : tn__device_launch(device, after->program, after->built,
                                      &after->args.launch, after->what, NULL,
                                      fault);
}
