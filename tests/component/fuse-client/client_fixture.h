#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/client_pool.h"
#include "fuse-client/ring_view.h"

namespace forebay {

inline const std::string kTestSecret(32, 's');

/// One worker's thread and connections, as a mount has them.
class ClientFixture : public ::testing::Test {
 protected:
  explicit ClientFixture(Duration silence = std::chrono::milliseconds(300)) {
    ClientPoolOptions options;
    options.credentials.role = proto::ROLE_CLIENT;
    options.credentials.id = "test";
    options.credentials.program = "test";
    options.credentials.secret = Secret(kTestSecret);
    options.silence = silence;
    options.connect_timeout = silence;
    pool_ = std::make_unique<ClientPool>(
        threads_.At(0), options, [this] { return ring_.epoch(); },
        [this](std::uint64_t epoch) {
          if (refresher_) refresher_->Notice(epoch);
        });
    threads_.Start();
  }

  ~ClientFixture() override { StopThread(); }

  /// Closes the connections and ends the thread. Idempotent.
  void StopThread() {
    if (!running_) return;
    running_ = false;
    OnThread([this] {
      pool_->Close();
      return true;
    });
    threads_.Stop();
  }

  void MakeRefresher(std::vector<std::string> coordinators) {
    refresher_ =
        std::make_unique<RingRefresher>(threads_.At(0), *pool_, ring_, std::move(coordinators));
  }

  template <typename T>
  T Run(Task<T> task) {
    return asio::co_spawn(threads_.At(0), std::move(task), asio::use_future).get();
  }

  /// `call()` on the worker's thread.
  template <typename Call>
  auto OnThread(Call call) -> std::invoke_result_t<Call> {
    std::promise<decltype(call())> done;
    asio::post(threads_.At(0), [&] { done.set_value(call()); });
    return done.get_future().get();
  }

  /// True when `condition()` holds within 10 s.
  static bool Eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }

  bool running_ = true;
  IoPool threads_{"client", 1};
  RingView ring_;
  std::unique_ptr<ClientPool> pool_;
  std::unique_ptr<RingRefresher> refresher_;
};

}  // namespace forebay
