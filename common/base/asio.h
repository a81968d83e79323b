#pragma once

// The parts of Asio that headers of ours may mention. Anything heavier is included by the one
// source that needs it.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

namespace forebay {

namespace asio = boost::asio;

/// A coroutine of ours: starts when awaited, resumes on the executor it was spawned on.
template <typename T>
using Task = asio::awaitable<T>;

}  // namespace forebay
