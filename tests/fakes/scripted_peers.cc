#include "tests/fakes/scripted_peers.h"

#include <utility>

#include "tests/fakes/sample_link.h"

namespace forebay::fakes {

void ScriptedPeers::OnGet(Script script) {
  const std::scoped_lock lock(mutex_);
  script_ = std::move(script);
}

bool ScriptedPeers::MayHave(const ColdBlock& /*cold*/) const {
  const std::scoped_lock lock(mutex_);
  return script_ != nullptr;
}

Task<Result<PeerFind>> ScriptedPeers::Get(ColdBlock cold, PeerSink& sink, Deadline /*deadline*/) {
  ++gets_;
  Script script;
  {
    const std::scoped_lock lock(mutex_);
    script = script_;
  }
  Result<PeerFind> find = script(cold);
  if (find && find->found) {
    const auto bytes = SampleLink::Bytes(cold.object.key, cold.block.offset, cold.block.length);
    if (by_gets_) sink.MarkGet();
    sink.OnAttempt();
    sink.OnData(bytes->view());
  }
  co_return find;
}

}  // namespace forebay::fakes
