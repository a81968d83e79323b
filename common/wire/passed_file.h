#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>

namespace forebay {

/// A file that a server hands to a client of its machine: a descriptor that is open for as long as
/// somebody has this. Null: none.
using PassedFile = std::shared_ptr<const int>;

/// The descriptor, which is closed with the last copy of what this answers.
PassedFile OwnFile(int descriptor);

/// Over a UNIX socket: what the socket takes of `bytes`, and with their first byte the descriptor
/// `file`. -1: errno says why; EAGAIN: nothing now. Does not block.
std::ptrdiff_t SendWithFile(int socket, std::string_view bytes, int file);

/// Over a UNIX socket: what is there, at most `size` bytes; 0 = the peer has ended. The files that
/// came with these bytes are added to `files` in their order. -1: errno says why; EAGAIN: nothing
/// yet. Does not block.
std::ptrdiff_t ReceiveWithFiles(int socket, void* to, std::size_t size,
                                std::deque<PassedFile>& files);

}  // namespace forebay
