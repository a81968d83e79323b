#include "common/wire/client_pool.h"

#include <google/protobuf/message_lite.h>

#include <boost/asio/io_context.hpp>
#include <unordered_map>
#include <utility>

#include "common/wire/peer_link.h"

namespace forebay {

/// The links to all peers. On its io_context only.
class ClientPool::Impl {
 public:
  Impl(asio::io_context& context, PeerLinkOptions options)
      : context_(context), options_(std::make_shared<const PeerLinkOptions>(std::move(options))) {}

  std::shared_ptr<PeerLink> LinkTo(const std::string& address) {
    Peer& peer = peers_[address];
    const std::size_t slot = peer.next++ % options_->client.connections_per_peer;
    if (slot >= peer.links.size()) {
      peer.links.push_back(MakeLink(address, false));
    }
    return peer.links[slot];
  }

  /// Apart from the others: taking files costs system calls.
  std::shared_ptr<PeerLink> LinkForFiles(const std::string& address) {
    std::shared_ptr<PeerLink>& link = peers_[address].for_files;
    if (!link) link = MakeLink(address, true);
    return link;
  }

  void Close() {
    for (auto& [address, peer] : peers_) {
      for (auto& link : peer.links) link->Close();
      if (peer.for_files) peer.for_files->Close();
    }
    peers_.clear();
  }

 private:
  struct Peer {
    std::vector<std::shared_ptr<PeerLink>> links;
    std::size_t next = 0;
    std::shared_ptr<PeerLink> for_files;
  };
  std::shared_ptr<PeerLink> MakeLink(const std::string& address, bool takes_files) {
    return std::make_shared<PeerLink>(context_.get_executor(), address, options_, takes_files);
  }

  asio::io_context& context_;
  std::shared_ptr<const PeerLinkOptions> options_;
  std::unordered_map<std::string, Peer> peers_;
};

ClientPool::ClientPool(asio::io_context& context, ClientPoolOptions options,
                       std::function<std::uint64_t()> epoch,
                       std::function<void(std::uint64_t)> on_newer_epoch)
    : impl_(std::make_shared<Impl>(context, PeerLinkOptions{std::move(options), std::move(epoch),
                                                            std::move(on_newer_epoch)})) {}

ClientPool::~ClientPool() { Close(); }

Task<Result<RpcReply>> ClientPool::Call(std::string address, Method method,
                                        const google::protobuf::MessageLite& request,
                                        Deadline deadline, CallHandle* handle) {
  std::string message = request.SerializeAsString();
  if (message.size() > kMaxControlFrameBytes) {
    co_return Fail(Code::kInvalid, "the request is too long for a frame");
  }
  const std::shared_ptr<PeerLink> link = impl_->LinkTo(address);
  Result<RpcReply> reply = co_await link->Call(method, std::move(message), deadline, handle);
  co_return reply;
}

Task<Result<RpcReply>> ClientPool::CallForFile(std::string address, Method method,
                                               const google::protobuf::MessageLite& request,
                                               Deadline deadline) {
  std::string message = request.SerializeAsString();
  if (message.size() > kMaxControlFrameBytes) {
    co_return Fail(Code::kInvalid, "the request is too long for a frame");
  }
  const std::shared_ptr<PeerLink> link = impl_->LinkForFiles(address);
  Result<RpcReply> reply = co_await link->Call(method, std::move(message), deadline, nullptr);
  co_return reply;
}

Task<Result<std::string>> ClientPool::Channel(std::string address, Deadline deadline) {
  const std::shared_ptr<PeerLink> link = impl_->LinkTo(address);
  Result<std::string> channel = co_await link->Channel(deadline);
  co_return channel;
}

void ClientPool::Close() { impl_->Close(); }

}  // namespace forebay
