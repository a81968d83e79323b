#include "common/wire/trust_keeper.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/base/executors.h"
#include "common/base/wall_clock.h"

namespace forebay {

TrustKeeper::TrustKeeper(std::shared_ptr<Trust> trust, Ask ask, Offload& offload)
    : trust_(std::move(trust)), ask_(std::move(ask)), offload_(offload), renewal_(trust_) {}

Task<void> TrustKeeper::Run(std::shared_ptr<TrustKeeper> keeper) {
  std::string said;
  for (bool on = true; on;) {
    const Status looked = co_await keeper->Look();
    // A coordinator that does not answer is told of elsewhere.
    const bool silent = !looked && (looked.error().code == Code::kUnavailable ||
                                    looked.error().code == Code::kTimeout);
    const std::string why = looked || silent ? std::string() : looked.error().message;
    if (!why.empty() && why != said) spdlog::warn("certificates are not looked at: {}", why);
    said = why;
    on = co_await SleepFor(kEvery);
  }
}

Task<Status> TrustKeeper::Look() {
  const std::shared_ptr<TrustKeeper> self = shared_from_this();
  auto prepare = [self] { return self->renewal_.Prepare(UnixSeconds()); };
  Result<proto::RenewRequest> request = co_await offload_.Run(std::move(prepare));
  if (!request) co_return Fail(request.error());
  auto asked = std::make_shared<const proto::RenewRequest>(std::move(*request));
  Result<RpcReply> answer = co_await ask_(std::move(asked));
  proto::RenewReply reply;
  Status status = answer ? ParseMessage(answer->message, reply) : Fail(answer.error());
  auto take = [self, status, reply = std::move(reply)]() -> Status {
    const std::int64_t now = UnixSeconds();
    if (status) return self->renewal_.Take(reply, now);
    self->renewal_.Failed(status.error(), now);
    return status;
  };
  Status taken = co_await offload_.Run(std::move(take));
  co_return taken;
}

}  // namespace forebay
