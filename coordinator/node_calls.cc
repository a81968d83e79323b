#include "coordinator/node_calls.h"

#include <boost/asio/this_coro.hpp>
#include <cstddef>
#include <optional>
#include <utility>

#include "common/base/executors.h"
#include "common/base/notifier.h"

namespace forebay {
namespace {

/// The answers of one AskAll as they come in.
struct Gathering {
  std::vector<std::optional<Result<RpcReply>>> answers;
  std::size_t missing = 0;
  Notifier arrived;
};

Task<void> AskOne(NodeCaller call, NodeInfo node, Method method,
                  std::shared_ptr<const google::protobuf::MessageLite> request, Deadline deadline,
                  std::shared_ptr<Gathering> gathering, std::size_t index) {
  Result<RpcReply> reply = co_await call(std::move(node), method, std::move(request), deadline);
  gathering->answers[index] = std::move(reply);
  if (--gathering->missing == 0) gathering->arrived.NotifyAll();
}

}  // namespace

Task<std::vector<Result<RpcReply>>> AskAll(
    NodeCaller call, std::vector<NodeInfo> nodes, Method method,
    std::shared_ptr<const google::protobuf::MessageLite> request, Deadline deadline) {
  asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto gathering = std::make_shared<Gathering>();
  gathering->answers.resize(nodes.size());
  gathering->missing = nodes.size();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Spawn(executor, AskOne(call, nodes[i], method, request, deadline, gathering, i));
  }
  while (gathering->missing != 0) {
    Notifier::Ticket ticket = gathering->arrived.Enlist(executor);
    if (gathering->missing == 0) break;
    const bool notified = co_await ticket.Wait(deadline);
    if (!notified) break;
  }
  std::vector<Result<RpcReply>> answers;
  answers.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (gathering->answers[i]) {
      answers.push_back(std::move(*gathering->answers[i]));
    } else {
      answers.push_back(Fail(Code::kTimeout, "node " + nodes[i].id + " did not answer in time"));
    }
  }
  co_return answers;
}

}  // namespace forebay
