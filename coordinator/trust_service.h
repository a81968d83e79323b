#pragma once

#include <vector>

#include "common/base/offload.h"
#include "common/wire/server.h"
#include "coordinator/token_book.h"

namespace forebay {

/// How machines become members: tokens for administrators, certificates for who has one.
class TrustService {
 public:
  TrustService(TokenBook& tokens, Offload& offload) : tokens_(tokens), offload_(offload) {}

  std::vector<MethodEntry> Methods();

 private:
  Task<Result<RpcReply>> Join(RpcCall call);
  Task<Result<RpcReply>> CreateToken(RpcCall call);
  Task<Result<RpcReply>> ListTokens(RpcCall call);
  Task<Result<RpcReply>> RevokeToken(RpcCall call);

  TokenBook& tokens_;
  Offload& offload_;
};

}  // namespace forebay
