#pragma once

#include <optional>

#include "common/base/deadline.h"
#include "common/wire/tls_stream.h"

namespace forebay {

/// Of a connected socket, at both of its ends: small frames leave at once, and what a network has
/// lost is sent again once a second at least, where the kernel can (Linux 6.15). By itself TCP
/// doubles its pauses: a connection would stand still for as long again as its network did.
///
/// `lost_after`: a connection ends when the other machine, not its program, has acknowledged
/// nothing of what waits for so long: a new one is there as soon as the network is. Nothing of this
/// is done to UNIX sockets.
void SetTcpOptions(StreamSocket& socket, std::optional<Duration> lost_after = {});

}  // namespace forebay
