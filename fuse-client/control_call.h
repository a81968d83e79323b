#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <stop_token>
#include <utility>

#include "common/base/asio.h"
#include "common/base/result.h"

namespace forebay {

/// Runs `task` on `context`, which another thread runs, and waits for it, unless the program is
/// told to stop: then the task is left to end with its context. kUnavailable in that case.
template <typename T>
Result<T> WaitFor(asio::io_context& context, const std::stop_token& stopping,
                  Task<Result<T>> task) {
  constexpr std::chrono::milliseconds kLookEvery{20};
  std::future<Result<T>> result = asio::co_spawn(context, std::move(task), asio::use_future);
  while (result.wait_for(kLookEvery) != std::future_status::ready) {
    if (stopping.stop_requested()) {
      return Fail(Code::kUnavailable, "stopped before the mount was ready");
    }
  }
  return result.get();
}

}  // namespace forebay
