#include "common/base/executors.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cstdlib>
#include <exception>
#include <utility>

namespace forebay {

struct IoPool::WorkGuards {
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
};

IoPool::IoPool(std::string name, std::size_t threads)
    : name_(std::move(name)), guards_(std::make_unique<WorkGuards>()) {
  for (std::size_t i = 0; i < std::max<std::size_t>(threads, 1); ++i) {
    contexts_.push_back(std::make_unique<asio::io_context>(1));
    guards_->guards.push_back(asio::make_work_guard(*contexts_.back()));
  }
}

IoPool::~IoPool() { Stop(); }

void IoPool::Start() {
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    threads_.emplace_back([context = contexts_[i].get(), thread_name = ThreadName(i)] {
      pthread_setname_np(pthread_self(), thread_name.c_str());
      context->run();
    });
  }
}

void IoPool::Stop() {
  guards_->guards.clear();
  for (auto& context : contexts_) context->stop();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

std::string IoPool::ThreadName(std::size_t i) const {
  return (name_ + std::to_string(i)).substr(0, 15);  // what the kernel keeps
}

asio::io_context& IoPool::Next() { return At(next_.fetch_add(1, std::memory_order_relaxed)); }

Task<bool> SleepFor(std::chrono::steady_clock::duration d) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(d);
  boost::system::error_code error;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
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
