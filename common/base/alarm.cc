#include "common/base/alarm.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace forebay {

class Alarm::Impl {
 public:
  explicit Impl(asio::any_io_executor own) : executor(std::move(own)), timer(executor) {}

  const asio::any_io_executor executor;
  asio::steady_timer timer;
};

Alarm::Alarm(asio::any_io_executor executor) : impl_(std::make_unique<Impl>(std::move(executor))) {}

Alarm::~Alarm() = default;

const asio::any_io_executor& Alarm::executor() const { return impl_->executor; }

Task<bool> Alarm::WaitUntil(TimePoint at) {
  impl_->timer.expires_at(at);
  boost::system::error_code error;
  co_await impl_->timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

void Alarm::Cancel() { impl_->timer.cancel(); }

}  // namespace forebay
