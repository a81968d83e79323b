#pragma once

#include <string>

namespace forebay {

/// This machine's own name for itself, stable over reboots (/etc/machine-id): programs that see the
/// same one may use each other's UNIX sockets. "" when there is none.
std::string MachineId();

/// The name of this machine, or of the container that this program runs in; "" when there is none.
std::string HostName();

}  // namespace forebay
