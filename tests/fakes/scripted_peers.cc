#include "tests/fakes/scripted_peers.h"

#include <boost/asio/this_coro.hpp>
#include <utility>

#include "tests/fakes/sample_link.h"

namespace forebay::fakes {

void ScriptedPeers::OnGet(Script script) {
  const std::scoped_lock lock(mutex_);
  script_ = std::move(script);
}

void ScriptedPeers::LetGo() {
  held_ = false;
  let_go_.NotifyAll();
}

bool ScriptedPeers::MayHave(const ColdBlock& /*cold*/) const {
  const std::scoped_lock lock(mutex_);
  return script_ != nullptr;
}

Task<Result<PeerFind>> ScriptedPeers::Get(ColdBlock cold, PeerSink& sink, Deadline deadline) {
  ++gets_;
  Script script;
  {
    const std::scoped_lock lock(mutex_);
    script = script_;
  }
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  for (bool told = true; told;) {
    Notifier::Ticket ticket = let_go_.Enlist(executor);
    if (!held_) break;
    told = co_await ticket.Wait(deadline);
  }
  Result<PeerFind> find = script ? script(cold) : PeerFind();
  if (find && find->found) {
    if (by_gets_) sink.MarkGet();
    Deliver(cold, sink);
  }
  co_return find;
}

void ScriptedPeers::OnStandIn(Script script) {
  const std::scoped_lock lock(mutex_);
  stand_in_ = std::move(script);
}

bool ScriptedPeers::MayStandIn(const ColdBlock& /*cold*/) const {
  const std::scoped_lock lock(mutex_);
  return stand_in_ != nullptr;
}

Task<Result<PeerFind>> ScriptedPeers::GetByStandIn(ColdBlock cold, PeerSink& sink,
                                                   Deadline /*deadline*/) {
  ++stand_in_gets_;
  Script script;
  {
    const std::scoped_lock lock(mutex_);
    script = stand_in_;
  }
  Result<PeerFind> find = script ? script(cold) : PeerFind();
  if (find && find->found) Deliver(cold, sink);
  co_return find;
}

void ScriptedPeers::Deliver(const ColdBlock& cold, PeerSink& sink) {
  const auto bytes = SampleLink::Bytes(cold.object.key, cold.block.offset, cold.block.length);
  sink.BeginPart({0, cold.block.length});
  sink.OnAttempt();
  sink.OnData(bytes->view());
}

}  // namespace forebay::fakes
