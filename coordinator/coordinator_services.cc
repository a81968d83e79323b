// What a coordinator answers, made of its parts.
#include <utility>

#include "common/wire/messages.h"
#include "coordinator/coordinator.h"

namespace forebay {
namespace {

Task<Result<RpcReply>> Replaced() {
  co_return Fail(Code::kUnavailable, "this coordinator begins again with a restored backup");
}

Task<Result<RpcReply>> NoLonger() {
  co_return Fail(Code::kUnavailable, "this coordinator no longer leads: ask the others");
}

}  // namespace

void Coordinator::MakeServices() {
  node_service_ =
      std::make_unique<NodeService>(cluster_, claim_, is_marked_, options_.membership, *membership_,
                                    *links_, *stats_, *budget_, requests_, *changed_);
  client_service_ = std::make_unique<ClientService>(cluster_, claim_, *membership_, *links_,
                                                    *index_, mounts_, offload_, replies_);
  mount_service_ = std::make_unique<MountService>(*links_, mounts_);
  admin_service_ = std::make_unique<AdminService>(AdminService::Parts{.cluster = cluster_,
                                                                      .membership = *membership_,
                                                                      .links = *links_,
                                                                      .budget = *budget_,
                                                                      .requests = requests_,
                                                                      .changed = *changed_,
                                                                      .tasks = tasks_,
                                                                      .linker = *linker_,
                                                                      .index = *index_,
                                                                      .nodes = *node_service_,
                                                                      .census = *census_,
                                                                      .copies = *copy_keeper_,
                                                                      .explainer = *explainer_,
                                                                      .stats = *stats_,
                                                                      .certificates = *members_,
                                                                      .offload = offload_});
  trust_service_ = std::make_unique<TrustService>(
      TrustService::Parts{.tokens = *tokens_,
                          .members = *members_,
                          .links = *links_,
                          .offload = offload_,
                          .expected = [this] { return ExpectedMembers(); }});
  policy_service_ = std::make_unique<PolicyService>(PolicyService::Parts{.membership = *membership_,
                                                                         .budget = *budget_,
                                                                         .links = *links_,
                                                                         .index = *index_,
                                                                         .census = *census_,
                                                                         .pins = *pins_,
                                                                         .keeper = *pin_keeper_,
                                                                         .stats = *stats_,
                                                                         .offload = offload_});
}

Result<TrustBook::Expected> Coordinator::ExpectedMembers() const {
  TrustBook::Expected expected;
  for (const MemberView& each : membership_->Members()) {
    // Where nobody takes it out of the ring.
    const bool away = each.silence >= TrustBook::kAwayAfter;
    if (each.info.state != NodeState::kOut && !away) expected.nodes.insert(each.info.id);
  }
  if (!options_.leadership) return expected;
  Result<std::vector<std::string>> others = options_.leadership->others();
  if (!others) return Fail(others.error());
  expected.standbys = std::move(*others);
  return expected;
}

std::vector<MethodEntry> Coordinator::AllMethods() const {
  std::vector<MethodEntry> all = node_service_->Methods();
  for (MethodEntry& entry : client_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : mount_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : job_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : admin_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : task_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : policy_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : trust_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : member_service_->Methods()) all.push_back(std::move(entry));
  all.push_back({Method::kGetLeader, [this](RpcCall call) { return GetLeader(std::move(call)); }});
  for (MethodEntry& entry : backup_service_->Methods()) all.push_back(std::move(entry));
  for (MethodEntry& entry : all) {
    entry.handler = [this, handler = std::move(entry.handler)](RpcCall call) {
      if (Leads()) return handler(std::move(call));
      return replaced_ ? Replaced() : NoLonger();
    };
  }
  return all;
}

Task<Result<RpcReply>> Coordinator::GetLeader(RpcCall /*call*/) const {
  proto::GetLeaderReply reply;
  reply.set_leader(options_.advertise.empty() ? address() : options_.advertise);
  co_return ReplyWith(reply);
}

void Coordinator::ServeTasks(NodeCaller call) {
  drainer_ = std::make_unique<Drainer>(
      io_.At(0), Drainer::Parts{.store = *store_,
                                .fence = fence_,
                                .membership = *membership_,
                                .links = *links_,
                                .tasks = tasks_,
                                .index = *index_,
                                .stats = *stats_,
                                .call = call,
                                .offload = offload_,
                                .patience = options_.preload_patience,
                                .bytes_per_second = options_.drain_bytes_per_second});
  member_service_ = std::make_unique<MemberService>(*membership_, *drainer_);
  uploads_ = std::make_unique<NameUploads>(options_.state_dir + "/preload");
  preloader_ = std::make_unique<Preloader>(
      io_.At(0), Preloader::Parts{.store = *store_,
                                  .fence = fence_,
                                  .membership = *membership_,
                                  .links = *links_,
                                  .tasks = tasks_,
                                  .index = *index_,
                                  .census = *census_,
                                  .call = std::move(call),
                                  .origin = origin_.store,
                                  .offload = offload_,
                                  .uploads = *uploads_,
                                  .copies = *copy_keeper_,
                                  .stats = *stats_,
                                  .patience = options_.preload_patience,
                                  .fill_bytes_per_second = options_.fill_bytes_per_second});
  backup_service_ = std::make_unique<BackupService>(
      BackupService::Parts{.store = *store_,
                           .fence = fence_,
                           .certificates = options_.trust ? options_.trust->self().cluster : Uuid(),
                           .uploads = *uploads_,
                           .offload = offload_,
                           .restored = [this] {
                             replaced_ = true;
                             options_.begin_again();
                           }});
  fills_ = std::make_unique<BackgroundFills>(
      BackgroundFills::Parts{.links = *links_,
                             .tasks = tasks_,
                             .preloader = *preloader_,
                             .stats = *stats_,
                             .enabled = options_.background_fill});
  job_service_ = std::make_unique<JobService>(*links_, *stats_, *fills_);
  task_service_ = std::make_unique<TaskService>(TaskService::Parts{.tasks = tasks_,
                                                                   .links = *links_,
                                                                   .linker = *linker_,
                                                                   .preloader = *preloader_,
                                                                   .drainer = *drainer_,
                                                                   .stats = *stats_,
                                                                   .uploads = *uploads_,
                                                                   .offload = offload_});
}

}  // namespace forebay
