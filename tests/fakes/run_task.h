#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "common/base/asio.h"

namespace forebay::fakes {

/// Runs `task` to its end on an event loop of its own, on the calling thread.
template <typename T>
T RunTask(Task<T> task) {
  asio::io_context context(1);
  std::optional<T> result;
  asio::co_spawn(context, std::move(task), [&](std::exception_ptr failed, T value) {
    if (failed) std::rethrow_exception(failed);
    result.emplace(std::move(value));
  });
  context.run();
  return *std::move(result);
}

}  // namespace forebay::fakes
