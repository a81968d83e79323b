#include "common/base/executors.h"

#include <spdlog/spdlog.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cstdlib>
#include <exception>
#include <utility>

#include "common/base/alarm.h"

namespace forebay {

Task<bool> SleepFor(std::chrono::steady_clock::duration d) {
  Alarm alarm(co_await asio::this_coro::executor);
  const bool came = co_await alarm.WaitUntil(Clock::now() + d);
  co_return came;
}

namespace {
void AbortOnEscape(std::exception_ptr escaped) {
  if (!escaped) return;
  try {
    std::rethrow_exception(escaped);
  } catch (const std::exception& e) {
    spdlog::critical("a background task failed with an exception: {}", e.what());
  } catch (...) {
    spdlog::critical("a background task failed with an unknown exception");
  }
  std::abort();
}

bool WasCancelled(const std::exception_ptr& escaped) {
  if (!escaped) return false;
  try {
    std::rethrow_exception(escaped);
  } catch (const boost::system::system_error& e) {
    return e.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

/// Asio 1.24 (Boost 1.81) lets the exception of a cancelled coroutine escape from the event loop
/// when that coroutine ended without ever having waited: so it first waits for its turn.
Task<void> InItsTurn(Task<void> task) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  co_await asio::post(executor, asio::use_awaitable);
  co_await std::move(task);
}

}  // namespace

void Spawn(const asio::any_io_executor& executor, Task<void> task) {
  asio::co_spawn(executor, std::move(task), AbortOnEscape);
}

void Spawn(asio::io_context& context, Task<void> task) {
  asio::co_spawn(context, std::move(task), AbortOnEscape);
}

void Spawn(const asio::any_io_executor& executor, Task<void> task, asio::cancellation_slot cancel,
           std::function<void()> ended) {
  auto end = [ended = std::move(ended)](std::exception_ptr escaped) {
    if (!WasCancelled(escaped)) AbortOnEscape(std::move(escaped));
    ended();
  };
  asio::co_spawn(executor, InItsTurn(std::move(task)),
                 asio::bind_cancellation_slot(cancel, std::move(end)));
}

}  // namespace forebay
