#pragma once

namespace forebay {

/// forebay-mount, and mount.forebay when called by that name. Returns the exit code. The process
/// that is started supervises, and starts itself again as the worker that serves:
///
///     forebay-mount LINK MOUNTPOINT           the supervisor (DESIGN 6.11)
///     forebay-mount --worker-of-a-mount …     a worker; only its supervisor starts it
///     forebay-mount --upgrade MOUNTPOINT      lets the supervisor replace its worker's program
///     forebay-mount --hold SOCKET             keeps mounts while supervisors are started again
int RunMount(int argc, char** argv);

}  // namespace forebay
