#pragma once

#include <functional>
#include <memory>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/trust/renewal.h"
#include "common/wire/rpc.h"

namespace forebay {

/// Looks at the coordinator every few seconds: renews a member's certificate in time, learns who
/// was revoked and whom else to believe, and so knows whether there is a coordinator at all
/// (standing.h). Without one everything goes on.
class TrustKeeper : public std::enable_shared_from_this<TrustKeeper> {
 public:
  /// Asks one coordinator after the other for kRenew.
  using Ask = std::function<Task<Result<RpcReply>>(std::shared_ptr<const proto::RenewRequest>)>;

  TrustKeeper(std::shared_ptr<Trust> trust, Ask ask, Offload& offload);

  /// Until the executor that it runs on ends. It owns the keeper.
  static Task<void> Run(std::shared_ptr<TrustKeeper> keeper);
  /// One round, and how it went. The caller keeps the keeper until it has ended.
  Task<Status> Look();

  static constexpr Duration kEvery = std::chrono::seconds(5);

 private:
  const std::shared_ptr<Trust> trust_;
  const Ask ask_;
  Offload& offload_;
  Renewal renewal_;
};

}  // namespace forebay
