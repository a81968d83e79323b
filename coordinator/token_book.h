#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/model/object_version.h"
#include "coordinator/state_store.h"
#include "coordinator/trust_book.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace forebay {

/// The join tokens, and what they are good for: a token that is not good changes nothing. Blocking
/// (Offload); any thread.
class TokenBook {
 public:
  /// Where `issuer` has no authority nobody can join: kInvalid says so.
  TokenBook(StateStore& store, std::uint64_t fence, Uuid cluster, std::function<Issuer()> issuer)
      : store_(store), fence_(fence), cluster_(cluster), issuer_(std::move(issuer)) {}

  /// The record that `forebay init` left in `file` for the first token; the file goes. Nothing when
  /// there is none.
  Status TakeFirst(const std::string& file);

  Result<proto::CreateTokenReply> Create(const proto::CreateTokenRequest& request,
                                         std::int64_t now_unix_s);
  Result<std::vector<proto::TokenState>> All(std::int64_t now_unix_s);
  /// kNotFound: there is no such token.
  Result<proto::RevokeTokenReply> Revoke(const std::string& id);

  /// A certificate for who proves to hold a good token over the connection with this `channel`; one
  /// use less. kDenied or kInvalid with a sentence otherwise.
  Result<proto::JoinReply> Redeem(const proto::JoinRequest& request, const std::string& channel,
                                  std::int64_t now_unix_s);

 private:
  /// With an authority. kInvalid without.
  Result<Issuer> CheckedIssuer() const;
  Result<proto::TokenRecord> Find(const std::string& id);
  Status Keep(const proto::TokenRecord& record);
  proto::TokenState Shown(const proto::TokenRecord& record) const;

  StateStore& store_;
  const std::uint64_t fence_;
  const Uuid cluster_;
  const std::function<Issuer()> issuer_;
  std::mutex mutex_;  // of one change at a time
};

}  // namespace forebay
