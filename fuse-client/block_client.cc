#include "fuse-client/block_client.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <numeric>
#include <utility>

#include "common/base/executors.h"
#include "common/wire/block_messages.h"
#include "common/wire/client_pool.h"
#include "fuse-client/block_client_parts.h"

namespace forebay {

namespace {

/// How often a node's local socket is looked for again.
constexpr Duration kDirectoryFor = std::chrono::seconds(10);
const std::string kUnixPrefix = "unix:";

/// A prefetch is answered as soon as the fill has begun.
constexpr Duration kPrefetchTimeout = std::chrono::seconds(5);

/// Rounds over all owners after which bad answers (as opposed to none) are given up.
constexpr int kBadRoundsMax = 3;

/// What to do after one owner's answer.
enum class Next : std::uint8_t { kReturn, kSameOwner, kNextOwner, kNextRound };

Next AfterFailure(Code code) {
  switch (code) {
    case Code::kStale:
    case Code::kInvalid:
      return Next::kReturn;
    case Code::kOverloaded:
      return Next::kSameOwner;
    // The node waited for S3 in vain. The next owner would only ask S3 a second time.
    case Code::kTimeout:
      return Next::kNextRound;
    // S3 may refuse one node alone, for its clock or its keys.
    case Code::kDenied:
    case Code::kUnavailable:
    case Code::kCorrupt:
    case Code::kInternal:
    case Code::kNotFound:
      return Next::kNextOwner;
  }
  return Next::kNextOwner;
}

/// What an answer brings, but for its header.
std::uint64_t BytesOf(const BlockRequest& request) {
  return EnclosingCells(request.range, request.block.length).size();
}

/// True for answers that another try is unlikely to change: the owner is there and cannot do it.
bool IsBadAnswer(Code code) {
  return code == Code::kCorrupt || code == Code::kInternal || code == Code::kNotFound;
}

}  // namespace

BlockClient::BlockClient(Parts parts, BlockClientOptions options)
    : parts_(parts),
      options_(std::move(options)),
      local_({parts.context, parts.pool, parts.segments, parts.stats, in_flight_}),
      random_(std::random_device{}()) {}

BlockClient::~BlockClient() = default;

Duration BlockClient::RandomPart(Duration most) {
  std::uniform_int_distribution<Duration::rep> pick(most.count() / 4, most.count());
  return Duration(pick(random_));
}

// A node that was suspect as the table was made may be well by now, and no other table need ever
// come: it is probed like one that was silent to us.
void BlockClient::ProbeSuspectsOf(const RingTable& table) {
  for (const NodeInfo& node : table.nodes()) {
    if (node.state == NodeState::kSuspect)
      ReportSilent(node.id, node.address, "the coordinator did not hear of it either");
  }
}

std::shared_ptr<const BlockClient::Directory> BlockClient::CurrentDirectory() {
  std::shared_ptr<const RingTable> table = parts_.ring.table();
  const TimePoint now = Clock::now();
  const bool same_table = directory_ && directory_->table == table;
  if (same_table && now < directory_->until) return directory_;
  if (!same_table) ProbeSuspectsOf(*table);
  auto fresh = std::make_shared<Directory>();
  for (const NodeInfo& node : table->nodes()) {
    const bool usable = IsHere(node) && !node.local_socket.empty() &&
                        ::access(node.local_socket.c_str(), R_OK | W_OK) == 0;
    fresh->addresses.push_back(usable ? kUnixPrefix + node.local_socket : node.address);
  }
  fresh->table = std::move(table);
  fresh->until = now + kDirectoryFor;
  directory_ = std::move(fresh);
  return directory_;
}

// A socket file may outlive its node, or belong to another user: then the address serves for a
// while.
void BlockClient::AvoidSocketOf(const std::string& node_id) {
  auto changed = std::make_shared<Directory>(*CurrentDirectory());
  const std::vector<NodeInfo>& nodes = changed->table->nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].id == node_id) changed->addresses[i] = nodes[i].address;
  }
  directory_ = std::move(changed);
}

// Machines that were cloned may have one id; what says another zone is another machine.
bool BlockClient::IsHere(const NodeInfo& node) const {
  return !options_.host_id.empty() && node.host_id == options_.host_id && !IsInAnotherZone(node);
}

// Only of those who both say where they lie.
bool BlockClient::IsInAnotherZone(const NodeInfo& node) const {
  return !options_.zone.empty() && !node.zone.empty() && node.zone != options_.zone;
}

std::size_t BlockClient::CopiesAmong(std::size_t owners) const {
  const std::uint32_t replicas =
      options_.replicas ? options_.replicas->load(std::memory_order_relaxed) : 1;
  return std::min<std::size_t>(replicas, owners);
}

void BlockClient::SortByDistance(const Directory& directory, std::span<const std::uint16_t> owners,
                                 std::span<std::uint8_t> places) const {
  const auto distance = [&](std::uint8_t place) {
    const NodeInfo& node = directory.table->nodes()[owners[place]];
    if (IsHere(node)) return 0;
    return !options_.zone.empty() && node.zone == options_.zone ? 1 : 2;
  };
  std::ranges::sort(places, [&](std::uint8_t a, std::uint8_t b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
}

BlockClient::Places BlockClient::OrderOf(const Directory& directory,
                                         std::span<const std::uint16_t> owners) const {
  Places order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  const std::size_t copies = CopiesAmong(owners.size());
  if (copies > 1) SortByDistance(directory, owners, std::span(order).first(copies));
  return order;
}

// Slow ones come after the others, and those that may be silent last: they are asked only when
// nobody else has an answer.
BlockClient::Routes BlockClient::RoutesFor(const Directory& directory, const BlockId& block) {
  Routes routes;
  Routes slow;
  Routes doubtful;
  const auto owners = directory.table->OwnersOf(PartitionOf(block));
  const auto order = OrderOf(directory, owners);
  bool before_first =
      !owners.empty() && !parts_.health.IsSilent(directory.table->nodes()[owners[0]].id);
  for (const std::uint8_t place : std::span(order).first(owners.size())) {
    const std::uint16_t index = owners[place];
    const NodeInfo& node = directory.table->nodes()[index];
    const bool is_first_owner = place == 0;
    before_first = before_first && !is_first_owner;
    const bool silent = parts_.health.IsSilent(node.id);
    const bool passed =
        !silent && parts_.pace.IsSlow(node.id) && !parts_.pace.TakeSample(node.id, Clock::now());
    const Route route{.node = &node,
                      .address = &directory.addresses[index],
                      .same_host = IsHere(node),
                      .cross_zone = IsInAnotherZone(node),
                      .is_first_owner = is_first_owner,
                      .after_slow = !silent && !passed && slow.count > 0,
                      .nearer = before_first};
    Routes& where = passed ? slow : routes;
    (silent ? doubtful : where).Add(route);
  }
  routes.Add(slow);
  routes.well = routes.count;
  routes.Add(doubtful);
  return routes;
}

Result<Cells> BlockClient::CellsOf(const BlockRequest& request, const Route& route,
                                   RpcReply reply) {
  proto::ReadBlockReply answer;
  const Status parsed = ParseMessage(reply.message, answer);
  if (!parsed) return Fail(parsed.error().Within("answer of " + route.node->id));
  return CellsOf(request, route, answer, std::move(reply.payload));
}

Result<Cells> BlockClient::CellsOf(const BlockRequest& request, const Route& route,
                                   const proto::ReadBlockReply& answer, Slice payload) {
  Result<Cells> cells = CellsOfReply(request, answer, std::move(payload));
  if (cells) {
    if (route.cross_zone) parts_.stats.CountCrossZone(cells->bytes.bytes.size());
    if (cells->tier != Tier::kS3) cells->tier = route.same_host ? Tier::kLocal : Tier::kPeer;
    return cells;
  }
  if (cells.error().code != Code::kCorrupt)
    return Fail(cells.error().Within("answer of " + route.node->id));
  parts_.stats.CountChecksumFailure();
  spdlog::warn("node {} answered {}; asking again", route.node->id, cells.error().message);
  return Fail(Code::kCorrupt, "node " + route.node->id + " answered bytes of \"" +
                                  request.object.key +
                                  "\" that do not match their checksums; see its log");
}

// A node of this machine may answer where the bytes lie; what is not found there is asked for once
// more, and not counted a second time.
Task<Result<Cells>> BlockClient::AskForCells(Question* question, Route route, Race* race) {
  Result<RpcReply> reply = co_await parts_.pool.Call(
      *route.address, Method::kReadBlock, question->message, question->deadline, &race->call);
  if (!reply) co_return Fail(reply.error().Within("node " + route.node->id));
  question->came += reply->payload.bytes.size();
  proto::ReadBlockReply answer;
  const Status parsed = ParseMessage(reply->message, answer);
  if (!parsed) co_return Fail(parsed.error().Within("answer of " + route.node->id));
  if (answer.go_on()) {
    question->sent_on = true;
    co_return Fail(Code::kNotFound, "node " + route.node->id + " sends its readers on");
  }
  if (!answer.has_place() || !question->message.by_place())
    co_return CellsOf(question->request, route, answer, std::move(reply->payload));
  std::optional<Cells> found = local_.Read(question->request, question->message, answer,
                                           {route.node->id, *route.address}, Clock::now());
  if (found) co_return std::move(*found);
  if (race->won) co_return Fail(Code::kUnavailable, "another owner has answered");
  question->message.set_by_place(false);
  question->message.set_counted(true);
  Result<Cells> cells = co_await AskForCells(question, route, race);
  co_return cells;
}

// The other owners may be asked meanwhile; whoever is right first has answered.
Task<Result<Cells>> BlockClient::AskInRace(Question* question, Route route) {
  const std::uint64_t number = next_race_++;
  Race race{.question = question, .node = &route.node->id, .asked = Clock::now()};
  races_.emplace(number, &race);
  WatchRaces();
  question->message.set_counted(false);
  const bool by_place = local_.Wants(*route.address, race.asked);
  question->message.set_by_place(by_place);
  question->message.set_neighbours(by_place ? local_.NeighboursOf(question->request) : 0);
  Result<Cells> cells = co_await AskForCells(question, route, &race);
  races_.erase(number);
  const TimePoint now = Clock::now();
  const Duration took = now - race.asked;
  if (race.won) {
    // What it would have taken is not known; it is more than this. Nor is what it has sent by now.
    parts_.pace.Note(route.node->id, took, now);
    question->came = BytesOf(question->request);
    co_return std::move(*race.won);
  }
  if (!cells && cells.error().code == Code::kDenied && !race.call.was_sent()) {
    question->refused = true;
    co_return Fail(Code::kUnavailable, cells.error().message);
  }
  if (!cells) co_return cells;
  if (!cells->fetched) parts_.pace.Note(route.node->id, took, now);
  cells->node = route.node->id;
  cells->took = took;
  cells->detour = race.asked - question->began;
  co_return cells;
}

/// What a node of this machine answers takes no network.
bool BlockClient::IsPaced(const Route& route) const {
  return options_.bandwidth != nullptr && options_.bandwidth->bounded() &&
         !route.address->starts_with(kUnixPrefix);
}

// What came is paid for, also what was wrong or too late for a reader; what did not, in the end
// not: a node that is overloaded, or not there, is asked again soon.
Task<Result<Cells>> BlockClient::AskOnce(Question* question, Route route) {
  const std::uint64_t paid = IsPaced(route) ? BytesOf(question->request) : 0;
  if (paid != 0 && options_.goes_first) options_.bandwidth->Charge(paid);
  if (paid != 0 && !options_.goes_first) {
    const TimePoint came = Clock::now();
    const Status may = co_await options_.bandwidth->Pass(paid, question->deadline);
    if (!may) co_return Fail(may.error());
    question->began += Clock::now() - came;  // of which no node is to blame
  }
  question->came = 0;
  route.Describe(question->message);
  const Duration waited =
      question->message.passed_over() ? Clock::now() - question->began : Duration();
  question->message.set_waited_ms(static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()));
  Result<Cells> cells = co_await AskInRace(question, route);
  if (paid > question->came) options_.bandwidth->GiveBack(paid - question->came);
  if (!cells && cells.error().code == Code::kUnavailable) NoteSilent(route, cells.error());
  co_return cells;
}

void BlockClient::NoteSilent(const Route& route, const Error& why) {
  const NodeInfo& node = *route.node;
  if (*route.address != node.address) AvoidSocketOf(node.id);
  ReportSilent(node.id, node.address, why.message);
}

// kCorrupt is asked again once, kOverloaded until the deadline.
Task<Result<Cells>> BlockClient::AskOwner(Question* question, Route route) {
  Duration pause = options_.pauses.overloaded;
  bool asked_again = false;
  for (;;) {
    Result<Cells> cells = co_await AskOnce(question, route);
    if (cells || stopped_) co_return cells;
    const Code code = cells.error().code;
    if (code == Code::kCorrupt && !asked_again) {
      asked_again = true;
      continue;
    }
    if (AfterFailure(code) != Next::kSameOwner) co_return cells;
    if (question->deadline.Expired()) co_return cells;
    co_await SleepFor(std::min(RandomPart(pause), question->deadline.Remaining()));
    pause = std::min(pause * 2, options_.pauses.longest);
  }
}

// One round over the owners: the first good answer, or the first refusal, or the last failure. An
// owner that takes no connection of ours may be wrong about that, with a clock that is an hour
// behind for one; what all of them say is so.
Task<Result<Cells>> BlockClient::AskAllOwners(Question* question, const Directory* directory) {
  const Routes routes = RoutesFor(*directory, question->request.block);
  question->sent_on = false;
  Error last{Code::kUnavailable,
             "no cache node has joined the ring; start forebay-node or see `forebay nodes`"};
  std::size_t refusals = 0;
  std::optional<Error> denied;
  for (std::size_t i = 0; i < routes.count; ++i) {
    const Status there = CheckLink();
    if (!there) co_return Fail(there.error());
    Route route = routes.list[i];
    question->refused = false;
    route.after_hot = std::exchange(question->sent_on, false);
    route.may_go_on = !question->stays && i + 1 < routes.well;
    if (i > 0 && !route.after_hot) parts_.stats.CountOwnerSwitch();
    Result<Cells> cells = co_await AskOwner(question, route);
    if (cells) co_return cells;
    if (route.after_hot && !question->sent_on) question->stays = true;
    last = std::move(cells.error());
    if (question->refused && ++refusals == routes.count) last.code = Code::kDenied;
    if (AfterFailure(last.code) != Next::kNextOwner) co_return Fail(std::move(last));
    if (last.code == Code::kDenied && !denied) denied = last;
    if (stopped_ || question->deadline.Expired()) break;
  }
  co_return Fail(denied ? std::move(*denied) : std::move(last));
}

// Nodes that have forgotten the link would hold each question up, for it may be a new one.
Status BlockClient::CheckLink() const {
  return options_.presence ? options_.presence->Check() : Status();
}

Task<Result<Cells>> BlockClient::Read(BlockRequest request, Deadline deadline) {
  const Status there = CheckLink();
  if (!there) co_return Fail(there.error());
  const InFlight counted(in_flight_);
  const TimePoint began = Clock::now();
  std::optional<Cells> known = local_.ReadKnown(request, began);
  if (known) {
    // Readers see the node through it: without these its pace would be that of its disk alone.
    const TimePoint now = Clock::now();
    known->took = now - began;
    parts_.pace.Note(known->node, known->took, now);
    co_return std::move(*known);
  }
  Question question{std::move(request), {}, deadline};
  question.message = ToProto(question.request);
  Duration pause = options_.pauses.first;
  int bad_rounds = 0;
  std::string cause;
  for (;;) {
    const std::shared_ptr<const Directory> directory = CurrentDirectory();
    Result<Cells> cells = co_await AskAllOwners(&question, directory.get());
    if (cells) co_return cells;
    Error& error = cells.error();
    const bool is_denied = error.code == Code::kDenied;  // by every owner that answers
    if (is_denied || AfterFailure(error.code) == Next::kReturn) co_return cells;
    if (stopped_) co_return Fail(Code::kUnavailable, "the mount is going away");
    if (IsBadAnswer(error.code) && ++bad_rounds >= kBadRoundsMax) {
      // Only the listing may say that a file does not exist; a node that says so of a link is late.
      if (error.code == Code::kNotFound) error.code = Code::kUnavailable;
      co_return cells;
    }
    const Duration wait = RandomPart(pause);
    const bool is_last = deadline.Remaining() <= wait;
    // A round that our own patience has ended says no more than that; the one before said why.
    if (cause.empty() || !is_last || error.code != Code::kTimeout) cause = error.message;
    if (is_last) {
      co_return Fail(Code::kTimeout,
                     "no owner of the block answered in time; the last cause was: " + cause);
    }
    parts_.stats.CountRetryRound();
    co_await SleepFor(wait);
    pause = std::min(pause * 2, options_.pauses.longest);
    // Sometimes the nodes are well and only our table is old.
    co_await parts_.refresher.Refresh(deadline.AtMost(kSilence));
  }
}

void BlockClient::ReportSilent(const std::string& node_id, const std::string& address,
                               std::string_view why) {
  if (stopped_ || !parts_.health.Failed(node_id)) return;
  spdlog::warn("cache node {} at {} does not answer, so reads go to the next owners: {}", node_id,
               address, why);
  Spawn(parts_.context, Probe(node_id, address));
}

Task<void> BlockClient::Probe(std::string node_id, std::string address) {
  const InFlight counted(in_flight_);
  // It may leave the ring meanwhile, or come back at another address.
  auto over = [this, node_id, address] {
    const std::shared_ptr<const RingTable> table = parts_.ring.table();
    const NodeInfo* node = table->Find(node_id);
    return stopped_ || node == nullptr || node->address != address;
  };
  const bool back = co_await ProbeUntilBack(&parts_.pool, address, options_.pauses.probe, over);
  if (back) {
    spdlog::info("cache node {} answers again", node_id);
    parts_.pace.Returned(node_id);
  }
  parts_.health.Recovered(node_id);
}

Task<Status> BlockClient::Prefetch(BlockRequest request) {
  if (stopped_) co_return Fail(Code::kUnavailable, "the mount is going away");
  if (prefetches_ >= kMaxPrefetches)
    co_return Fail(Code::kOverloaded, "as many blocks are being asked for ahead as may be");
  const Status there = CheckLink();
  if (!there) co_return there;
  const InFlight counted(in_flight_);
  ++prefetches_;
  Status asked = co_await AskAhead(&request);
  --prefetches_;
  // The reader that comes for the block finds out by itself what is wrong.
  if (!asked) spdlog::debug("prefetch of {}: {}", request.block.ToString(), asked.error().message);
  co_return asked;
}

Task<Status> BlockClient::AskAhead(const BlockRequest* request) {
  const std::shared_ptr<const Directory> directory = CurrentDirectory();
  const Routes routes = RoutesFor(*directory, request->block);
  if (routes.count == 0) co_return Fail(Code::kUnavailable, "no cache node has joined the ring");
  const Route& route = routes.list[0];
  proto::ReadBlockRequest message = ToProto(*request);
  route.Describe(message);
  const Deadline deadline = Deadline::After(kPrefetchTimeout);
  const Result<RpcReply> reply =
      co_await parts_.pool.Call(*route.address, Method::kPrefetchBlock, message, deadline);
  if (!reply) {
    if (reply.error().code == Code::kUnavailable) NoteSilent(route, reply.error());
    co_return Fail(reply.error().Within("node " + route.node->id));
  }
  proto::PrefetchBlockReply answer;
  const Status parsed = ParseMessage(reply->message, answer);
  if (!parsed) co_return Fail(parsed.error().Within("answer of " + route.node->id));
  if (answer.refused())
    co_return Fail(Code::kOverloaded, "node " + route.node->id + " fetches what readers wait for");
  co_return Status();
}

}  // namespace forebay
