#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/executors.h"

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

}  // namespace forebay
